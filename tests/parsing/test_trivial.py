"""The controls: which trees they are, and that a sentence's words decide them."""

import os
import random
import subprocess
import sys
from collections import Counter
from itertools import product

import pytest
from decoding_oracle import all_trees

from structviews.parsing import specification
from structviews.parsing.backends.trivial import SHAPES

FIVE = ["a", "b", "c", "d", "e"]
DRAWS = 3000


def parse(shape, words):
    (tree,) = specification.load(f"trivial:{shape}").parse([words])
    return tree


def brackets(tree):
    """The constituents as brackets without labels."""
    parts = list(tree.tokens)
    for left, right in zip(tree.left, tree.right, strict=True):
        parts.append(f"({parts[left]} {parts[right]})")
    return parts[-1]


@pytest.mark.parametrize(
    ("shape", "heads", "bracketed"),
    [
        ("right-branching", (0, 1, 2, 3, 4), "(a (b (c (d e))))"),
        ("left-branching", (2, 3, 4, 5, 0), "((((a b) c) d) e)"),
        ("balanced", (2, 3, 0, 5, 3), "(((a b) c) (d e))"),
        ("chain", (2, 3, 4, 5, 0), "((((a b) c) d) e)"),
    ],
)
def test_shapes(shape, heads, bracketed):
    tree = parse(shape, FIVE)
    assert tree.heads == heads
    assert brackets(tree) == bracketed


@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_trees_of_any_length(shape):
    for n in (*range(1, 34), 1000):
        tree = parse(shape, [f"w{i}" for i in range(n)])  # checks itself
        assert [relation for relation, head in zip(tree.relations, tree.heads, strict=True) if not head] == ["root"]
        if shape == "balanced":
            assert max(tree.constituency_heights) == (n - 1).bit_length()
            assert max(tree.dependency_heights) == n.bit_length() - 1


@pytest.mark.slow
def test_random_trees_are_seeded_by_the_words_alone():
    sentences = [[f"w{i}", *FIVE, *FIVE] for i in range(20)]
    order = random.Random(0).sample(range(20), 20)
    for shape in ("random", "random-heads"):
        parser = specification.load(f"trivial:{shape}")
        trees = parser.parse(sentences)
        assert len({tree.heads for tree in trees}) > 15
        assert len({tree.left for tree in trees}) > 15
        assert parser.parse([sentences[i] for i in order]) == [trees[i] for i in order]
    code = f"from structviews.parsing.specification import load; print(load('trivial:{shape}').parse([{sentences[3]}]))"
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([trees[3]])


def all_brackets(words):
    """Every binary tree over some words."""
    if len(words) == 1:
        return [words[0]]
    halves = [(all_brackets(words[:middle]), all_brackets(words[middle:])) for middle in range(1, len(words))]
    return [f"({left} {right})" for pair in halves for left, right in product(*pair)]


def test_random_trees_are_uniform():
    trees = specification.load("trivial:random").parse([[*"abc", f"d{i}"] for i in range(DRAWS)])
    check_uniform(Counter(tree.heads for tree in trees), all_trees(4))
    shapes = Counter(brackets(tree).replace(tree.tokens[-1], "d") for tree in trees)
    check_uniform(shapes, all_brackets("abcd"))


def test_random_heads_are_one_in_each_constituent_on_either_side_with_equal_chance():
    trees = specification.load("trivial:random-heads").parse([[*"abc", f"d{i}"] for i in range(DRAWS)])
    for tree in trees:
        for start, end, _ in tree.spans():
            assert sum(not start < tree.heads[word] <= end for word in range(start, end)) == 1
    # Two choices within the halves and one between them.
    every = [
        (0, 1, 1, 3), (3, 1, 0, 3), (0, 1, 4, 1), (4, 1, 4, 0), (2, 0, 2, 3), (2, 3, 0, 3), (2, 0, 4, 2), (2, 4, 4, 0),
    ]  # fmt: skip
    check_uniform(Counter(tree.heads for tree in trees if brackets(tree).startswith("((a b) (c")), every)


def check_uniform(counts, every):
    assert set(counts) == set(every)
    expected = counts.total() / len(every)
    # Chi-square lies more than five standard deviations above its mean less than once in 10,000 seeds.
    chi_square = sum((counts[each] - expected) ** 2 / expected for each in every)
    freedom = len(every) - 1
    assert chi_square < freedom + 5 * (2 * freedom) ** 0.5
