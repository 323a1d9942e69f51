"""The trees of a sentence drawn with characters."""

from collections.abc import Sequence
from typing import NamedTuple

from nltk.tree import Tree
from nltk.tree.prettyprinter import TreePrettyPrinter

from structviews.cache import Row
from structviews.sentence import ParsedSentence

from .binarise import unbinarise

# Box-drawing characters by the directions in which they reach: up, down, left, right.
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
BOXES = {
    0: " ",
    UP | DOWN: "│",
    LEFT | RIGHT: "─",
    DOWN | RIGHT: "┌",
    UP | RIGHT: "└",
    UP | DOWN | RIGHT: "├",
    DOWN | LEFT | RIGHT: "┬",
    UP | LEFT | RIGHT: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}
ARROW = "►"


def draw(row: Row, width: int) -> str:
    """A sentence of a corpus with its trees, in lines of at most ``width`` characters where that goes."""
    parts = [f"document {row.document}, position {row.position}, line {row.line}", " ".join(row.sentence.tokens)]
    if row.sentence.has_constituents:
        parts.append(draw_constituents(unbinarise(row.sentence), width))
    if row.sentence.has_dependencies:
        parts.append(draw_dependencies(row.sentence))
    return "\n\n".join(parts)


def draw_constituents(tree: Tree, width: int) -> str:
    """A tree with its root at the top, or at the left if that is too wide."""
    upright = TreePrettyPrinter(tree).text(unicodelines=True)
    lines = [line.rstrip() for line in upright.splitlines() if line.strip()]
    return "\n".join(lines) if max(map(len, lines)) <= width else "\n".join(sideways(tree))


def sideways(tree: Tree) -> list[str]:
    """A tree with its root at the left, a line for every constituent and every word."""
    if len(tree) == 1:
        below = [tree[0]] if isinstance(tree[0], str) else sideways(tree[0])
        return [f"{tree.label()} {below[0]}", *below[1:]]
    lines = [tree.label()]
    for child in tree:
        first, *others = sideways(child)
        last = child is tree[-1]
        lines.append(f"{'└─' if last else '├─'} {first}")
        lines += [f"{'   ' if last else '│  '}{line}" for line in others]
    return lines


def draw_dependencies(sentence: ParsedSentence) -> str:
    """A line for every word: arcs from heads to dependents at the left, then word, tag and relation."""
    words = max(map(len, sentence.tokens))
    tags = max(map(len, sentence.tags), default=0)
    arcs = draw_arcs(sentence.heads)
    rows = zip(arcs, sentence.tokens, sentence.tags or [""] * len(arcs), sentence.relations, strict=True)
    return "\n".join(f"{arc} {word:{words}}  {tag:{tags}}  {relation}" for arc, word, tag, relation in rows)


class Arc(NamedTuple):
    """An arc between the words ``low < high``, one of which is the head; words count from 1."""

    low: int
    high: int
    head: int


def draw_arcs(heads: Sequence[int]) -> list[str]:
    """The arcs of a dependency tree, a line for each word; the arrow is at the dependent.

    Short arcs are drawn next to the words, and each arc outside the shorter ones that it meets.
    """
    arcs = [Arc(min(head, word), max(head, word), head) for word, head in enumerate(heads, 1) if head]
    levels: dict[Arc, int] = {}
    for arc in sorted(arcs, key=lambda arc: arc.high - arc.low):
        levels[arc] = 1 + max((level for other, level in levels.items() if meet(arc, other)), default=0)
    right = 2 * max(levels.values(), default=0)
    grid = [[0] * (right + 1) for _ in heads]
    for (low, high, _), level in levels.items():
        column = right - 2 * level
        for line in range(low, high + 1):
            grid[line - 1][column] |= (UP if line > low else 0) | (DOWN if line < high else 0)
        for line in (low, high):
            grid[line - 1][column] |= RIGHT
            for between in range(column + 1, right + 1):
                grid[line - 1][between] |= LEFT | RIGHT
    lines = ["".join(BOXES[cell] for cell in line) for line in grid]
    return [line[:-1] + (ARROW if head else line[-1]) for line, head in zip(lines, heads, strict=True)]


def meet(a: Arc, b: Arc) -> bool:
    """Whether two arcs would run into each other in one column; those of one head may touch."""
    if a.head == b.head:
        return a.low < b.high and b.low < a.high
    return a.low <= b.high and b.low <= a.high
