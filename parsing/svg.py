"""Draw the trees of sentences as SVG: arcs between words, and constituency trees with one row per height.

The drawings are self-contained (no scripts, no external fonts or styles) and follow the reader's light or dark mode.
Equal sentences give equal bytes.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.binarise import Tree, binary_tree, unbinarise
from structviews.parsing.drawing import UNLABELLED, Chosen, printable, reads_right_to_left
from structviews.runtime.files import write_output

# Lengths are in pixels. Font metrics are unknown: a terminal column is taken to be slightly over half the font size.
COLUMN = 8.5
MARGIN = 20
GAP = 14
ROW = 42
BASELINE = 22
WORDS = 20
TITLE = 30
LEVELS = 30
# Arcs: distance between levels; twice the distance from a head's middle to where its arcs start; corner radius.
STEP = 24
BESIDE_WORD = 14
BEND = 7
# Extra line width of an arc with weight 1 compared to weight 0.
WIDEST = 4
# Two constituency trees that are wider than this in total are stacked.
BESIDE = 1600
STYLE = """
svg { color-scheme: light dark; color: #1f2328; font-family: sans-serif; font-size: 14px }
.paper { fill: #ffffff }
text { fill: currentColor }
.middle { text-anchor: middle }
.label { fill: #0550ae }
.bare { font-size: 22px }
.title, .level { fill: #59636e }
.branch { stroke: #818b98; fill: none }
.band { fill: #f3f5f7 }
.arc { stroke: #59636e; fill: none }
.arrow { fill: #59636e }
.relation { font-size: 12px; paint-order: stroke; stroke: #ffffff; stroke-width: 8px }
@media (prefers-color-scheme: dark) {
  svg { color: #e6edf3 }
  .paper { fill: #0d1117 }
  .label { fill: #79c0ff }
  .title, .level { fill: #9198a1 }
  .branch { stroke: #7d8590 }
  .band { fill: #1a2129 }
  .arc { stroke: #9198a1 }
  .arrow { fill: #9198a1 }
  .relation { stroke: #0d1117 }
}
"""


class Picture(NamedTuple):
    """SVG elements and the space that they take, from (0, 0)."""

    elements: str
    width: float
    height: float


def write_svg(path: Path, sentences: Sequence[Chosen]) -> list[Path]:
    """Draw sentences into one ``.svg`` file, or into a folder with one file per sentence; return the files."""
    if path.suffix == ".svg":
        pages = {path: sentences}
    elif path.suffix and not path.is_dir():
        raise InputError(f"--svg {path}: give a folder, or a file name that ends in .svg")
    else:
        pages = {path / f"{chosen.name.replace(' ', '-')}.svg": [chosen] for chosen in sentences}
    try:
        if path.suffix != ".svg":
            path.mkdir(parents=True, exist_ok=True)
        for file, page in pages.items():
            write_output(file, svg(page).encode())
    except OSError as error:
        raise InputError(f"--svg {path} cannot be written ({error.strerror}): choose another path") from None
    return list(pages)


def svg(sentences: Sequence[Chosen]) -> str:
    """Draw sentences below each other, each with its trees."""
    pictures = []
    for chosen in sentences:
        pictures += [title(chosen.heading)] if chosen.heading else []
        for kind in chosen.kinds:
            if kind == "constituency":
                pictures += constituency_trees(chosen.sentence)
            else:
                pictures += [title("dependency tree"), dependency_tree(chosen.sentence)]
    return drawing(pictures, [word for chosen in sentences for word in chosen.sentence.tokens])


def drawing(pictures: Sequence[Picture], words: Sequence[str]) -> str:
    """Stack pictures into one SVG document, labelled with the words."""
    page = stacked(pictures)
    page = Picture(moved(page, MARGIN, MARGIN), page.width + 2 * MARGIN, page.height + 2 * MARGIN)
    name = " ".join(map(printable, words))
    return element(page, name, f'<style>{STYLE}</style>\n<rect class="paper" width="100%" height="100%"/>\n')


def element(picture: Picture, name: str, before: str = "") -> str:
    """A picture as an ``<svg>`` element, for example for a page with styles for the classes in ``STYLE``.

    ``name`` is the label for screen readers; elements ``before`` precede the picture's own.
    """
    width, height = picture.width, picture.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}">\n'
        f"{before}{picture.elements}</svg>\n"
    )


def stacked(pictures: Sequence[Picture]) -> Picture:
    """Put pictures below each other."""
    elements, y = "", 0.0
    for picture in pictures:
        elements += moved(picture, 0, y)
        y += picture.height
    return Picture(elements, max(picture.width for picture in pictures), y)


def beside(pictures: Sequence[Picture]) -> Picture:
    """Put pictures side by side, aligned at the bottom."""
    elements, x = "", 0.0
    height = max(picture.height for picture in pictures)
    for picture in pictures:
        elements += moved(picture, x, height - picture.height)
        x += picture.width + 2 * MARGIN
    return Picture(elements, x - 2 * MARGIN, height)


def moved(picture: Picture, x: float, y: float) -> str:
    """Move a picture's elements by ``(x, y)``."""
    return f'<g transform="translate({x:g} {y:g})">\n{picture.elements}</g>\n'


def title(text: str) -> Picture:
    """A line of text outside the trees."""
    return Picture(f'<text class="title" y="14">{escape(printable(text))}</text>\n', COLUMN * cell_len(text), TITLE)


def text_at(kind: str, x: float, y: float, text: str) -> str:
    """A text centred at ``x`` with its baseline at ``y``."""
    return f'<text class="{kind} middle" x="{x:g}" y="{y:g}">{escape(text)}</text>\n'


def wide(text: str) -> float:
    """The width of a text, including a gap."""
    return COLUMN * cell_len(text) + GAP


def dependency_tree(sentence: ParsedSentence, weights: Sequence[float] | None = None) -> Picture:
    """Draw the words and, above them, arcs from heads to dependents, labelled with their relations.

    ``weights`` of each word among the dependents of its head, from 0 to 1, make its arc wider and follow the relation.
    """
    words, tags = list(map(printable, sentence.tokens)), list(map(printable, sentence.tags))
    arcs = []
    for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        if head:
            name, weight = printable(relation), 0.0
            if weights is not None:
                name, weight = f"{name} {weights[word]:.2f}", weights[word]
            arcs.append(Arc(min(word, head - 1), max(word, head - 1), word, name, WIDEST * weight))
    # Each word's middle, with space for words and relations.
    widths = [max(map(wide, texts)) for texts in zip(words, tags or words, strict=True)]
    x = [widths[0] / 2]
    for word in range(1, len(widths)):
        nearest = x[-1] + (widths[word - 1] + widths[word]) / 2
        needed = (x[arc.low] + wide(arc.relation) + 2 * BESIDE_WORD for arc in arcs if arc.high == word)
        x.append(max(nearest, *needed, 0))
    width = x[-1] + widths[-1] / 2
    if reads_right_to_left(sentence.tokens):
        x = [width - middle for middle in x]
    # Each arc is above all shorter ones that it overlaps.
    levels: dict[Arc, int] = {}
    for arc in sorted(arcs, key=lambda arc: arc.high - arc.low):
        met = (level for other, level in levels.items() if other.low < arc.high and arc.low < other.high)
        levels[arc] = 1 + max(met, default=0)
    base = STEP * max(levels.values(), default=0) + BASELINE
    elements = "".join(drawn_arc(arc, x, base, base - STEP * levels[arc]) for arc in arcs)
    for row, (kind, texts) in enumerate((("word", words), ("label", tags)), 1):
        for middle, text in zip(x, texts, strict=False):
            elements += text_at(kind, middle, base + row * WORDS, text)
    return Picture(elements, width, base + 3 * WORDS)


class Arc(NamedTuple):
    """An arc between the words ``low < high``, counted from 0, one of which is the dependent; ``width`` is extra."""

    low: int
    high: int
    dependent: int
    relation: str
    width: float


def drawn_arc(arc: Arc, x: Sequence[float], base: float, top: float) -> str:
    """Draw an arc with an arrowhead above the middle of its dependent; it starts slightly beside the head's middle."""
    head, end = x[arc.low + arc.high - arc.dependent], x[arc.dependent]
    to_the_right = 1 if end > head else -1
    start, bend = head + to_the_right * BESIDE_WORD / 2, to_the_right * BEND
    path = (
        f"M{start:g},{base:g} V{top + BEND:g} Q{start:g},{top:g} {start + bend:g},{top:g} "
        f"H{end - bend:g} Q{end:g},{top:g} {end:g},{top + BEND:g} V{base - 4:g}"
    )
    width = f' stroke-width="{1 + arc.width:.3g}"' if arc.width else ""
    return (
        f'<path class="arc"{width} d="{path}"/>\n<path class="arrow" d="M{end:g},{base:g} l-4,-7 h8 z"/>\n'
        + text_at("relation", (start + end) / 2, top + 4, arc.relation)
    )


def constituency_trees(sentence: ParsedSentence) -> list[Picture]:
    """Draw the n-ary and the binarised tree under their titles, side by side unless that is too wide."""
    pictures = [stacked([title(name), tree]) for name, tree in titled_trees(sentence)]
    return [beside(pictures)] if sum(picture.width for picture in pictures) <= BESIDE else pictures


def titled_trees(sentence: ParsedSentence) -> list[tuple[str, Picture]]:
    """Titles and drawings of the n-ary and the binarised tree."""
    mirrored = reads_right_to_left(sentence.tokens)
    return [
        ("constituency tree", bracket_tree(unbinarise(sentence), mirrored)),
        ("binarised, level by level", bracket_tree(binary_tree(sentence), mirrored, levels=True)),
    ]


def bracket_tree(tree: Tree, mirrored: bool, levels: bool = False) -> Picture:
    """Draw a tree with its root at the top: one row per node height, and the words below the last row.

    In a ``mirrored`` tree the first word is on the right; ``levels`` numbers the rows, from 0 for the preterminals.
    """
    labels, children = post_order(tree)
    labels = [printable(label) for label in labels]
    x, width = node_positions(labels, children)
    left = LEVELS if levels else 0
    x = [left + (width - place if mirrored else place) for place in x]
    # Words have height -1 and are closer to the row above.
    heights: list[int] = []
    for below in children:
        heights.append(max((heights[child] for child in below), default=-2) + 1)
    top = heights[-1]
    y = [BASELINE + ROW * (top - height) - (ROW - WORDS if height < 0 else 0) for height in heights]
    elements = ""
    for height in range(top + 1) if levels else ():
        upper, tall = ROW * (top - height), ROW if height else ROW + WORDS - 10
        if height % 2 == 0:
            elements += f'<rect class="band" y="{upper:g}" width="{left + width:g}" height="{tall:g}"/>\n'
        elements += f'<text class="level" x="6" y="{upper + BASELINE:g}">{height}</text>\n'
    for node, below in enumerate(children):
        if heights[node] > 0:  # right-angled lines down to its children
            bar = y[node] + 12
            lines = "".join(f" M{x[node]:g},{bar:g} H{x[child]:g} V{y[child] - 14:g}" for child in below)
            elements += f'<path class="branch" d="M{x[node]:g},{y[node] + 6:g} V{bar:g}{lines}"/>\n'
        kind = "word" if not below else "label bare" if labels[node] == UNLABELLED else "label"
        elements += text_at(kind, x[node], y[node], labels[node])
    return Picture(elements, left + width, ROW * (top + 1) + WORDS)


def post_order(tree: Tree) -> tuple[list[str], list[list[int]]]:
    """Labels (words for leaves) and children of a tree's nodes, children first, root last."""
    found: list[tuple[str, int]] = []
    waiting: list[tuple[Tree | str, int]] = [(tree, -1)]
    # Visit parents before children and later children before earlier ones: the reverse of the result.
    while waiting:
        node, parent = waiting.pop()
        if isinstance(node, Tree):
            waiting += [(child, len(found)) for child in node]
        found.append((node.label() if isinstance(node, Tree) else node, parent))
    children: list[list[int]] = [[] for _ in found]
    for number, (_, parent) in enumerate(reversed(found[1:])):
        children[len(found) - 1 - parent].append(number)
    return [label for label, _ in reversed(found)], children


def node_positions(labels: Sequence[str], children: Sequence[Sequence[int]]) -> tuple[list[float], float]:
    """The x coordinate of each node's middle, and the width of the tree; nodes as of ``post_order``."""
    own = list(map(wide, labels))
    needed: list[float] = []
    for node, below in enumerate(children):
        needed.append(max(own[node], sum(needed[child] for child in below)))
    starts = [0.0] * len(labels)
    x = [0.0] * len(labels)
    for node in range(len(labels) - 1, -1, -1):
        start = starts[node] + (needed[node] - sum(needed[child] for child in children[node])) / 2
        for child in children[node]:
            starts[child] = start
            start += needed[child]
    for node, below in enumerate(children):
        middle = (x[below[0]] + x[below[-1]]) / 2 if below else starts[node] + needed[node] / 2
        # A label wider than its subtree stays within its own space.
        lowest, highest = starts[node] + own[node] / 2, starts[node] + needed[node] - own[node] / 2
        x[node] = min(max(middle, lowest), highest)
    return x, needed[-1]
