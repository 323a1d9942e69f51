"""Controls: trees that know nothing of syntax, to hold a parser's trees against.

Each shape gives a constituency and a dependency tree over any words; docs/parsers.md draws them. They have no tags;
relations are ``root`` and ``dep``, constituents are ``S`` at the root and ``X`` below it.
"""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from structviews.errors import InputError
from structviews.sentence import ParsedSentence

from . import BATCH_TOKENS, CONSTITUENCY, DEPENDENCY, Options, Unparsed

Heads = Sequence[int]
# Left and right children of the internal nodes, as ParsedSentence has them.
Children = tuple[Sequence[int], Sequence[int]]


class TrivialParser:
    """Trees of one shape over any words.

    Args:
        shape: a name of ``SHAPES``.
    """

    kinds = frozenset({DEPENDENCY, CONSTITUENCY})
    batch_tokens = BATCH_TOKENS

    def __init__(self, shape: str) -> None:
        self.shape = shape
        self.heads, self.children = SHAPES[shape]

    def describe(self) -> dict[str, Any]:
        return {"name": "trivial", "version": "1", "settings": {}, "model": ""}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Trees for each sentence, which depend on its own words alone."""
        return [self._trees(tuple(tokens)) for tokens in sentences]

    def _trees(self, tokens: tuple[str, ...]) -> ParsedSentence:
        n = len(tokens)
        # The words are the seed, so that a sentence has the same trees in any run, shard and order.
        rng = random.Random(" ".join(tokens))
        heads = tuple(self.heads(n, rng))
        left, right = self.children(n, rng)
        inner = "" if self.shape == "chain" else "X"
        return ParsedSentence(
            tokens=tokens,
            heads=heads,
            relations=tuple("dep" if head else "root" for head in heads),
            left=tuple(left),
            right=tuple(right),
            labels=("",) * n + (inner,) * (n - 2) + ("S",) if n > 1 else ("S",),
        )


def load(argument: str, options: Options) -> TrivialParser:
    """The control of a shape; see the registry for the arguments."""
    if argument not in SHAPES:
        raise InputError(f"no trees of shape {argument!r}: choose one of {', '.join(f'trivial:{s}' for s in SHAPES)}")
    return TrivialParser(argument)


def on_the_word_before(n: int, rng: random.Random) -> Heads:
    """Each word depends on the one before; the first is the root."""
    return range(n)


def on_the_word_after(n: int, rng: random.Random) -> Heads:
    """Each word depends on the one after; the last is the root."""
    return (*range(2, n + 1), 0)


def on_the_middle(n: int, rng: random.Random) -> Heads:
    """The middle word is the root; the middle words of what is on its two sides depend on it, and so on."""
    heads = [0] * n
    spans = [(0, n, 0)]
    for start, end, head in spans:
        if start < end:
            middle = (start + end) // 2
            heads[middle] = head
            spans += [(start, middle, middle + 1), (middle + 1, end, middle + 1)]
    return heads


def at_random(n: int, rng: random.Random) -> Heads:
    """Any rooted tree over the words, crossing arcs included, with equal probability.

    A random walk over the words; each depends on the one from which the walk first came to it (Aldous 1990,
    Broder 1989).
    """
    heads = [0] * n
    here = rng.randrange(n)
    reached = {here}
    while len(reached) < n:
        before, here = here, rng.randrange(n)
        if here not in reached:
            heads[here] = before + 1
            reached.add(here)
    return heads


def to_the_right(n: int, rng: random.Random) -> Children:
    """``(a (b (c d)))``."""
    return range(n - 2, -1, -1), (n - 1, *range(n, 2 * n - 2)) if n > 1 else ()


def to_the_left(n: int, rng: random.Random) -> Children:
    """``(((a b) c) d)``."""
    return (0, *range(n, 2 * n - 2)) if n > 1 else (), range(1, n)


def in_halves(n: int, rng: random.Random) -> Children:
    """``((a b) (c d))``; of an odd number of words, one more is on the left."""
    children: list[tuple[int, int]] = []

    def node(start: int, end: int) -> int:
        if end - start == 1:
            return start
        middle = (start + end + 1) // 2
        children.append((node(start, middle), node(middle, end)))
        return n + len(children) - 1

    node(0, n)
    return tuple(left for left, _ in children), tuple(right for _, right in children)


def bracketed_at_random(n: int, rng: random.Random) -> Children:
    """Any binary tree over the words with equal probability.

    A tree in post-order is a sequence of ``n`` words and ``n - 1`` nodes, each of which takes two subtrees; of
    the rotations of any shuffled sequence exactly one is a tree (Dvoretzky and Motzkin 1947).
    """
    steps = [1] * n + [-1] * (n - 1)
    rng.shuffle(steps)
    height = list(accumulate(steps))
    # The tree begins after the last lowest point.
    start = max(range(len(steps)), key=lambda i: (-height[i], i)) + 1
    words, left, right = 0, [], []
    stack: list[int] = []
    for step in steps[start:] + steps[:start]:
        if step == 1:
            stack.append(words)
            words += 1
        else:
            right.append(stack.pop())
            left.append(stack.pop())
            stack.append(n + len(left) - 1)
    return left, right


SHAPES: dict[str, tuple[Callable[[int, random.Random], Heads], Callable[[int, random.Random], Children]]] = {
    "right-branching": (on_the_word_before, to_the_right),
    "left-branching": (on_the_word_after, to_the_left),
    "balanced": (on_the_middle, in_halves),
    "random": (at_random, bracketed_at_random),
    "chain": (on_the_word_after, to_the_left),
}
