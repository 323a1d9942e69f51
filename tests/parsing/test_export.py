"""A corpus goes out to treebank files and comes back; what came from such files goes out as the same files."""

import re
import tempfile
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from chain_parser import chain
from corpora import quiet, tiny_rows, write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from trees_for_tests import GUM, SHAPES

from structviews.corpus.layout import Row, Skipped, skipped_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.writer import merge, verify_corpus, write_subset
from structviews.errors import InputError
from structviews.parsing import pipeline
from structviews.parsing.export import export
from structviews.parsing.sources import TakeTrees, TreebankSource
from structviews.parsing.treebank import read_treebank

SHARD, LONGEST = 3, 4
FEATURES = """\
# newdoc id = doc-1
# sent_id = doc-1-a
# text = Don't say 1 000 €.
# a comment of mine
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=Yes
1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\tPolarity=Neg\t3\tadvmod\t3:advmod\t_
3\tsay\tsay\tVERB\tVB\t_\t0\troot\t0:root\t_
3.1\tsay\tsay\tVERB\tVB\t_\t_\t_\t0:root|3:conj\tCopyOf=3
4\t1 000\t1000\tNUM\tCD\tNumType=Card\t3\tobj\t3:obj|3.1:obj\tGloss=so\u0085|Id=\u2028

"""
TWO_ROOTS = "# sent_id = doc-1-b\n1\ta\ta\tX\tX\t_\t0\troot\t0:root\t_\n2\tb\tb\tX\tX\t_\t0\troot\t0:root\t_\n\n"
TOO_LONG = "# sent_id = doc-1-c\n" + "".join(f"{i}\tw\tw\tX\tX\t_\t{i - 1}\tdep\t_\t_\n" for i in range(1, 7)) + "\n"
LAST = "# newdoc id = doc-2\n# sent_id = 2-a\n1\tEnd\tend\tNOUN\tNN\tNumber=Sing\t0\troot\t0:root\tSpaceAfter=No\n\n"
BRACKETS = ["(ROOT (S (VB Do)  (RB n't) (VP (VB say) (NP-OBJ (CD 1␣000)))))\n", "(X (X a) (X b))\n"]
BRACKETS += [f"(X {'(X w)' * 6})\n", "((NN End))\n"]
ODD = replace(
    chain(["(", "friend(s)", "-LRB-", "[x]{y}", "#", "_", "\u200b", "“"]),
    tags=("-LRB-", "NN", "NN", "NN", "#", "_", "NN", "``"),
    relations=("root", "punct", "a:b", "_", "dep", "dep", "dep", "dep"),
    labels=("", "NP+QP", "", "", "", "", "", "", "", "VP", "", "", "", "", "S"),
)
HEADS, NODES = {"heads": (), "relations": ()}, {"left": (), "right": (), "labels": ()}


def parsed(paths, folder, longest=LONGEST):
    return pipeline.parse_corpus(TreebankSource(paths, TakeTrees(longest)), folder, sentences_per_shard=SHARD)[0]


def corpus_of(folder, files, name="a"):
    """A corpus of files, whose texts are given by their endings."""
    paths = [folder / f"{name}{ending}" for ending in files]
    for path, content in zip(paths, files.values(), strict=True):
        path.write_bytes(content.encode())
    return parsed(paths, folder / f"{name}.parsed")


def exported(corpus, out):
    return {path.suffix: path.read_bytes().decode() for path in export(corpus, out, quiet)}


def shards(corpus):
    return [path.read_bytes() for path in sorted(corpus.path.glob("*.arrow"))]


def corpus_with_skips(folder, sentences):
    """The sentences over documents, with gaps where some were skipped; one document was skipped as a whole."""
    items = []
    for i, sentence in enumerate(sentences):
        place = (i // 7, i % 7, 3 * i + 1)
        skip = i % 4 == 1 or place[0] == 2
        items.append(Skipped(*place, "more than 120 tokens") if skip else Row(*place, sentence))
    return ParsedCorpus.open(write_corpus(folder, items, SHARD, settings={"max_tokens": 200}))


@pytest.mark.parametrize("missing", [{}, HEADS, NODES, {"tags": ()}])
def test_a_corpus_that_goes_out_and_comes_back_has_the_same_shards(tmp_path, missing):
    sentences = [row.sentence for row in tiny_rows()] + [ODD] + [s for shape in SHAPES.values() for s in shape]
    corpus = corpus_with_skips(tmp_path / "x.parsed", [replace(sentence, **missing) for sentence in sentences])
    paths = export(corpus, tmp_path / "out", quiet)
    assert [path.name for path in paths] == ["out.conllu"] + ["out.ptb"] * (missing != NODES)
    again = parsed(paths, tmp_path / "again.parsed", longest=200)
    assert again.skipped == corpus.skipped
    assert shards(again) == shards(corpus)


def test_the_files_are_what_others_expect(tmp_path):
    (row, *_) = rows = tiny_rows()
    files = exported(ParsedCorpus.open(write_corpus(tmp_path / "x.parsed", rows)), tmp_path / "out")
    block = files[".conllu"].partition("\n\n")[0]
    assert [line for line in block.splitlines() if line.startswith("#")] == [
        "# structviews:made = conllu ptb",
        "# newdoc id = 0",
        "# sent_id = 0-0",
        f"# text = {' '.join(row.sentence.tokens)}",
        f"# structviews:place = 0 0 {row.line}",
    ]
    assert files[".ptb"].startswith("(ROOT (")
    # Nothing of such a text is kept when it comes back.
    again = parsed([tmp_path / "out.conllu", tmp_path / "out.ptb"], tmp_path / "again.parsed", longest=200)
    assert "kept" not in again.manifest
    assert "conllu" not in again.shard(0).column_names
    # Without our comments the trees and documents are still there, and what somebody adds is kept.
    mine = re.sub("# structviews:.*\n", "", files[".conllu"]).replace("\t_\t_\n", "\t_\tGloss=x\n", 1)
    plain = tmp_path / "plain.conllu"
    plain.write_text(mine)
    read = list(read_treebank([plain, tmp_path / "out.ptb"]))
    assert [(item.document, item.sentence) for item in read] == [(row.document, row.sentence) for row in rows]
    corpus = parsed([plain], tmp_path / "mine.parsed", longest=200)
    assert exported(corpus, tmp_path / "mine-too")[".conllu"] == mine
    with pytest.raises(InputError, match=r"has only trees, but .*mine\.parsed has the text of conllu files"):
        merge([corpus, parsed([tmp_path / "out.conllu"], tmp_path / "b.parsed", longest=200)], tmp_path / "all", quiet)


def test_an_export_that_was_killed_between_its_files_goes_on(tmp_path):
    corpus = ParsedCorpus.open(write_corpus(tmp_path / "x.parsed", tiny_rows()))
    first, second = export(corpus, tmp_path / "out", quiet)
    content = second.read_bytes()
    second.unlink()
    lock = tmp_path / ".out.conllu.lock"  # of a writer that was killed when its file was whole
    lock.touch()
    export(corpus, tmp_path / "out", quiet)
    assert second.read_bytes() == content
    assert not lock.exists()
    first.write_bytes(first.read_bytes() + b"# mine\n")
    second.unlink()
    with pytest.raises(InputError, match=r"out\.conllu already exists: .*--out"):
        export(corpus, tmp_path / "out", quiet)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (ParsedSentence(("a",), ("X Y",), labels=("",)), "document 0, position 0: 'X Y' cannot be written to a treeb"),
        (ParsedSentence(("a",)), "no trees of either kind"),
    ],
)
def test_what_cannot_be_exported(tmp_path, sentence, message):
    corpus = ParsedCorpus.open(write_corpus(tmp_path / "x.parsed", [Row(0, 0, 1, sentence)]))
    with pytest.raises(InputError, match=message):
        export(corpus, tmp_path / "out", quiet)
    assert not (tmp_path / "out.ptb").exists()


BOTH = {".conllu": FEATURES + TWO_ROOTS + TOO_LONG + LAST, ".ptb": "\n".join(BRACKETS)}


@pytest.mark.parametrize(
    "files",
    [
        BOTH,
        {".conllu": "\n\n# lone\n\n" + LAST + "\n\n" + FEATURES + "# the end\n\n# or not"},
        {".conllu": (FEATURES + LAST).replace("\n", "\r\n")},
        {".conllu": TOO_LONG + TWO_ROOTS + LAST},
        {".ptb": "\n" + "\n\n".join(BRACKETS) + "\n \n"},
    ],
)
def test_files_come_back(tmp_path, files):
    corpus = corpus_of(tmp_path, files)
    faults = {"2 dependency roots", "more than 4 tokens"} if TWO_ROOTS in files.get(".conllu", "") else set()
    assert all(any(fault in skip.reason for skip in corpus.skipped) for fault in faults)
    assert not list(verify_corpus(corpus.path, quiet))
    assert exported(corpus, tmp_path / "out") == files
    again = parsed([tmp_path / f"out{ending}" for ending in files], tmp_path / "again.parsed")
    assert shards(again) == shards(corpus)
    assert again.fingerprint == corpus.fingerprint


def test_brackets_that_are_no_whole_file_need_their_places(tmp_path):
    corpus = corpus_of(tmp_path, {".ptb": "".join(BRACKETS).removesuffix("\n")})
    both = merge([corpus, corpus], tmp_path / "both.parsed", quiet)
    files = exported(both, tmp_path / "out")
    assert files[".ptb"] == "".join([BRACKETS[0], BRACKETS[1], BRACKETS[3]] * 2)
    # The words and places are of our own making, and are not kept when they come back.
    assert files[".conllu"].startswith("# structviews:made = conllu\n")
    again = parsed([tmp_path / "out.conllu", tmp_path / "out.ptb"], tmp_path / "again.parsed")
    assert again.kept == ["ptb"]
    assert [replace(row, ptb=row.ptb.strip()) for row in again] == [replace(row, ptb=row.ptb.strip()) for row in both]
    assert again.skipped == both.skipped


WORD = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1, max_size=4)
VALUE = st.just("_") | WORD
COMMENT = WORD | st.sampled_from(["newdoc id = x", "newdoc", "newdoc id = y", "sent_id = a-1", "sent_id = b-1"])


@st.composite
def conllu_sentences(draw):
    """A sentence with anything that CoNLL-U allows; it may be too long, or no tree."""
    n = draw(st.integers(1, LONGEST + 1))
    heads = [draw(st.integers(0, n)) for _ in range(n)] if draw(st.booleans()) else range(n)
    values = st.lists(VALUE, min_size=8, max_size=8)
    rows = [[f"1-{n}", *draw(values), "_"]] if draw(st.booleans()) else []
    for i, head in enumerate(heads, 1):
        before, after = draw(values)[:5], draw(values)[:3]
        rows.append([str(i), *before, str(head), *after])
        if draw(st.integers(0, 4)) == 0:
            rows.append([f"{i}.1", *before, "_", *after])
    lines = [f"# {each}" for each in draw(st.lists(COMMENT, max_size=3))] + ["\t".join(row) for row in rows]
    return "".join(f"{line}\n" for line in lines) + "\n" * draw(st.integers(1, 3))


SOME = st.lists(conllu_sentences(), max_size=4)
ENDS = st.sampled_from(["", "# at the end\n", "# at the end\n\n", "# newdoc id = z"])


@settings(max_examples=10)  # each writes and reads seven corpora
@given(SOME, SOME, st.booleans(), ENDS)
def test_any_file_comes_back_also_in_parts(before, after, cut, end):
    content = "".join([*before, LAST, *after]).rstrip("\n" if cut else "") + ("" if cut else end)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = corpus_of(folder, {".conllu": content})
        assert exported(corpus, folder / "out") == {".conllu": content}
        assert shards(parsed([folder / "out.conllu"], folder / "again.parsed")) == shards(corpus)
        # Twice the same corpus as one: a file that ends in the middle of a line goes on with another sentence.
        merged = merge([corpus, corpus], folder / "both.parsed", quiet)
        check_part(merged, folder / "both")
        write_subset(merged, np.arange(len(merged) // 3, len(merged)), folder / "part.parsed")
        check_part(ParsedCorpus.open(folder / "part.parsed"), folder / "part")


def check_part(corpus, out):
    """A corpus that is not a whole file goes out with all lines of its sentences, and comes back in its places."""
    assert not list(verify_corpus(corpus.path, quiet))
    files = exported(corpus, out)
    again = parsed([out.with_suffix(".conllu")], out.with_suffix(".again"))
    assert [(location(each), each.sentence) for each in again] == [(location(each), each.sentence) for each in corpus]
    assert again.skipped == corpus.skipped
    assert exported(again, out.with_suffix(".twice")) == files
    ours = [line for line in files[".conllu"].split("\n") if not line.startswith("# structviews:place")]
    blocks = sorted([*corpus, *(skip for table in corpus.tables() for skip in skipped_of(table))], key=location)
    theirs = [line for each in blocks for line in each.conllu.split("\n")]
    assert list(filter(str.strip, ours)) == list(filter(str.strip, theirs))


location = attrgetter("document", "position", "line")


@pytest.mark.skipif(not GUM.is_dir(), reason="the treebanks are not at ../shared/data/treebanks")
@pytest.mark.parametrize(
    ("files", "documents", "sentences"),
    [(("gum/dev.conllu", "gum/dev.ptb"), 30, 1575), (("ewt/dev.conllu",), 318, 2001)],
)
def test_real_treebanks_are_read_and_come_back(tmp_path, files, documents, sentences):
    paths = [GUM.parent / file for file in files]
    corpus, _ = pipeline.parse_corpus(TreebankSource(paths, TakeTrees(50)), tmp_path / "x.parsed")
    assert {skip.reason for skip in corpus.skipped} == {"more than 50 tokens"}
    places = [each.document for each in (*corpus, *corpus.skipped)]
    assert (len(set(places)), len(places)) == (documents, sentences)
    assert (corpus.has_dependencies, corpus.has_constituents) == (True, len(files) == 2)
    files = exported(corpus, tmp_path / "out")
    for path in paths:
        assert files[path.suffix] == path.read_text("utf-8")
