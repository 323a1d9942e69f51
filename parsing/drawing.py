"""Choose sentences of a corpus, and draw their trees with characters, for a terminal."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.cells import cell_len, set_cell_size

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import CONFIDENCE, ParsedSentence
from structviews.corpus.tree_arrays import dependency_parents, heights
from structviews.errors import InputError
from structviews.parsing.binarise import Tree, binary_tree, unbinarise

# Number of matching sentences to show, unless some are sampled at random.
FIRST = 10
# Box-drawing characters by the directions of their lines: up, down, left, right.
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
BOXES = {
    UP | RIGHT: "└", DOWN | RIGHT: "┌", UP | DOWN | RIGHT: "├",
    UP | LEFT | RIGHT: "┴", DOWN | LEFT | RIGHT: "┬", UP | DOWN | LEFT | RIGHT: "┼",
}  # fmt: skip
ARROW = "►"
# Characters that trees are drawn with, to distinguish them from words and labels.
LINES = re.compile(r"[─│┌┐└┘├┤┬┴┼►·]+")
# Label of a node added by binarisation, or of a root without a label.
UNLABELLED = "·"
BETWEEN = 4
# nltk draws recursively, and no terminal fits more words side by side.
MOST_UPRIGHT = 100
LEFT_TO_RIGHT_MARK = "\u200e"
# Control characters, which terminals interpret and XML forbids, become Unicode pictures or replacement characters.
CONTROLS = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
CONTROLS |= dict.fromkeys([*range(0x80, 0xA0), 0xFFFE, 0xFFFF], 0xFFFD)
# First character of plane 15, for private use: no font or text has these.
PRIVATE = 0xF0000
STAND_INS = re.compile(r"([\U000F0000-\U000FFFFD])\1*")


class Chosen(NamedTuple):
    """A sentence to draw: its name, a heading (may be empty), and which trees (``constituency``, ``dependency``)."""

    name: str
    heading: str
    sentence: ParsedSentence
    kinds: list[str]


def choose(
    corpus: ParsedCorpus, sentence: int | None, grep: str | None, random: int | None, *, seed: int, tree: str | None
) -> tuple[list[Chosen], str]:
    """Choose sentences of a corpus; return them, and a note for the user, which may be empty.

    A single ``sentence`` by its number, or the first ones or a ``random`` number of those that contain ``grep``
    (ignoring case, words joined by spaces), each with the kind of ``tree``, or all kinds that it has. Raises InputError
    if there is no such sentence or tree.
    """
    if sentence is not None:
        if grep is not None or random is not None:
            raise InputError(f"--sentence {sentence} selects one sentence: omit --grep and --random")
        return [chosen(corpus, sentence, tree)], ""
    found = np.arange(len(corpus))
    if grep is not None:
        texts = (pc.binary_join(table["tokens"].cast(pa.list_(pa.string())), " ") for table in corpus.tables())
        holds = [pc.match_substring(text, grep, ignore_case=True).to_numpy() for text in texts]
        found = np.flatnonzero(np.concatenate(holds))
        if not len(found):
            raise InputError(f"--grep {grep!r}: not found in {corpus.path}: separate the tokens by single spaces")
    note = ""
    if random is not None:
        if random < 1:
            raise InputError(f"--random {random}: give at least 1")
        found = np.sort(np.random.default_rng(seed).choice(found, min(random, len(found)), replace=False))
    elif len(found) > FIRST:
        note = f"the first {FIRST} of {len(found):,}; use --random {FIRST} for a random sample"
        found = found[:FIRST]
    return [chosen(corpus, number, tree) for number in found.tolist()], note


def chosen(corpus: ParsedCorpus, number: int, tree: str | None) -> Chosen:
    """Sentence ``number`` of a corpus, as one to draw."""
    row, name = corpus.row(number), f"sentence {number}"
    heading = f"{name}: document {row.document}, position {row.position}, line {row.line}"
    said = zip(CONFIDENCE, row.confidence, strict=False)
    if sure := [f"{what} {value:.2f}" for what, value in said if not isnan(value)]:
        heading += f"\nconfidence: {', '.join(sure)}"
    return Chosen(name, heading, row.sentence, kinds_of(row.sentence, tree, f"{name} of {corpus.path}"))


def kinds_of(sentence: ParsedSentence, tree: str | None, name: str) -> list[str]:
    """The kinds of tree to draw for a sentence: ``tree``, else all that it has; InputError if it has no such tree."""
    has = {"constituency": sentence.has_constituents, "dependency": sentence.has_dependencies}
    if tree and not has[tree]:
        raise InputError(f"--tree {tree}: {name} has no such tree: omit --tree, or parse with another --parser")
    return [tree] if tree else [kind for kind, there in has.items() if there]


def draw(chosen: Chosen, width: int) -> str:
    """Draw a sentence with its trees, in lines of at most ``width`` columns where possible."""
    drawers = {"constituency": draw_constituents, "dependency": draw_dependencies}
    words = " ".join(map(printable, chosen.sentence.tokens))
    trees = ["\n".join(drawers[kind](chosen.sentence, width)) for kind in chosen.kinds]
    return "\n\n".join([f"{chosen.heading}\n{words}".lstrip(), *trees])


def draw_constituents(sentence: ParsedSentence, width: int) -> list[str]:
    """Draw the n-ary and the binarised tree: side by side if they fit, else below each other.

    Roots are at the top, or on the left if that is too wide.
    """
    mirrored = reads_right_to_left(sentence.tokens)
    trees = {"constituency tree": unbinarise(sentence), "binarised": binary_tree(sentence)}
    drawn = None
    if len(sentence.tokens) <= MOST_UPRIGHT:
        drawn = arrange([[title, *upright(tree, mirrored)] for title, tree in trees.items()], width)
    if drawn is None:
        pictures = [[title, *sideways(tree)] for title, tree in trees.items()]
        drawn = arrange(pictures, width) or [*pictures[0], "", *pictures[1]]
    return [*drawn, level_sizes(sentence.constituency_heights, "nodes of the binarised tree")]


def arrange(pictures: list[list[str]], width: int) -> list[str] | None:
    """Put two pictures side by side, or else below each other; None if one is too wide even then."""
    first, second = pictures
    column = columns_of(first) + BETWEEN
    if column + columns_of(second) <= width:
        return [(set_cell_size(a, column) + b).rstrip() for a, b in zip_longest(first, second, fillvalue="")]
    return [*first, "", *second] if max(map(columns_of, pictures)) <= width else None


def columns_of(picture: Sequence[str]) -> int:
    """The width of the widest line in terminal columns."""
    return max(map(cell_len, picture))


def upright(tree: Tree, mirrored: bool = False) -> list[str]:
    """Draw a tree of at most ``MOST_UPRIGHT`` words with its root at the top; a row holds the nodes of one height.

    nltk assumes one column per character, so it gets placeholders as long as the labels are wide. In a ``mirrored``
    tree the first word is on the right.
    """
    import nltk.tree  # noqa: PLC0415 - takes a second, and a tree may be drawn without it

    labels: list[str] = []

    def stand_in(label: str) -> str:
        labels.append(printable(label))
        return chr(PRIVATE + len(labels) - 1) * cell_len(labels[-1])

    def copied(node: Tree | str) -> Any:
        if isinstance(node, str):
            return stand_in(node)
        children = reversed(node) if mirrored else node
        return nltk.tree.Tree(stand_in(node.label()), [copied(child) for child in children])

    text = nltk.tree.TreePrettyPrinter(copied(tree)).text(unicodelines=True, maxwidth=None)
    text = STAND_INS.sub(lambda found: guarded(labels[ord(found[1]) - PRIVATE]), text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def sideways(tree: Tree) -> list[str]:
    """Draw a tree with its root on the left: one line for every word and every node with several children."""
    lines = []
    waiting: list[tuple[Tree, str, str]] = [(tree, "", "")]
    while waiting:
        node, before, before_children = waiting.pop()
        labels = [node.label()]
        while len(node) == 1 and isinstance(node[0], Tree):
            node = node[0]
            labels.append(node.label())
        labels += [child for child in node if isinstance(child, str)]
        children = [child for child in node if isinstance(child, Tree)]
        lines.append(before + " ".join(guarded(printable(label)) for label in labels))
        below = [(child, f"{before_children}├─ ", f"{before_children}│  ") for child in children[:-1]]
        below += [(child, f"{before_children}└─ ", f"{before_children}   ") for child in children[-1:]]
        waiting += reversed(below)
    return lines


def draw_dependencies(sentence: ParsedSentence, width: int = 0) -> list[str]:
    """Draw one line per word, whatever the width: arcs to its head and dependents, word, tag and relation."""
    fields = [field for field in (sentence.tokens, sentence.tags, sentence.relations) if field]
    columns = [[printable(text) for text in field] for field in fields]
    widths = [columns_of(column) for column in columns]
    lines = []
    for arcs, *texts in zip(draw_arcs(sentence.heads), *columns, strict=True):
        cells = [set_cell_size(guarded(text), width) for text, width in zip(texts, widths, strict=True)]
        lines.append(f"{arcs} {'  '.join(cells)}".rstrip())
    return ["dependency tree", *lines, level_sizes(sentence.dependency_heights, "words")]


def draw_arcs(heads: Sequence[int]) -> list[str]:
    """Draw the arcs of a dependency tree, one line per word.

    Each head has one vertical line, which joins it to its dependents and is to the left of its dependents' own lines.
    So of the vertical lines joined to a word, the leftmost leads to its head and the other to its dependents. Arrows
    point at dependents. Unrelated vertical lines are bridged, not crossed. ``heads`` count from 1, 0 is the root.
    """
    # The first and last word among each head and its dependents.
    spans: dict[int, tuple[int, int]] = {}
    for word, head in enumerate(heads, 1):
        if head:
            low, high = spans.get(head, (head, head))
            spans[head] = min(low, word), max(high, word)
    # The column of each head's line, from 1 next to the words: in a tree without crossing arcs, its height.
    height = heights(dependency_parents(np.array(heads, int), np.array([len(heads)])))
    columns: dict[int, int] = {}
    for head in sorted(spans, key=lambda head: height[head - 1]):
        low, high = spans[head]
        met = (column for other, column in columns.items() if spans[other][0] <= high and low <= spans[other][1])
        columns[head] = 1 + max(met, default=0)
    passing: dict[tuple[int, int], int] = {}
    for head, (low, high) in spans.items():
        for word in range(low, high + 1):
            passing[columns[head], word] = (UP if word > low else 0) | (DOWN if word < high else 0)
    lines = []
    for word, head in enumerate(heads, 1):
        joined = {columns.get(word, 0), columns.get(head, 0)}
        leftmost = max(joined)
        line = ""
        for column in range(max(columns.values(), default=0), 0, -1):
            vertical = passing.get((column, word), 0)
            if column in joined:
                line += BOXES[vertical | RIGHT | (LEFT if column < leftmost else 0)]
            else:
                line += "│" if vertical else "─" if column < leftmost else " "
            line += "─" if column <= leftmost else " "
        lines.append(line + (ARROW if head else "─" if leftmost else " "))
    return lines


def level_sizes(heights: Sequence[int], nodes: str) -> str:
    """Report the number of nodes at each height, the order in which encoders compute them."""
    return f"{nodes}, level by level from the leaves: {' '.join(map(str, np.bincount(heights)))}"


def printable(text: str) -> str:
    """Make a word or label printable: without control characters, and at least one column wide."""
    text = text.translate(CONTROLS) or UNLABELLED
    # A combining mark on its own gets a dotted circle as its base.
    return text if cell_len(text) else f"◌{text}"


def guarded(text: str) -> str:
    """Wrap a right-to-left word in marks that keep it from running into its neighbours."""
    return f"{LEFT_TO_RIGHT_MARK}{text}{LEFT_TO_RIGHT_MARK}" if is_right_to_left(text) else text


def is_right_to_left(text: str) -> bool:
    """Whether a text contains a right-to-left character (Unicode Standard Annex 9)."""
    return any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)


def reads_right_to_left(words: Sequence[str]) -> bool:
    """Whether most words that contain letters are written from right to left."""
    with_letters = [word for word in words if any(map(str.isalpha, word))]
    return 2 * sum(map(is_right_to_left, with_letters)) > len(with_letters)
