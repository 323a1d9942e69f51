import re
from dataclasses import replace

import numpy as np
from chain_parser import chain
from drawn_sentences import BIRD, dissolved, labelled
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree
from nltk_trees import as_nltk
from rich.cells import cell_len
from trees_for_tests import sentences

from structviews.batches.trees import constituency_trees, dependency_trees
from structviews.parsing.binarise import binary_tree, unbinarise
from structviews.parsing.drawing import (
    LEFT_TO_RIGHT_MARK,
    draw_arcs,
    draw_constituents,
    draw_dependencies,
    printable,
    sideways,
    upright,
)

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
    assert [line.replace(LEFT_TO_RIGHT_MARK, "") for line in draw_dependencies(sentence)] == [
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
        wide_lines, narrow_lines = upright(made(sentence)), upright(made(narrow))
        assert len(wide_lines) == len(narrow_lines)
        for wide, plain in zip(wide_lines, narrow_lines, strict=True):
            # Blanks and lines are where they are over narrow words, words begin and end where they do.
            assert re.sub(r"[^ ─│┌┐└┘├┤┬┴┼]", "n", columns(wide)) == re.sub(r"[^ ─│┌┐└┘├┤┬┴┼]", "n", plain)


def read_sideways(lines):
    """The tree of a drawing with its root at the left."""
    depths = [len(re.match(r"(?:│  |   |├─ |└─ )*", line)[0]) // 3 for line in lines]

    def read(at):
        texts = lines[at][3 * depths[at] :].replace(LEFT_TO_RIGHT_MARK, "").split(" ")
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
@settings(max_examples=40)
def test_both_trees_are_read_back_and_the_binarised_one_dissolves_into_the_other(sentence):
    lines = draw_constituents(sentence, width=1)
    end = lines.index("binarised")
    original, binarised = read_sideways(lines[1 : end - 1]), read_sideways(lines[end + 1 : -1])
    assert original == as_nltk(unbinarise(sentence))
    assert dissolved(binarised) == original
    assert {len(node) for node in binarised.subtrees()} <= {1, 2}
    assert all(isinstance(node[0], str) for node in binarised.subtrees() if len(node) == 1)


@given(labelled(), st.integers(1, 120))
@settings(max_examples=40)
def test_lines_are_as_wide_as_they_may_be(sentence, width):
    pictures = [sideways(unbinarise(sentence)), sideways(binary_tree(sentence))]
    least = max(len("constituency tree"), *(cell_len(line) for lines in pictures for line in lines))
    *lines, _ = draw_constituents(sentence, width)
    assert max(map(cell_len, lines)) <= max(width, least)


def test_a_sentence_that_reads_from_right_to_left_is_mirrored():
    sentence = replace(BIRD, tokens=("אני", "אוהב", "ציפור", "שרה", "."))
    *_, tags, _, words = upright(unbinarise(sentence), mirrored=True)
    assert tags.split() == [".", "VBZ", "NN", "JJ", "DT"]
    # No word is next to another without a mark between.
    marked = [f"{LEFT_TO_RIGHT_MARK}{word}{LEFT_TO_RIGHT_MARK}" for word in sentence.tokens[:4]]
    assert words.split() == [".", *reversed(marked)]
    assert draw_constituents(sentence, 80)[7].split()[:5] == words.split()


def test_deep_trees_are_drawn():
    lines = draw_constituents(chain(["word"] * 1500), 80)
    assert len(lines) == 2 + 1 + 1501 + 2999 + 1


def test_levels_are_those_of_the_encoders():
    for sentence in (BIRD, chain("abcdefg")):
        n = np.array([len(sentence.tokens)])
        left, right = np.array(sentence.left), np.array(sentence.right)
        constituency = constituency_trees(left, right, np.array(sentence.constituency_heights), n)
        dependency = dependency_trees(np.array(sentence.heads), np.array(sentence.dependency_heights), n)
        drawn = draw_constituents(sentence, 80), draw_dependencies(sentence)
        for trees, lines in zip((constituency, dependency), drawn, strict=True):
            assert list(map(int, lines[-1].partition(": ")[2].split())) == np.diff(trees.levels).tolist()


def test_nothing_in_a_word_reaches_the_terminal():
    assert printable("\x1b[31mred\x07") == "␛[31mred␇"
    assert printable("a\x9b\x7f") == "a\ufffd␡"
    assert printable("\u0301") == "◌\u0301"
    assert printable("") == "·"
