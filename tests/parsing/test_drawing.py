"""Trees drawn with characters and as SVG are read back, by following their lines."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from chain_parser import chain
from drawn_sentences import BIRD, dissolved, labelled
from hypothesis import given, settings
from nltk.tree import Tree
from nltk_trees import as_nltk
from rich.cells import cell_len
from trees_for_tests import sentences

from structviews.batches.trees import constituency_trees, dependency_trees
from structviews.parsing import drawing
from structviews.parsing.binarise import binary_tree, unbinarise
from structviews.parsing.drawing import Chosen, draw_arcs, draw_constituents, draw_dependencies
from structviews.parsing.svg import COLUMN, dependency_tree, element, svg

MARK = drawing.LEFT_TO_RIGHT_MARK
HEBREW = replace(BIRD, tokens=("אני", "אוהב", "ציפור", "שרה", "."))
REACHES = {"└": "UR", "┌": "DR", "├": "UDR", "┴": "ULR", "┬": "DLR", "┼": "UDLR", "│": "UD", "─": "LR", "►": "L"}


def read_arcs(lines):
    """Heads, found by following the lines of a drawing with a finger.

    The leftmost joint of a word leads to its head, another one to its dependents; the root has the latter alone.
    """
    joints = [[at for at, glyph in enumerate(line) if glyph in "└┌├┴┬┼"] for line in lines]
    own = {}
    for word, line in enumerate(lines):
        to_head = line.endswith("►")
        assert len(joints[word]) <= 1 + to_head
        for at in joints[word][to_head:]:
            own[word] = at
        # A line runs from the leftmost joint to the word.
        assert all(glyph != " " for glyph in line[min(joints[word], default=len(line)) :])
    heads = []
    for word, line in enumerate(lines):
        if not line.endswith("►"):
            heads.append(0)
            continue
        at = joints[word][0]
        joined = {word}
        for step, out, back in ((-1, "U", "D"), (1, "D", "U")):
            here = word
            while out in REACHES[lines[here][at]]:
                here += step
                assert 0 <= here < len(lines)
                assert back in REACHES[lines[here][at]]
                joined.add(here)
        (head,) = (other for other in joined if own.get(other) == at and other != word)
        heads.append(head + 1)
    return tuple(heads)


@given(sentences())
def test_arcs_are_read_back(sentence):
    assert read_arcs(draw_arcs(sentence.heads)) == sentence.heads


def test_words_of_every_width_keep_their_columns():
    sentence = replace(BIRD, tokens=("红色", "e\u0301", "东西", "שלום", "x"))
    assert [line.replace(MARK, "") for line in draw_dependencies(sentence)] == [
        "dependency tree",
        "  ┌─► 红色  DT   det",
        "  ├─► e\u0301     JJ   amod",
        "┌─┴─► 东西  NN   nsubj",
        "├──── שלום  VBZ  root",
        "└───► x     .    punct",
        "words, level by level from the leaves: 3 1 1",
    ]


def columns(line):
    """The characters by the columns of a terminal that they take."""
    return "".join(char + "\0" * (cell_len(char) - 1) for char in line if cell_len(char))


@given(labelled())
@settings(max_examples=40)
def test_a_tree_has_the_same_lines_over_wide_words_as_over_narrow_ones(sentence):
    narrow = replace(sentence, tokens=tuple("n" * cell_len(word) for word in sentence.tokens))
    for made in (unbinarise, binary_tree):
        wide_lines, narrow_lines = drawing.upright(made(sentence)), drawing.upright(made(narrow))
        assert len(wide_lines) == len(narrow_lines)
        for wide, plain in zip(wide_lines, narrow_lines, strict=True):
            # Blanks and lines are where they are over narrow words, words begin and end where they do.
            assert re.sub(r"[^ ─│┌┐└┘├┤┬┴┼]", "n", columns(wide)) == re.sub(r"[^ ─│┌┐└┘├┤┬┴┼]", "n", plain)


def read_sideways(lines):
    """The tree of a drawing with its root at the left."""
    depths = [len(re.match(r"(?:│  |   |├─ |└─ )*", line)[0]) // 3 for line in lines]

    def read(at):
        texts = lines[at][3 * depths[at] :].replace(MARK, "").split(" ")
        below = []
        next_line = at + 1
        while next_line < len(lines) and depths[next_line] > depths[at]:
            child, next_line = read(next_line)
            below.append(child)
        if not below:
            below = [texts.pop()]
        for label in reversed(texts):
            below = [Tree(label, below)]
        return below[0], next_line

    tree, end = read(0)
    assert end == len(lines)
    return tree


@given(labelled())
@settings(max_examples=30)
def test_both_trees_are_read_back_and_the_binarised_one_dissolves_into_the_other(sentence):
    lines = draw_constituents(sentence, width=1)
    end = lines.index("binarised")
    original, binarised = read_sideways(lines[1 : end - 1]), read_sideways(lines[end + 1 : -1])
    assert original == as_nltk(unbinarise(sentence))
    assert dissolved(binarised) == original
    assert all(len(node) == (1 if isinstance(node[0], str) else 2) for node in binarised.subtrees())
    # As wide as it may be, and no wider than it must.
    needed = max(map(cell_len, lines[:-1]))
    assert max(map(cell_len, draw_constituents(sentence, width=50)[:-1])) <= max(50, needed)


def test_levels_are_those_of_the_encoders():
    for sentence in (BIRD, chain(["deep"] * 1200)):
        n = np.array([len(sentence.tokens)])
        left, right = np.array(sentence.left), np.array(sentence.right)
        constituency = constituency_trees(n, left, right, np.array(sentence.constituency_heights))
        dependency = dependency_trees(n, np.array(sentence.heads), np.array(sentence.dependency_heights))
        drawn = draw_constituents(sentence, 80), draw_dependencies(sentence)
        for trees, lines in zip((constituency, dependency), drawn, strict=True):
            assert list(map(int, lines[-1].partition(": ")[2].split())) == np.diff(trees.levels).tolist()


SVG = "{http://www.w3.org/2000/svg}"
BOTH = ("constituency", "dependency")


def drawn(sentence, *kinds, heading="sentence 0"):
    """The elements of a page with a sentence's trees."""
    page = svg([Chosen("sentence 0", heading, sentence, list(kinds or BOTH))])
    # It stands by itself.
    assert not re.search(r'(href|src)="(?!#)|url\(|@import|<script', page)
    return ElementTree.fromstring(page)


def texts(root, name):
    """The texts of the elements of a class, in order."""
    return ["".join(e.itertext()) for e in root.iter() if name in e.get("class", "").split()]


def bracket_trees(root):
    """The trees that branches and texts show."""
    groups = root.iter(f"{SVG}g")
    return [read_tree(group) for group in groups if group.find(f"{SVG}text[@class='word middle']") is not None]


def read_tree(group):
    """A tree by following its branches from one text to others."""
    at = {(t.get("x"), float(t.get("y"))): t for t in group.iter(f"{SVG}text") if "middle" in t.get("class")}
    below = {}
    for path in group.iter(f"{SVG}path"):
        start, *ends = re.findall(r"M([\d.]+),([\d.]+) (?:V[\d.]+|H([\d.]+) V([\d.]+))", path.get("d"))
        below[start[0], float(start[1]) - 6] = [(end[2], float(end[3]) + 14) for end in ends]

    def read(place):
        if place in below:
            return Tree(at[place].text, [read(end) for end in below[place]])
        word = at[place[0], place[1] + 20]
        assert word.get("class") == "word middle"
        return Tree(at[place].text, [word.text])

    return read(min(at, key=lambda place: place[1]))


def read_heads(root, n):
    """Heads by the ends of the arcs, of which the last has an arrow, and the relation of each word."""
    bottom = max(float(e.get("y")) for e in root.iter(f"{SVG}text"))
    words = [float(e.get("x")) for e in root.iter() if e.get("class") == "word middle"]
    assert len(words) == n
    arcs = [e.get("d") for e in root.iter() if e.get("class") == "arc"]
    arrows = [e.get("d") for e in root.iter() if e.get("class") == "arrow"]
    names = [e for e in root.iter() if e.get("class") == "relation middle"]
    heads, relations = [0] * n, ["root"] * n
    for arc, arrow, name in zip(arcs, arrows, names, strict=True):
        start, base, top, end = map(float, re.match(r"M(\S+),(\S+) V\S+ Q\S+,(\S+) .* Q(\S+),", arc).groups())
        assert arrow.startswith(f"M{end:g},{base:g} ")
        assert bottom > base > top
        # An arrow is over the middle of its word, and an arc is named in its own middle.
        dependent, head = words.index(end), min(range(n), key=lambda word: abs(words[word] - start))
        assert float(name.get("x")) == pytest.approx((start + end) / 2)
        assert float(name.get("y")) == top + 4
        heads[dependent], relations[dependent] = head + 1, name.text
    return tuple(heads), tuple(relations)


@given(labelled())
@settings(max_examples=30)
def test_trees_are_read_back_and_texts_do_not_overlap(sentence):
    constituents, dependencies = (drawn(sentence, kind) for kind in BOTH)
    original, binarised = bracket_trees(constituents)
    if any("\u0590" <= c <= "\u06ff" for word in sentence.tokens for c in word):
        # Such sentences may be mirrored: a test of its own.
        assert sorted(original.leaves()) == sorted(sentence.tokens)
    else:
        assert original == as_nltk(unbinarise(sentence))
        assert dissolved(binarised) == original
    assert read_heads(dependencies, len(sentence.tokens)) == (sentence.heads, sentence.relations)
    for group in (*constituents.iter(f"{SVG}g"), *dependencies.iter(f"{SVG}g")):
        rows = {}
        for text in group.findall(f"{SVG}text"):
            if "middle" in text.get("class"):
                middle, half = float(text.get("x")), COLUMN * cell_len(text.text) / 2
                rows.setdefault(text.get("y"), []).append((middle - half, middle + half))
        for extents in rows.values():
            assert all(a[1] < b[0] for a, b in pairwise([(0, -1), *sorted(extents)]))


def test_what_reads_from_right_to_left_is_mirrored():
    *_, tags, _, words = drawing.upright(unbinarise(HEBREW), mirrored=True)
    assert tags.split() == [".", "VBZ", "NN", "JJ", "DT"]
    # No word is next to another without a mark between.
    assert words.split() == [".", *(f"{MARK}{word}{MARK}" for word in reversed(HEBREW.tokens[:4]))]
    assert draw_constituents(HEBREW, 80)[7].split()[:5] == words.split()
    for tree in drawn(HEBREW, "constituency").iter(f"{SVG}g"):
        if words := tree.findall(f"{SVG}text[@class='word middle']"):
            assert [w.text for w in sorted(words, key=lambda w: -float(w.get("x")))] == list(HEBREW.tokens)
    assert read_heads(drawn(HEBREW, "dependency"), 5)[0] == BIRD.heads


def test_hostile_text_is_text():
    tags, relations = ("<b>", "&", '"', "'", "\x00"), ("a<b", "c&d", 'e"f', "root", "g\x07")
    sentence = replace(BIRD, tags=tags, relations=relations)
    sentence = replace(sentence, tokens=("<script>", '"&amp;', "a\x1b\uffffb", "\u0301", "\x9b\x7f"))
    lines = draw_constituents(sentence, 80) + draw_dependencies(sentence)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(lines))
    root = drawn(sentence, heading="sentence 0: document <0> & \x07")
    assert texts(root, "word")[-5:] == ["<script>", '"&amp;', "a␛\ufffdb", "◌\u0301", "\ufffd␡"]
    assert texts(root, "label")[-5:] == ["<b>", "&", '"', "'", "␀"]
    assert texts(root, "relation") == ["a<b", "c&d", 'e"f', "g␇"]
    assert texts(root, "title")[0] == "sentence 0: document <0> & ␇"


def test_a_deep_tree():
    assert texts(drawn(chain(["word"] * 1200), "constituency"), "word") == ["word"] * 2400


def test_arcs_are_as_wide_as_their_weights_and_say_them():
    weights = [0.75, 0.25, 0.25, float("nan"), 0.25]
    root = ElementTree.fromstring(element(dependency_tree(BIRD, weights), "a <bird>"))
    assert root.get("aria-label") == "a <bird>"
    assert texts(root, "relation") == ["det 0.75", "amod 0.25", "nsubj 0.25", "punct 0.25"]
    widths = [float(path.get("stroke-width")) for path in root.iter(f"{SVG}path") if path.get("class") == "arc"]
    assert widths == [4, 2, 2, 2]
    plain = ElementTree.fromstring(element(dependency_tree(BIRD), ""))
    assert not any(path.get("stroke-width") for path in plain.iter())
