"""Control parsers: trees that ignore syntax, as baselines for a parser's trees.

Each shape gives any sentence a constituency and a dependency tree; docs/parsers.md draws them. There are no tags;
relations are ``root`` and ``dep``, and constituents are ``S`` at the root and ``X`` below it.
"""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import unknown
from structviews.parsing.backends import PARSERS
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, Options, Parser, Unparsed

Heads = Sequence[int]
# Left and right children of the internal nodes, as in ParsedSentence.
Children = tuple[Sequence[int], Sequence[int]]


@PARSERS.register("trivial")
class TrivialParser(Parser):
    """Gives every sentence trees of one shape, a key of ``SHAPES``."""

    kinds = frozenset({DEPENDENCY, CONSTITUENCY})

    def __init__(self, argument: str, options: Options) -> None:
        if argument not in SHAPES:
            raise unknown("parser", f"trivial:{argument}", [f"trivial:{shape}" for shape in SHAPES])
        self.shape = argument

    def describe(self) -> dict[str, Any]:
        return {"name": "trivial", "version": "1", "settings": {}, "model": ""}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        return [self._trees(tuple(tokens)) for tokens in sentences]

    def _trees(self, tokens: tuple[str, ...]) -> ParsedSentence:
        n = len(tokens)
        # Seeded with the words, so that a sentence has the same trees in any run, shard and order.
        rng = random.Random(" ".join(tokens))
        heads, (left, right) = SHAPES[self.shape](n, rng)
        relations = tuple("dep" if head else "root" for head in heads)
        inner = "" if self.shape == "chain" else "X"
        labels = ("",) * n + (inner,) * (n - 2) + ("S",) if n > 1 else ("S",)
        return ParsedSentence(tokens, (), tuple(heads), relations, tuple(left), tuple(right), labels)


def on_the_middle(n: int) -> Heads:
    """The middle word is the root; the middle words of the parts to its left and right depend on it, and so on."""
    heads = [0] * n
    spans = [(0, n, 0)]
    for start, end, head in spans:
        if start < end:
            middle = (start + end) // 2
            heads[middle] = head
            spans += [(start, middle, middle + 1), (middle + 1, end, middle + 1)]
    return heads


def at_random(n: int, rng: random.Random) -> Heads:
    """A uniformly random rooted tree over the words; arcs may cross.

    A random walk over the words; each word depends on the one from which the walk first reached it (Aldous 1990,
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


def to_the_right(n: int, _: random.Random) -> tuple[Heads, Children]:
    """``(a (b (c d)))``; each word depends on the previous one."""
    return range(n), (range(n - 2, -1, -1), (n - 1, *range(n, 2 * n - 2)) if n > 1 else ())


def to_the_left(n: int, _: random.Random) -> tuple[Heads, Children]:
    """``(((a b) c) d)``; each word depends on the next one, and the last is the root."""
    return (*range(2, n + 1), 0), ((0, *range(n, 2 * n - 2)) if n > 1 else (), range(1, n))


def in_halves(n: int) -> Children:
    """``((a b) (c d))``; the left half has one more word if their number is odd."""
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
    """A uniformly random binary tree over the words.

    A tree in post-order is a sequence of ``n`` words and ``n - 1`` nodes, each of which joins two subtrees; exactly
    one rotation of any shuffled sequence is a tree (Dvoretzky and Motzkin 1947).
    """
    steps = [1] * n + [-1] * (n - 1)
    rng.shuffle(steps)
    height = list(accumulate(steps))
    # The tree starts after the last minimum.
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


def headed_at_random(n: int, rng: random.Random) -> tuple[Heads, Children]:
    """A uniformly random binary tree, and heads within it: of each node's two children, a random one holds its head.

    The head of the other child depends on it, so arcs do not cross, and every constituent has one head, as in syntax.
    """
    left, right = bracketed_at_random(n, rng)
    heads, head_of = [0] * n, list(range(n))
    for pair in zip(left, right, strict=True):
        head, dependent = (head_of[child] for child in rng.sample(pair, 2))
        heads[dependent] = head + 1
        head_of.append(head)
    return heads, (left, right)


SHAPES: dict[str, Callable[[int, random.Random], tuple[Heads, Children]]] = {
    "right-branching": to_the_right,
    "left-branching": to_the_left,
    "balanced": lambda n, rng: (on_the_middle(n), in_halves(n)),
    "random": lambda n, rng: (at_random(n, rng), bracketed_at_random(n, rng)),
    "random-heads": headed_at_random,
    "chain": to_the_left,
}
