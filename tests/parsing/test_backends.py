"""What every parser backend keeps to, alone and combined with any other."""

import json
import random

import pytest
from chain_parser import ChainParser, chain
from tiny_parsers import CASES, ODD_SENTENCES

from structviews.errors import InputError
from structviews.parsing import specification
from structviews.parsing.backends import PARSERS
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, KINDS, Options, Tokeniser, Unparsed
from structviews.parsing.sources import TakeTrees
from structviews.parsing.specification import Combination, Guarded

WORDS = ["the", "old", "man", "saw", "a", "dog", "with", "one", "eye", ",", "and", "it", "ran", "home", "."]
ODD = [token for tokens in ODD_SENTENCES for token in tokens]
ODD += ["ROOT", "<root>", "<unk>", "1-2", "S+VP", "\\", "'", "\u200b", "\ufffd", "ﬁ", "x" * 300, "1,000.5", "\u00ad"]


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


def test_what_is_no_sentence_or_very_long_does_no_harm_to_others(parser):
    assert parser.parse([]) == []
    rng = random.Random(0)
    long = [rng.choice(WORDS) for _ in range(300)]
    no_sentences = [[], ["two words", "here"], ["", "empty"], ["line\nend"]]
    alone, first, longest, last, *others = parser.parse([["Yes"], ["Short", "."], long, ["A", "bird"], *no_sentences])
    assert [tree.tokens for tree in (alone, first, last)] == [("Yes",), ("Short", "."), ("A", "bird")]
    assert DEPENDENCY not in parser.kinds or alone.heads == (0,)
    assert isinstance(longest, Unparsed) or longest.tokens == tuple(long)
    assert [type(each) for each in others] == [Unparsed] * 4
    assert others[0].reason == "a sentence needs at least one token"


def test_odd_tokens_stay_as_they_are(parser):
    sentences = [ODD, *([token] for token in ODD), *([token, "bird", token] for token in ODD)]
    for words, tree in zip(sentences, parser.parse(sentences), strict=True):
        # A backend may know that it cannot parse a sentence.
        assert isinstance(tree, Unparsed) or tree.tokens == tuple(words)


def test_its_tokeniser_finds_words_of_the_text(parser):
    if not isinstance(parser, Tokeniser):
        assert parser.tokenise is None
        return
    texts = ["The old man saw a dog.", "Yes", "Go  home!  Now.", "a\u00a0b 1 000"]
    for text, words in zip(texts, parser.tokenise(texts), strict=True):
        assert "".join(words) == "".join(text.split())
        assert all(word.split() == [word] for word in words)
    assert parser.tokenise([]) == []


# One with constituents and one without are enough beside any first.
@pytest.mark.parametrize("other", ["builtin", "spacy:tiny"])
def test_any_two_combine(parser, load, other):
    second = load(other)
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


class Half(ChainParser):
    """Knows one kind of tree, and fails where it is told to."""

    def __init__(self, kind, stop):
        self.kinds = frozenset({kind})
        self.stop = stop
        self.seen = []

    def parse(self, sentences):
        self.seen += sentences
        return [Unparsed(f"says {self.stop}") if self.stop in words else chain(words, self.stop) for words in sentences]


def test_the_second_parses_what_the_first_could():
    halves = [Half(DEPENDENCY, "stop"), Half(CONSTITUENCY, "halt")]
    guarded = [Guarded(half, f"half:{half.stop}", "en") for half in halves]
    first, *unparsed, last = Combination(*guarded).parse([["go"], ["stop"], ["halt"], ["go", "on"]])
    assert unparsed == [Unparsed("says stop"), Unparsed("says halt")]
    assert [first.tokens, last.tokens] == [("go",), ("go", "on")]
    assert last.labels[-1] == "halt"
    assert sorted(map(tuple, halves[1].seen)) == [("go",), ("go", "on"), ("halt",)]
    with pytest.raises(InputError, match=r"--parser half:halt\+half:stop: half:halt gives no dependency trees: the"):
        Combination(*guarded[::-1])


def test_what_is_added_to_a_treebank_has_constituents(monkeypatch):
    monkeypatch.setitem(PARSERS._known, "half", lambda argument, options: Half(DEPENDENCY, argument))
    with pytest.raises(InputError, match=r"--parser treebank\+half:x: half:x gives no constituency trees: the first"):
        TakeTrees(9, parser="treebank+half:x").describe()
