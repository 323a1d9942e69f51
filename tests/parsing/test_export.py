import re

import pytest
from corpora import tiny_rows, write_corpus
from trees_for_tests import SHAPES, with_trees

from structviews.corpus.format import Row, Skipped
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing import pipeline
from structviews.parsing.export import export
from structviews.parsing.sources import TreebankSource
from structviews.parsing.treebank import read_treebank

SHARD = 5
MAX_TOKENS = 200
ODD = ParsedSentence(
    tokens=("(", "friend(s)", "-LRB-", "[x]{y}", "#", "_", "\u200b", "“"),
    tags=("-LRB-", "NN", "NN", "NN", "#", "_", "NN", "``"),
    heads=(2, 0, 2, 3, 3, 3, 3, 3),
    relations=("punct", "root", "a:b", "_", "dep", "dep", "dep", "dep"),
    left=with_trees("abcdefgh", (2, 0, 2, 3, 3, 3, 3, 3), lambda a, b: a + 1).left,
    right=with_trees("abcdefgh", (2, 0, 2, 3, 3, 3, 3, 3), lambda a, b: a + 1).right,
    labels=("", "NP+QP", "", "", "", "", "", "", "", "", "VP", "", "", "", ""),
)


def quiet(done, total):
    """Progress that nobody looks at."""


def corpus_of(folder, sentences):
    return ParsedCorpus.open(write_corpus(folder, sentences, SHARD, settings={"max_tokens": MAX_TOKENS}))


def with_skips(sentences):
    """The sentences over documents, with gaps where some were skipped; one document was skipped as a whole."""
    result = []
    for i, sentence in enumerate(sentences):
        place = (i // 7, i % 7, 3 * i + 1)
        skip = i % 4 == 1 or place[0] == 2
        result.append(Skipped(*place, "more than 120 tokens") if skip else Row(*place, sentence))
    return result


def back(paths, folder):
    source = TreebankSource(paths, max_tokens=MAX_TOKENS)
    corpus, _ = pipeline.parse_corpus(source, folder, sentences_per_shard=SHARD)
    return corpus


def shards(corpus):
    return {path.name: path.read_bytes() for path in corpus.path.glob("*.arrow")}


def without(sentence, *fields):
    return ParsedSentence(**{name: () if name in fields else getattr(sentence, name) for name in sentence.__slots__})


HEADS = ("heads", "relations")
NODES = ("left", "right", "labels")


@pytest.mark.parametrize("missing", [(), HEADS, NODES, ("tags",), ("tags", *HEADS)])
def test_a_corpus_that_goes_out_and_comes_back_has_the_same_shards(tmp_path, missing):
    sentences = [row.sentence for row in tiny_rows()] + [ODD] + [s for shape in SHAPES.values() for s in shape]
    sentences = [without(sentence, *missing) for sentence in sentences]
    corpus = corpus_of(tmp_path / "x.parsed", with_skips(sentences))
    paths = export(corpus, tmp_path / "out", quiet)
    assert [path.name for path in paths] == ["out.conllu"] + ["out.ptb"] * (missing != NODES)
    again = back(paths, tmp_path / "again.parsed")
    assert list(again) == list(corpus)
    assert again.skipped == corpus.skipped
    assert shards(again) == shards(corpus)


def test_the_files_are_what_others_expect(tmp_path):
    (row, *_) = rows = tiny_rows()
    conllu, ptb = export(ParsedCorpus.open(write_corpus(tmp_path / "x.parsed", rows)), tmp_path / "out", quiet)
    blocks = conllu.read_text().split("\n\n")
    assert len(blocks) == len(rows) + 1
    comments = [line for line in blocks[0].splitlines() if line.startswith("#")]
    assert comments == [
        "# structviews:made = conllu ptb",
        "# newdoc id = 0",
        "# sent_id = 0-0",
        f"# text = {' '.join(row.sentence.tokens)}",
        f"# structviews:place = 0 0 {row.line}",
    ]
    assert sum("# newdoc" in block for block in blocks) == len({row.document for row in rows})
    assert ptb.read_text().splitlines()[0].startswith("(ROOT (")
    # Without our comments the trees and documents are still there.
    plain = tmp_path / "plain.conllu"
    plain.write_text(re.sub("# structviews:.*\n", "", conllu.read_text()))
    read = list(read_treebank([plain, ptb]))
    assert [item.sentence for item in read] == [row.sentence for row in rows]
    assert [item.document for item in read] == [row.document for row in rows]


def test_an_export_that_was_killed_between_its_files_goes_on(tmp_path):
    corpus = corpus_of(tmp_path / "x.parsed", tiny_rows())
    first, second = export(corpus, tmp_path / "out", quiet)
    content = second.read_bytes()
    second.unlink()
    lock = tmp_path / ".out.conllu.lock"  # of a writer that was killed when its file was whole
    lock.touch()
    export(corpus, tmp_path / "out", quiet)
    assert second.read_bytes() == content
    assert not lock.exists()
    with pytest.raises(InputError, match=r"out\.conllu already exists"):
        export(corpus, tmp_path / "out", quiet)
    first.write_bytes(first.read_bytes() + b"# mine\n")
    second.unlink()
    with pytest.raises(InputError, match=r"out\.conllu already exists"):
        export(corpus, tmp_path / "out", quiet)


def test_what_cannot_be_exported(tmp_path):
    corpus = corpus_of(tmp_path / "x.parsed", [Row(0, 0, 1, ParsedSentence(("a",), ("X Y",), labels=("",)))])
    with pytest.raises(InputError, match="document 0, position 0: 'X Y' cannot be written to a treebank file"):
        export(corpus, tmp_path / "out", quiet)
    assert not (tmp_path / "out.ptb").exists()
    (tmp_path / "there.conllu").write_text("mine")
    with pytest.raises(InputError, match=r"there\.conllu already exists: .*--out"):
        export(corpus, tmp_path / "there", quiet)
    bare = corpus_of(tmp_path / "y.parsed", [Row(0, 0, 1, ParsedSentence(("a",)))])
    with pytest.raises(InputError, match="no trees of either kind"):
        export(bare, tmp_path / "out", quiet)


@pytest.mark.parametrize(
    ("comments", "match"),
    [
        (["place = 0 1 5", "place = 0 1 6"], r"t\.conllu:5: the location .*corpus merge.*remove the .*comments"),
        (["place = 1 0 5", "place = 0 0 6"], r"t\.conllu:5: the location"),
        (["place = 0 0 5", "skipped = 0 0 6 odd"], r"t\.conllu:4: the location"),
        (["place = here", "place = 0 0 6"], r"t\.conllu:1: 'here' is not a location \(document, position, line\)"),
        (["place = 0 -1 5", "place = 0 0 6"], r"t\.conllu:1: '0 -1 5'"),
    ],
)
def test_places_that_cannot_be(tmp_path, comments, match):
    word = "1\tw\t_\t_\tX\t_\t0\troot\t_\t_"
    path = tmp_path / "t.conllu"
    path.write_text("".join(f"# structviews:{comment}\n{word}\n\n" for comment in comments))
    with pytest.raises(InputError, match=match) as error:
        list(read_treebank([path]))
    assert "\n" not in str(error.value)


def test_heads_may_be_missing_from_a_whole_sentence_beside_brackets(tmp_path):
    conllu, ptb = tmp_path / "t.conllu", tmp_path / "t.ptb"
    ptb.write_text("(S (A a) (B b))\n")
    rows = "1\ta\t_\t_\tX\t_\t_\t_\t_\t_\n2\tb\t_\t_\tX\t_\t{}\t_\t_\t_\n\n"
    conllu.write_text(rows.format("_"))
    (item,) = read_treebank([conllu, ptb])
    assert item.sentence.has_constituents
    assert not item.sentence.has_dependencies
    conllu.write_text(rows.format("0"))
    with pytest.raises(InputError, match=r"t\.conllu:1: word 1 has no head"):
        list(read_treebank([conllu, ptb]))
