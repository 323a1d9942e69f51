"""Changed sentences against what plain loops over words make of the recipes."""

from collections import Counter

import numpy as np
import pytest
from grammar import bracketed, grammar_rows

from structviews.evaluation.parses import Parses
from structviews.evaluation.probing import changes
from structviews.evaluation.probing.changes import Text


@pytest.fixture(scope="module")
def sentences():
    return [row.sentence for row in grammar_rows(400, seed=3)]


@pytest.fixture(scope="module")
def parses(sentences):
    return Parses.of(sentences)


def token_lists(text: Text):
    tokens = iter(text.words.names[text.words.ids].tolist())
    return [[next(tokens) for _ in range(n)] for n in text.lengths]


def test_a_swapped_bigram_is_two_neighbours_behind_the_first_word(sentences, parses, rng):
    bigrams = changes.pick_bigrams(parses, rng)
    chosen = rng.permutation(np.flatnonzero(bigrams >= 0))
    changed = rng.random(len(chosen)) < 0.5
    first = bigrams[chosen[changed]]
    text = Text.of(parses, chosen, np.append(first, first + 1), np.append(first + 1, first))
    for i, new, is_changed in zip(chosen, token_lists(text), changed, strict=True):
        old = list(sentences[i].tokens)
        different = [k for k in range(len(old)) if old[k] != new[k]]
        assert bool(different) == is_changed
        if is_changed:
            k = different[0]
            assert (different, new[k : k + 2]) == ([k, k + 1], old[k + 1 : k - 1 : -1])
            assert k > 0
            assert not {",", "."} & {old[k], old[k + 1]}
    assert len(chosen) == len(sentences)
    # Quotes, and sentences without two words.
    inside = ("(`` ``) (NN it) (VB works) (NN so)", "(NN it) (NN so)", "(NN it) (, ,) (NN so) (NN so)")
    others = Parses.of([bracketed(f"(S {words} (. .))") for words in inside])
    assert changes.pick_bigrams(others, rng).tolist() == [-1, -1, -1]


def test_a_replacement_has_the_tag_and_the_bigram_counts_of_the_original(sentences, parses, rng):
    parts = rng.integers(3, size=len(sentences))
    parts[:20] = -1
    old, new = changes.replace_words(parses, parts, 3, 60, rng)
    chosen = np.flatnonzero(new >= 0)
    assert len(chosen) > 100
    assert chosen.min() >= 20
    counts = Counter(pair for s in sentences for pair in zip(s.tokens, s.tokens[1:], strict=False))
    words = Counter(t for s in sentences for t in s.tokens)
    tag_of = dict(pair for s in sentences for pair in zip(s.tokens, s.tags, strict=True))
    homes = {}
    for i, tokens in zip(chosen, token_lists(Text.of(parses, chosen, old[chosen], new[chosen])), strict=True):
        before = list(sentences[i].tokens)
        (k,) = [k for k in range(len(before)) if before[k] != tokens[k]]
        assert tag_of[tokens[k]] == sentences[i].tags[k]
        assert all(3 <= words[word] <= 60 for word in (before[k], tokens[k]))
        for left in (k - 1, k):
            new_pair, old_pair = (tuple(each[left : left + 2]) for each in (tokens, before))
            assert 0.5 <= (counts[new_pair] + 1) / counts[old_pair] <= 2
        homes.setdefault(tokens[k], set()).add(parts[i])
    assert all(len(home) == 1 for home in homes.values())


def test_clauses_are_swapped_around_the_only_conjunction_of_the_grammar(sentences, parses, rng):
    found = changes.coordinations(parses)
    assert found.sentences.tolist() == [i for i, s in enumerate(sentences) if "and" in s.tokens]
    changed = rng.random(len(found.sentences)) < 0.5
    text = token_lists(changes.invert(parses, found, changed))
    for i, new, is_changed, sign in zip(found.sentences, text, changed, found.longer, strict=True):
        tokens = list(sentences[i].tokens)
        at = tokens.index("and")
        first, second = tokens[:at], tokens[at + 1 : -1]
        inverted = [second[0].capitalize(), *second[1:], "and", first[0].lower(), *first[1:], "."]
        assert new == (inverted if is_changed else tokens)
        assert sign == np.sign(len(first) - len(second))


MOM_SLEPT = "(S (NP (NN mom)) (VP (VBD slept)))"
GO = "(S (VP (VB go)))"


@pytest.mark.parametrize(
    ("first", "conjunction", "second", "expected"),
    [
        ("(S (NP (PRP I)) (VP (VBD ran)))", "(, ,) (CC but)", MOM_SLEPT, "Mom slept , but I ran ."),
        ("(S (NP (NNP Ann)) (VP (VBD ran)))", "(CC or)", MOM_SLEPT, "Mom slept or Ann ran ."),
        ("(S (NP (DT THE) (NN dog)) (VP (VBD ran)))", "(CC or)", GO, "Go or THE dog ran ."),
        ("(S (NP (DT A) (NN dog)) (VP (VBD ran)))", "(CC or)", GO, "Go or a dog ran ."),
        ("(S (NP (DT a) (NN dog)) (VP (VBD ran)))", "(CC or)", GO, "go or a dog ran ."),
        ("(S (NP (DT A) (CC and) (DT B)) (VP (VBD ran)))", "(CC or)", GO, None),
        ("(S (NP (DT A)) (VP (VBD ran)))", "(CC or)", "(VP (VB go))", None),
    ],
)
def test_inversion_by_hand(first, conjunction, second, expected):
    parses = Parses.of([bracketed(f"(S {first} {conjunction} {second} (. .))")])
    found = changes.coordinations(parses)
    text = changes.invert(parses, found, np.ones(len(found.sentences), dtype=bool))
    assert [" ".join(tokens) for tokens in token_lists(text)] == ([expected] if expected else [])


def test_neighbours_are_of_the_same_length_and_part(sentences, parses, rng):
    parts = rng.integers(-1, 3, size=len(sentences))
    anchors = rng.permutation(np.flatnonzero(parts >= 0))[:150]
    near, far = changes.tree_neighbours(parses, parts, anchors, rng)
    n_found = 0
    for anchor, n, f in zip(anchors, near, far, strict=True):
        if n < 0:
            assert f < 0
            continue
        n_found += 1
        assert len({(parses.lengths[i], parts[i]) for i in (anchor, n, f)}) == 1
        assert anchor not in (n, f)
        spans = [set(sentences[i].spans()) for i in (anchor, n, f)]
        assert len(spans[0] ^ spans[1]) < len(spans[0] ^ spans[2])
    assert n_found > 50
