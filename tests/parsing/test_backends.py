"""What every parser backend keeps to, alone and combined with any other."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from parsers_for_tests import CASES

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing import specification
from structviews.parsing.backends import PARSERS
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, KINDS, Options, Tokeniser, Unparsed
from structviews.parsing.specification import Combination, Guarded

WORDS = ["the", "old", "man", "saw", "a", "dog", "with", "one", "eye", ",", "and", "it", "ran", "home", "."]
# What brackets, CoNLL-U, other formats and vocabularies use for themselves, and what few models have seen.
ODD = [
    *("(", ")", "-LRB-", "[", "|", "+", "_", "#", "-NONE-", "ROOT", "<root>", "<unk>", "1-2", "S+VP", "\\", "'"),
    *("\u200b", "\ufffd", "e\u0301", "😀", "שלום", "汉字", "ﬁ", "x" * 300, "…", "1,000.5", "\u00ad", "Ω"),
]
LONG = 300


def random_sentences(n=40, seed=1):
    rng = random.Random(seed)
    return [[rng.choice(WORDS) for _ in range(rng.choice((1, 2, 3, 7, 15, 30)))] for _ in range(n)]


@pytest.fixture(scope="session")
def load(tiny_models):
    """Loads each case once."""
    loaded = {}

    def load(case, again=False):
        if again or case not in loaded:
            options = Options(models=tiny_models(CASES[case])[1], device="cpu") if CASES[case] else Options()
            loaded[case] = specification.load(case, options)
        return loaded[case]

    return load


@pytest.fixture(params=CASES)
def case(request):
    return request.param


@pytest.fixture
def parser(load, case, one_thread):
    return load(case)


def test_every_backend_is_under_test():
    ours = {name for name in PARSERS if PARSERS[name].__module__.startswith("structviews.")}
    assert ours == {case.partition(":")[0] for case in CASES}


def test_the_same_list_has_the_same_trees_in_order(load, case, parser, tmp_path_factory):
    sentences = random_sentences()
    parsed = parser.parse(sentences)
    assert parser.kinds
    assert parser.kinds <= set(KINDS)
    for words, tree in zip(sentences, parsed, strict=True):
        assert tree.tokens == tuple(words)
        there = {DEPENDENCY: tree.has_dependencies, CONSTITUENCY: tree.has_constituents}
        assert {kind for kind, has in there.items() if has} == parser.kinds
    assert parser.parse(sentences) == parsed
    again = load(case, again=True)
    assert again.parse(sentences) == parsed
    described = parser.describe()
    assert again.describe() == described
    assert described.keys() >= {"name", "version", "settings", "model", "language"}
    assert described["name"] == case
    assert json.loads(json.dumps(described)) == described
    assert str(tmp_path_factory.getbasetemp()) not in json.dumps(described)


def test_no_sentence_and_one_word(parser):
    assert parser.parse([]) == []
    (alone,) = parser.parse([["Yes"]])
    assert alone.tokens == ("Yes",)
    if DEPENDENCY in parser.kinds:
        assert alone.heads == (0,)


def test_odd_tokens_stay_as_they_are(parser):
    sentences = [ODD, *([token] for token in ODD), *([token, "bird", token] for token in ODD)]
    for words, tree in zip(sentences, parser.parse(sentences), strict=True):
        # A backend may know that it cannot parse a sentence.
        assert isinstance(tree, Unparsed) or tree.tokens == tuple(words)


def test_what_is_no_sentence_is_left_out(parser):
    tokens = [["A", "bird"], [], ["two words", "here"], ["", "empty"], ["line\nend"]]
    found = parser.parse(tokens)
    assert isinstance(found[0], ParsedSentence)
    assert [type(each) for each in found[1:]] == [Unparsed] * 4
    assert found[1].reason == "a sentence needs at least one token"


def test_a_very_long_sentence_does_no_harm_to_others(parser):
    rng = random.Random(0)
    words = [rng.choice(WORDS) for _ in range(LONG)]
    first, long, last = parser.parse([["Short", "."], words, ["Another", "one"]])
    assert isinstance(long, Unparsed) or long.tokens == tuple(words)
    assert isinstance(first, ParsedSentence)
    assert isinstance(last, ParsedSentence)


def test_its_tokeniser_finds_words_of_the_text(parser):
    if not isinstance(parser, Tokeniser):
        assert parser.tokenise is None
        return
    texts = ["The old man saw a dog.", "Yes", "a dog , and it ran"]
    for text, words in zip(texts, parser.tokenise(texts), strict=True):
        assert "".join(words) == "".join(text.split())
    assert parser.tokenise([]) == []


# One of each kind is enough beside any first.
@pytest.fixture(params=["builtin", "trivial:random", "spacy:tiny", "benepar"], ids=lambda case: f"+{case}")
def second(load, request, one_thread):
    return load(request.param)


def test_any_two_combine(parser, second):
    if DEPENDENCY not in parser.kinds or CONSTITUENCY not in second.kinds:
        with pytest.raises(InputError, match="the first gives dependencies, the second constituents"):
            Combination(parser, second)
        return
    both = Combination(parser, second)
    sentences = [*random_sentences(10), [], ["Yes"]]
    first, last = parser.parse(sentences), second.parse(sentences)
    assert both.kinds == {DEPENDENCY, CONSTITUENCY}
    for words, tree, dep, const in zip(sentences[:-2], both.parse(sentences), first, last, strict=False):
        assert tree.tokens == tuple(words)
        assert (tree.tags, tree.heads, tree.relations) == (dep.tags, dep.heads, dep.relations)
        assert (tree.left, tree.right, tree.labels) == (const.left, const.right, const.labels)
    described = both.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["name"] == f"{parser.describe()['name']}+{second.describe()['name']}"
    assert (described["dependency"], described["constituency"]) == (parser.describe(), second.describe())


HEADS, NODES = {"heads": (), "relations": ()}, {"left": (), "right": (), "labels": ()}


class Half:
    """Knows one kind of tree, and fails where it is told to."""

    batch_tokens = 1000

    def __init__(self, kind, stop):
        self.kinds = frozenset({kind})
        self.stop = stop
        self.seen = []

    def parse(self, sentences):
        self.seen += sentences
        tag, missing = ("T", NODES) if DEPENDENCY in self.kinds else ("C", HEADS)
        return [
            Unparsed(f"says {self.stop}")
            if self.stop in tree.tokens
            else replace(tree, tags=(tag,) * len(tree.tokens), **missing)
            for tree in specification.load("trivial:chain").parse(sentences)
        ]

    def describe(self):
        return {"name": "half", "version": "1", "settings": {}, "model": ""}


def test_the_second_parses_what_the_first_could():
    halves = [Half(DEPENDENCY, "stop"), Half(CONSTITUENCY, "halt")]
    guarded = [Guarded(half, f"half:{half.stop}", "en") for half in halves]
    parsed = Combination(*guarded).parse([["go"], ["stop"], ["halt"], ["go", "on"]])
    assert parsed[1:3] == [Unparsed("says stop"), Unparsed("says halt")]
    assert [each.tokens for each in (parsed[0], parsed[3])] == [("go",), ("go", "on")]
    assert parsed[3].tags == ("T", "T")
    assert sorted(map(tuple, halves[1].seen)) == [("go",), ("go", "on"), ("halt",)]
    with pytest.raises(
        InputError, match=r"--parser half:halt\+half:stop: half:halt gives no dependency trees: the first"
    ):
        Combination(*guarded[::-1])


@pytest.mark.parametrize(
    ("named", "options", "message"),
    [
        ("nope", {}, "unknown parser 'nope': choose one of .*builtin, "),
        ("", {}, "unknown parser '': choose one of .*builtin, "),
        ("builtin+builtin+builtin", {}, "names 3 parsers: give one, or one for dependencies"),
        ("builtin:big", {}, "--parser builtin:big: builtin takes no argument: leave out :big"),
        ("builtin", {"language": "de"}, r"--lang de: builtin only parses English \(en\)"),
        ("trivial:flat", {}, "unknown parser 'trivial:flat' .*: choose one of trivial:right-branching, "),
        ("trivial:chain", {"device": "nope"}, "--device nope: .*: give cpu, or cuda"),
        ("trivial:chain", {"models": Path("none")}, "--models none: no such folder"),
        ("trivial:chain", {"language": "en_GB"}, "--lang en_GB: give a code such as en, de or zh-hans"),
    ],
)
def test_parsers_that_cannot_be_loaded_are_one_line(named, options, message):
    with pytest.raises(InputError, match=message) as error:
        specification.load(named, Options(**options))
    assert "\n" not in str(error.value)
