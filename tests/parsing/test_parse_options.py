"""``structviews parse`` with parsers, languages and models: what is recorded, and what is one line."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from shell import fails

from structviews.corpus.layout import Skipped
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.parsing import pipeline, specification
from structviews.parsing.backends import for_text
from structviews.parsing.binarise import headed
from structviews.parsing.parser import Options
from structviews.parsing.sources import open_source

TEXT = "Ich geh's z.B. an.\nSie auch.\n"
SAMPLE = [Path(__file__).parents[2] / "data" / "treebank" / name for name in ("sample.conllu", "sample.ptb")]
BOTH = "trivial:balanced+trivial:random"


@pytest.fixture
def parse(structviews):
    return partial(structviews, "parse")


@pytest.fixture
def text(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    return tmp_path / "a.txt"


@pytest.mark.slow
def test_a_combination_is_recorded_with_its_language_and_models(text, tmp_path, parse):
    models = tmp_path / "models"
    models.mkdir()
    options = (text, "--parser", BOTH, "--lang", "de", "--models", models, "--format", "lines", "-o", "a.parsed")
    assert parse(*options)[0] == 0
    corpus = ParsedCorpus.open(tmp_path / "a.parsed")
    assert corpus.parser == specification.load(BOTH, Options("de")).describe()
    assert corpus.parser["dependency"]["name"] == "trivial:balanced"
    assert corpus.manifest["tokeniser"]["name"] == "spacy.blank('de')"
    assert corpus.manifest["models"] == str(models.resolve())
    assert corpus.sentence(0).tokens == ("Ich", "geh's", "z.B.", "an", ".")
    models.rename(tmp_path / "moved")
    moved = [tmp_path / "moved" if option == models else option for option in options]
    assert "already exists" in parse(*moved)[1]
    assert "differs in parser and tokeniser" in parse(*moved, "--lang", "fr")[2]


def test_constituents_from_dependencies_of_a_parser_and_of_a_treebank(text, tmp_path, parse, structviews):
    assert parse(text, "--parser", "trivial:random+heads", "--format", "lines", "-o", "a.parsed")[0] == 0
    corpus = ParsedCorpus.open(tmp_path / "a.parsed")
    assert corpus.parser["name"] == "trivial:random+heads"
    assert [row.sentence for row in corpus] == [headed(row.sentence) for row in corpus]
    assert structviews("corpus", "export", "a.parsed", "-o", "b")[0] == 0
    assert parse("b.conllu", "--parser", "treebank+heads")[0] == 0
    again = ParsedCorpus.open(tmp_path / "b.parsed")
    assert [row.sentence for row in again] == [row.sentence for row in corpus]
    assert for_text(again.parser["name"]) == "builtin+heads"


def test_a_parser_adds_constituents_to_a_treebank_which_comes_back(tmp_path, parse, structviews):
    def parsed(name, *arguments):
        assert parse(*arguments, "-o", name)[0] == 0
        return ParsedCorpus.open(tmp_path / name)

    whole = parsed("gold.parsed", *SAMPLE, "--parser", "treebank")
    gold = {(row.document, row.position): row.sentence for row in whole}
    added = ("--parser", "treebank+trivial:random", "--max-tokens", 20, "--workers", 2)
    corpus = parsed("added.parsed", SAMPLE[0], *added)
    trivial = specification.load("trivial:random")
    assert corpus.parser == {"name": "treebank+trivial:random", "language": "en", "constituency": trivial.describe()}
    assert {skip.reason for skip in corpus.skipped} == {"more than 20 tokens"}
    for row in corpus:
        own, (other,) = gold[row.document, row.position], trivial.parse([row.sentence.tokens])
        assert row.sentence == replace(own, left=other.left, right=other.right, labels=other.labels)
    assert structviews("corpus", "export", "added.parsed", "-o", "b")[0] == 0
    again = parsed("again.parsed", "b.conllu", "b.ptb", "--parser", "treebank")
    assert [replace(row, conllu="", ptb="") for row in again] == [replace(row, conllu="") for row in corpus]
    assert again.skipped == [replace(skip, conllu="") for skip in corpus.skipped]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt", "--lang", "de"], "--lang de: builtin only parses English: choose --parser stanza or another"),
        (["a.txt", "--lang", "en_GB"], "--lang en_GB: give a code such as en, de or zh-hans"),
        (["a.txt", "--device", "nope"], "--device nope: "),
        (["a.txt", "--models", "none"], "--models none: no such folder"),
        (["a.txt", "--parser", "builtin+builtin+builtin"], "'builtin+builtin+builtin' names 3 parsers: give one"),
        (["a.txt", "--parser", "trivial:flat"], "unknown parser 'trivial:flat'"),
        (["a.txt", "--parser", "treebank+builtin"], "--parser treebank+builtin: adds constituents to a "),
        (["a.conllu", "--parser", "treebank+builtin+heads"], "--parser treebank+builtin+heads: give treebank "),
        (["a.ptb", "--parser", "treebank+heads"], "--parser treebank+heads: adds constituents to a .conllu"),
        (["a.txt", "--parser", "builtin+builtin+heads"], "--parser builtin+builtin+heads: constituents come from "),
        (["a.txt", "--parser", "heads"], "--parser heads: heads comes after one parser of "),
        (["a.txt", "--parser", "nope"], "unknown parser 'nope': choose one of "),
        (["a.txt", "--max-tokens", "0"], "--max-tokens 0: give a number from 1 to 16384"),
        (["a.txt", "--workers", "0"], "--workers 0"),
        (["a.txt", "b.txt"], "2 sources"),
        (["a.conllu", "b.conllu", "--parser", "treebank"], "a treebank is one .conllu file, one bracketed file, or"),
        (["a.conllu"], "a.conllu is a treebank file: add --parser treebank"),
        (["t.conllu", "--parser", "treebank", "--engine", "ray"], "--engine ray: treebank files already have trees"),
        (["a.txt", "--engine", "ray"], "--engine ray needs Ray: pip install 'structviews[ray]'"),
        (["a.txt", "--address", "head:6379"], "--address head:6379 is the address of a Ray cluster: add --engine ray"),
        (["a.conllu", "--parser", "treebank", "--device", "cpu"], "--format, --tokenised, --strict and "),
    ],
)
def test_bad_options_are_one_line(text, tmp_path, parse, monkeypatch, arguments, message):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "t.conllu").write_text("1\tNo\t_\t_\tUH\t_\t0\troot\t_\t_\n\n")
    assert fails(parse, tmp_path, *arguments, "-o", "x.parsed").startswith(f"error: {message}")


def test_faults_are_skipped_and_recorded_or_strict(tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "a.parsed"
    path.write_text("a word\nno fault\ndrop this\n")
    settings = {"parser": "faulty", "layout": "lines", "tokenised": True, "max_tokens": 9}
    message = "line 1, 'a word': faulty returned different tokens: leave out --strict to skip these"
    with pytest.raises(InputError, match=f"^{message}$"):
        pipeline.parse_corpus(open_source([str(path)], **settings, strict=True), out)
    # What was begun strictly goes on otherwise, and is the same.
    corpus, _ = pipeline.parse_corpus(open_source([str(path)], **settings), out)
    assert [row.sentence.tokens for row in corpus] == [("no", "fault")]
    reasons = "different tokens", "0 sentences for 1"
    assert corpus.skipped == [Skipped(0, i, i + 1, f"faulty returned {reasons[i // 2]}") for i in (0, 2)]
