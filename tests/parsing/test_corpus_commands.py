"""``structviews inspect``, ``corpus`` and ``verify``."""

import json
from dataclasses import replace
from functools import partial

import pytest
from chain_parser import chain
from corpora import tiny_corpus, write_corpus
from drawn_sentences import BIRD
from rich.console import Console
from shell import fails

from structviews.cli import corpora
from structviews.corpus.layout import Row, Skipped
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.parsing.drawing import choose


@pytest.fixture
def corpus(tmp_path):
    sentences = [Row(0, 0, 1, BIRD), Skipped(0, 1, 2, "odd [x]"), Row(0, 2, 3, chain(["No", "."]))]
    return write_corpus(tmp_path / "x.parsed", sentences)


@pytest.fixture
def inspect(structviews, monkeypatch):
    monkeypatch.setattr(corpora, "console", Console(width=80))
    return partial(structviews, "inspect")


def test_overview(corpus, inspect):
    code, output, _ = inspect("x.parsed")
    assert code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    assert ["tokens", "2", "4", "3.5", "5", "5"] in rows
    assert ["dependency depth", "1", "2", "1.5", "2", "2"] in rows
    assert ["binary constituency depth", "1", "2", "2.5", "4", "4"] in rows
    cells = [cell for row in rows for cell in row]
    assert [cells[cells.index(relation) + 1] for relation in ("nsubj", "root")] == ["1", "2"]
    assert ["odd [x]", "1"] in rows
    assert "2 sentences, 7 tokens, 1 document, 1 skipped" in output


EXPECTED = """\
sentence 0: document 0, position 0, line 1
A black bird sings .

constituency tree          binarised
           S                                  S
      ┌────┴─────┬────┐                   ┌───┴───────────┐
      NP         VP   │                   ·               │
 ┌────┼────┐     │    │              ┌────┴─────────┐     │
 DT   JJ   NN   VBZ   .              NP             │     │
 │    │    │     │    │         ┌────┴────────┐     │     │
 A  black bird sings  .         ·             │     │     │
                            ┌───┴────┐        │     │     │
                            DT       JJ       NN  VP+VBZ  .
                            │        │        │     │     │
                            A      black     bird sings   .
nodes of the binarised tree, level by level from the leaves: 5 1 1 1 1

dependency tree
  ┌─► A      DT   det
  ├─► black  JJ   amod
┌─┴─► bird   NN   nsubj
├──── sings  VBZ  root
└───► .      .    punct
words, level by level from the leaves: 3 1 1
"""


def test_choices(tmp_path):
    sentences = [chain(["odd" if i % 2 else "even", f"w{i}"]) for i in range(15)] * 2
    rows = [Row(0, i, i + 1, sentence) for i, sentence in enumerate(sentences)]
    corpus = ParsedCorpus.open(write_corpus(tmp_path / "many.parsed", rows, shard_size=15))

    def numbers(**choice):
        choice = {"sentence": None, "grep": None, "random": None, "seed": 1, "tree": None} | choice
        sentences, note = choose(corpus, **choice)
        found = [int(chosen.name.removeprefix("sentence ")) for chosen in sentences]
        assert [corpus.sentence(number) for number in found] == [chosen.sentence for chosen in sentences]
        return found, note

    even = [i for i in range(30) if i % 15 % 2 == 0]
    assert numbers(grep="w3") == ([3, 18], "")
    assert numbers(grep="even") == (even[:10], "the first 10 of 16; use --random 10 for a random sample")
    drawn, _ = numbers(grep="even", random=8)
    assert len(set(drawn)) == 8
    assert set(drawn) <= set(even)
    assert drawn == sorted(drawn) == numbers(grep="even", random=8)[0]
    assert drawn != numbers(grep="even", random=8, seed=2)[0]


def test_a_sentence_that_is_given(inspect):
    given = ["--text", "No dog-house", "--parser", "chain", "--tree", "dependency"]
    assert inspect(*given)[1].splitlines()[0] == "No dog - house"
    assert inspect(*given, "--tokenised")[1].splitlines()[0] == "No dog-house"
    code, output, errors = inspect("--text", "A dog barks.")
    assert (code, errors) == (0, "")
    assert output.startswith("A dog barks .\n\nconstituency tree")


def test_sentences_are_drawn(corpus, tmp_path, inspect):
    assert inspect("x.parsed", "--sentence", "0") == (0, EXPECTED, "")
    lines = EXPECTED.splitlines(keepends=True)
    found = inspect("x.parsed", "--grep", "BIRD sings", "--tree", "dependency")
    assert found == (0, "".join([*lines[:3], *lines[17:]]), "")
    written = "trees/sentence-0.svg\ntrees/sentence-1.svg\n"
    assert inspect("x.parsed", "--random", "2", "--svg", "trees") == (0, written, "")
    assert inspect("x.parsed", "--sentence", "0", "--svg", "a.svg") == (0, "a.svg\n", "")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "trees" / "sentence-0.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "several parsed corpora (words.parsed, x.parsed): name one of them"),
        (("x.parsed", "--sentence", "0", "--grep", "A"), "--sentence 0 selects one sentence"),
        (("x.parsed", "--grep", "cow"), "--grep 'cow': not found in x.parsed"),
        (("x.parsed", "--random", "0"), "--random 0: give at least 1"),
        (("x.parsed", "--svg", "a.svg"), "no sentence to draw: choose with --sentence"),
        (("words.parsed", "--sentence", "0", "--tree", "constituency"), "--tree constituency: sentence 0 of"),
        (("x.parsed", "--sentence", "0", "--svg", "a.png"), "--svg a.png"),
        (("y.parsed",), "y.parsed does not exist: make a parsed corpus with `structviews parse`"),
        (("--text", "A", "--random", "1"), "--text takes no corpus"),
        (("--text", "stop it", "--parser", "chain"), "'stop it': not parsed: says stop"),
        (("x.parsed", "--sentence", "0", "--svg", "no/a.svg"), "--svg no/a.svg cannot be written"),
        (("--text", "A", "--parser", "treebank"), "--parser treebank: a treebank is read from files"),
    ],
)
def test_bad_choices_are_one_line(corpus, tmp_path, inspect, arguments, message):
    write_corpus(tmp_path / "words.parsed", [Row(0, 0, 1, replace(BIRD, left=(), right=(), labels=()))])
    assert fails(inspect, tmp_path, *arguments).startswith(f"error: {message}")


def test_the_commands_one_after_the_other(structviews, tmp_path):
    tiny_corpus(tmp_path / "t.parsed")
    merged = structviews("corpus", "merge", "t.parsed", "t.parsed", "-o", "tt.parsed")
    assert merged[:2] == (0, "tt.parsed: 24 sentences in 6 documents\n")
    assert json.loads(structviews("corpus", "stats", "tt.parsed", "--json")[1])["documents"] == 6
    assert "bytes per token" in structviews("corpus", "stats", "tt.parsed")[1]
    assert structviews("corpus", "export", "t.parsed")[:2] == (0, "t.conllu\nt.ptb\n")
    assert structviews("verify", "tt.parsed")[:2] == (0, "tt.parsed: no faults\n")
    path = tmp_path / "tt.parsed/shard-00001.arrow"
    path.write_bytes(path.read_bytes()[:-8] + b"ARROWING")
    fault = "shard-00001.arrow: its checksum does not match the manifest\n"
    assert structviews("verify", "tt.parsed")[:2] == (1, fault)
