"""Sentences with trees: drawn at random, of the extreme shapes, and from a treebank."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import strategies as st

from structviews.corpus.sentence import ParsedSentence

GUM = Path(__file__).resolve().parents[2] / "shared" / "data" / "treebanks" / "gum"
WORDS = ("a", "black", "bird", "is", "sitting", "on", "dead", "tree")
# An integer between two bounds, both included: from a random generator, or drawn by hypothesis.
Choose = Callable[[int, int], int]


def random_sentence(n: int, rng: random.Random) -> ParsedSentence:
    """``n`` words with a dependency tree (not projective, in general) and a binary constituency tree."""
    return _sentence(n, rng.randint)


@st.composite
def sentences(draw, max_words: int = 12):
    n = draw(st.integers(1, max_words))
    return _sentence(n, lambda low, high: draw(st.integers(low, high)))


def _sentence(n: int, choose: Choose) -> ParsedSentence:
    tokens = tuple(WORDS[choose(0, len(WORDS) - 1)] for _ in range(n))
    splits: dict[tuple[int, int], int] = {}
    return with_trees(tokens, _heads(n, choose), lambda a, b: splits.setdefault((a, b), choose(a + 1, b - 1)))


def _heads(n: int, choose: Choose) -> tuple[int, ...]:
    """Words join the tree in a random order, each below one that is in it."""
    order = list(range(1, n + 1))
    for i in range(n):
        j = choose(i, n - 1)
        order[i], order[j] = order[j], order[i]
    heads = [0] * n
    for k, word in enumerate(order[1:], 1):
        heads[word - 1] = order[choose(0, k - 1)]
    return tuple(heads)


def with_trees(tokens: tuple[str, ...], heads: tuple[int, ...], split: Choose) -> ParsedSentence:
    """A sentence whose constituents ``[a, b)`` are cut in two at ``split(a, b)``."""
    n = len(tokens)
    left: list[int] = []
    right: list[int] = []

    def build(start: int, end: int) -> int:
        if end - start == 1:
            return start
        middle = split(start, end)
        children = build(start, middle), build(middle, end)
        left.append(children[0])
        right.append(children[1])
        return n + len(left) - 1

    build(0, n)
    relations = tuple("dep" if head else "root" for head in heads)
    labels = ("",) * (2 * n - 2) + ("S",)
    return ParsedSentence(tokens, ("X",) * n, heads, relations, tuple(left), tuple(right), labels)


def related(sentence: ParsedSentence) -> ParsedSentence:
    """The sentence with relations of several kinds: a subtype that is listed, one that is not, and an unknown one."""
    kinds = ("nsubj", "nmod:poss", "nsubj:other", "obj", "zzz")
    return replace(sentence, relations=tuple(kinds[(i + h) % len(kinds)] for i, h in enumerate(sentence.heads)))


def words(n: int) -> tuple[str, ...]:
    return tuple(WORDS[i % len(WORDS)] for i in range(n))


def chain(n: int) -> ParsedSentence:
    """Every word depends on the one before; constituents branch to the right."""
    return with_trees(words(n), tuple(range(n)), lambda a, b: a + 1)


def chain_to_the_left(n: int) -> ParsedSentence:
    return with_trees(words(n), (*range(2, n + 1), 0), lambda a, b: b - 1)


def star(n: int) -> ParsedSentence:
    """Every word depends on the middle one; constituents are halved."""
    root = n // 2 + 1
    heads = tuple(0 if i == root else root for i in range(1, n + 1))
    return with_trees(words(n), heads, lambda a, b: (a + b) // 2)


WORD = chain(1)
SHAPES = {
    "word": [WORD],
    "words": [WORD] * 4,
    "chain": [chain(15)],
    "chain to the left": [chain_to_the_left(15)],
    "star": [star(15)],
    "pair": [chain(2), star(2)],
    "mixed": [star(9), WORD, chain(13), chain_to_the_left(6), WORD, star(2), chain(13)],
    "random": [random_sentence(n, random.Random(n)) for n in (1, 2, 3, 5, 8, 13, 21, 34, 1, 40)],
}


@cache
def gum(n: int) -> list[ParsedSentence]:
    """The first sentences of GUM's development part that are trees; skips the test where GUM is missing."""
    from structviews.parsing.treebank import read_treebank

    paths = [GUM / "dev.conllu", GUM / "dev.ptb"]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"needs the treebank GUM in {GUM}")
    parsed = (row.sentence for row in read_treebank(paths))
    return list(islice((s for s in parsed if isinstance(s, ParsedSentence)), n))
