import re

import pytest
from shell import refused

from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.treebank import read_treebank


def row(index, form, head, relation="dep", tag="NN"):
    return f"{index}\t{form}\t_\t_\t{tag}\t_\t{head}\t{relation}\t_\t_"


def words(*forms):
    """A chain over the words."""
    return [row(i, form, i - 1, "dep" if i > 1 else "root") for i, form in enumerate(forms, 1)]


@pytest.fixture
def write(tmp_path):
    def write(name, *lines):
        content = lines[0] if isinstance(lines[0], bytes) else "".join(f"{line}\n" for line in lines).encode()
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def read(*paths):
    return list(read_treebank(paths))


def test_both_trees_of_the_same_words(write):
    conllu = write("t.conllu", "# text = I go", row(1, "I", 2, "nsubj", "PRP"), row(2, "go", 0, "root", "VBP"), "")
    ptb = write("t.ptb", "(ROOT (S (NP-SBJ (PRP I)) (VP (VB go))))")
    (item,) = read(conllu, ptb)
    assert item == (0, 0, 2, item.sentence, conllu.read_text(), ptb.read_text())
    tags = ("PRP", "VBP")  # CoNLL-U's, not the bracketed file's
    nodes = (0,), (1,), ("NP", "VP", "S")
    assert item.sentence == ParsedSentence(("I", "go"), tags, (2, 0), ("nsubj", "root"), *nodes)
    assert read(ptb, conllu) == [item]


def test_a_tree_may_have_several_lines_and_a_file_a_byte_order_mark(write):
    lines = ["", "( (S", "    (NP (PRP I))", "", "  (VP (VBP go))))", "(S (VB Go))", ""]
    ptb = write("t.ptb", "\ufeff".join(["", "\n".join(lines)]).encode())
    first, second = read(ptb)
    assert (first.sentence.tokens, first.line, second.sentence.tokens, second.line) == (("I", "go"), 2, ("Go",), 6)
    assert first.ptb + second.ptb == "\n".join(lines)
    conllu = write("t.conllu", "\ufeff" + row(1, "a", 0), "")
    assert read(conllu)[0].sentence.tokens == ("a",)


@pytest.mark.parametrize(
    ("comments", "places"),
    [
        (["newdoc id = a", "sent_id = x-1", "newdoc", "newdoc", "sent_id = z-9"], "0.0 0.1 1.0 2.0 2.1"),
        ([f"sent_id = GUM_a-{name}" for name in ("b-1", "b-2", "c-1", "c-7")], "0.0 0.1 1.0 1.1"),
    ],
)
def test_documents_begin_at_newdoc_or_by_sent_id(write, comments, places):
    lines = [line for comment in comments for line in (f"# {comment}", *words("w"), "")]
    assert " ".join(f"{item.document}.{item.position}" for item in read(write("t.conllu", *lines))) == places


ONE = [*words("a"), ""]
TWO = [*words("a", "b"), ""]


def located(*comments):
    """Sentences with our comments."""
    return [line for comment in comments for line in (f"# structviews:{comment}", *words("a"), "")]


NOT_ONE = r"t\.ptb:2: not one bracketed tree: "


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"t.conllu": [*words("a"), "2\tb\t1"]}, r"t\.conllu:2: 3 columns, but CoNLL-U has 10"),
        ({"t.conllu": [row(1, "a", "_")]}, r"t\.conllu:1: head '_' is not a number"),
        ({"t.conllu": [row(1, "a", 0), row(2, "b", "9" * 5000)]}, r"t\.conllu:2: head '9{40}' is not a number"),
        ({"t.conllu": [row("9" * 5000, "a", 0)]}, r"t\.conllu:1: word id '9{40}', expected 1: number"),
        ({"t.conllu": [f"# structviews:place = {'9' * 5000} 1 1", *ONE]}, r"t\.conllu:1: '9{40}' is not a location"),
        ({"t.conllu": [b"# fine\n1\ta\xff\t"]}, r"t\.conllu:2: not UTF-8 at byte 3 of the line"),
        ({"t.ptb": ["(A a)", "(S (A a)"]}, NOT_ONE),
        ({"t.ptb": ["(A a)", "(S (-NONE- *))"]}, NOT_ONE),
        ({"t.conllu": TWO, "t.ptb": ["(S (A a) (B c))"]}, r"t\.ptb:1: token 2 is 'c', but 'b' at .*t\.conllu:1"),
        ({"t.conllu": TWO, "t.ptb": ["(S (A a) (B b) (C c))"]}, r"token 3 is 'c', but missing at"),
        ({"t.conllu": ONE, "t.ptb": ["(A a)", "(B b)"]}, r"t\.ptb:2: this sentence has no counterpart"),
        ({"t.conllu": [row(1, "a", "_"), row(2, "b", 0)], "t.ptb": ["(S (A a) (B b))"]}, ":1: word 1 has no head"),
        ({"t.conllu": located("place = 0 1 5", "place = 0 1 6")}, r"t\.conllu:5: the location .*remove the .*comm"),
        ({"t.conllu": located("place = 0 0 5", "skipped = 0 0 6 odd")}, r"t\.conllu:4: the location"),
        ({"t.conllu": located("place = here")}, r"t\.conllu:1: 'here' is not a location \(document, position, line\)"),
        ({"none.conllu": []}, r"none\.conllu: No such file"),
    ],
)
def test_what_cannot_be_read_is_one_line(write, tmp_path, files, match):
    paths = [write(name, *lines) if lines else tmp_path / name for name, lines in files.items()]
    assert re.search(match, refused(read, *paths))
