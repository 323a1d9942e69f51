"""A run finds the tokeniser and the parser of its corpus again, whatever they were."""

from dataclasses import replace

import pytest

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.preparation import Preparer, SentenceError
from structviews.errors import InputError
from structviews.parsing import specification
from structviews.parsing.backends import PARSERS
from structviews.parsing.parser import Options
from structviews.parsing.sources import open_source
from structviews.runs.settings_file import Parsed

pytestmark = pytest.mark.filterwarnings("error::UserWarning")
SENTENCE = "Ich geh's z.B. an."
NEEDS = {"dependency", "constituency"}
CHAIN, RANDOM = specification.load("trivial:chain"), specification.load("trivial:random").describe()


@pytest.mark.parametrize("named", ["trivial:random", "trivial:random+trivial:balanced"])
def test_the_parser_of_the_corpus_is_loaded_by_what_the_manifest_says(named):
    parser = specification.load(named, Options("de"))
    preparer = Preparer(Parsed("", parser.describe(), {"name": "spacy.blank('de')"}))
    (tree,) = preparer.prepare([SENTENCE], NEEDS)
    assert [tree] == parser.parse([["Ich", "geh's", "z.B.", "an", "."]])


class Hyphens:
    """Finds words between hyphens."""

    kinds = frozenset({"dependency"})
    batch_tokens = 1000

    def tokenise(self, texts):
        return [tuple(text.split("-")) for text in texts]

    def parse(self, sentences):
        trees = specification.load("trivial:chain").parse(sentences)
        return [replace(tree, left=(), right=(), labels=()) for tree in trees]

    def describe(self):
        return {"name": "hyphens", "version": "1", "settings": {}, "model": ""}


@pytest.fixture
def asked(monkeypatch):
    """With which options the parser of hyphens was loaded."""
    found = []
    monkeypatch.setitem(PARSERS._known, "hyphens", lambda argument, options: found.append(options) or Hyphens())
    return found


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("named", ["hyphens", "hyphens:", "hyphens+trivial:chain"])
def test_the_parsers_own_tokeniser_is_used_again(tmp_path, named):
    (tmp_path / "a.txt").write_text("one-two-three\nfour-five\n")
    settings = {"parser": named, "layout": "lines", "max_tokens": 9}
    work = open_source([str(tmp_path / "a.txt")], **settings, tokenised=False).work
    described = work.describe()
    assert described["tokeniser"] == {"name": "hyphens"}
    parsed = Parsed("", described["parser"], described["tokeniser"])
    (words,) = Preparer(parsed).prepare(["six-seven"], ())
    assert words.tokens == ("six", "seven")
    with pytest.raises(InputError, match=r"sentences\[1\]: token 2 is ''"):
        Preparer(parsed).prepare(["one", "six--seven"], ())
    # Of a text that was tokenised before, the rules of the language.
    described = open_source([str(tmp_path / "a.txt")], **settings, tokenised=True).work.describe()
    parsed = Parsed("", described["parser"], described["tokeniser"])
    assert Preparer(parsed).prepare(["can't go"], ())[0].tokens == ("ca", "n't", "go")


def test_models_are_looked_for_where_they_were(asked, tmp_path):
    parsed = Parsed("", {"name": "hyphens", "language": "de"}, {}, models=str(tmp_path))
    Preparer(parsed).prepare([["a", "b"]], {"dependency"})
    Preparer(replace(parsed, models=str(tmp_path / "gone"))).prepare([["a", "b"]], {"dependency"})
    assert asked == [Options("de", tmp_path), Options("de", None)]


@pytest.mark.parametrize(
    ("parser", "given", "message"),
    [
        ({"name": "treebank"}, None, "parsed with builtin 1, but the run was trained on trees of treebank"),
        (RANDOM, CHAIN, "with trivial:chain 1, but the run was trained on trees of trivial:random 1"),
        (CHAIN.describe() | {"model": "other"}, CHAIN, "trees of trivial:chain 1 with another model"),
    ],
)
def test_another_parser_or_model_than_the_runs_warns(parser, given, message):
    with pytest.warns(UserWarning, match=message):
        (tree,) = Preparer(Parsed("", parser, {"name": "treebank"}), given).prepare(["It's late."], NEEDS)
    assert tree.tokens == ("It", "'s", "late", ".")
    assert tree.has_dependencies


@pytest.mark.parametrize("name", ["builtin", "builtin+heads"])
def test_better_weights_of_the_bundled_parser_do_not_warn(name):
    parser = specification.load(name)
    before = parser.describe() | {"model": "of an earlier release"}
    assert Preparer(Parsed("", before, {"name": "treebank"}), parser).prepare(["It's late."], NEEDS)


def test_trees_without_relations_are_refused_only_where_a_view_reads_them():
    bare = ParsedSentence(("Go", "."), heads=(0, 1), relations=("_", "_"))
    preparer = Preparer(Parsed("", RANDOM, {"name": "treebank"}))
    whole = replace(bare, relations=("root", "punct"))
    assert preparer.prepare([whole, bare], {"dependency"}) == [whole, bare]
    with pytest.raises(SentenceError, match=r"sentences\[1\]: .* no relations .*\(word 1 has '_'\): give them"):
        preparer.prepare([whole, bare], {"labelled"})
    (parsed,) = preparer.prepare([["Go", "."]], {"labelled"})
    assert parsed.has_dependencies
