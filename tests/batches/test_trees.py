"""The schedule against trees walked node by node."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trees_for_tests import SHAPES, WORDS, sentences

from structviews.batches.batch import collate
from structviews.words.vocabulary import UNKNOWN, Vocabulary

KINDS = ("dependency", "constituency")


def parents_and_children(sentences, kind):
    """Of every node in the sentences' own order: its parent (or None), and its children from the left."""
    parents, children, start = [], [], 0
    for sentence in sentences:
        n = len(sentence.tokens)
        if kind == "dependency":
            below = [[child for child in range(n) if sentence.heads[child] == word + 1] for word in range(n)]
        else:
            below = [[] for _ in range(n)] + [list(pair) for pair in zip(sentence.left, sentence.right, strict=True)]
        parents += [next((start + p for p, c in enumerate(below) if node in c), None) for node in range(len(below))]
        children += [[start + child for child in some] for some in below]
        start += len(below)
    return parents, children


def check(sentences, kind):
    trees = collate(sentences, {}, [kind]).trees(kind)
    parents, children = parents_and_children(sentences, kind)
    n_nodes = len(parents)
    order, rank = trees.rank.argsort().tolist(), trees.rank.tolist()

    def height(node):
        return 1 + max(map(height, children[node])) if children[node] else 0

    heights = [height(node) for node in range(n_nodes)]

    # Every node has a place, and so have parents and roots.
    assert sorted(rank) == list(range(n_nodes))
    assert [trees.parent[rank[i]].item() for i in range(n_nodes)] == [-1 if p is None else rank[p] for p in parents]
    assert trees.roots.tolist() == [rank[i] for i in range(n_nodes) if parents[i] is None]
    assert len(trees.roots) == len(sentences)

    # Levels are contiguous, from the leaves up.
    assert [heights[i] for i in order] == sorted(heights)
    assert trees.levels == [sum(h < level for h in heights) for level in range(max(heights) + 2)]
    assert trees.n_leaves == heights.count(0)

    # Every place that has a word knows it, and every word its place.
    with_word = [node for node in range(n_nodes) if kind == "dependency" or not children[node]]
    assert sorted(order[: len(trees.words)]) == with_word
    assert trees.words.tolist() == [with_word.index(node) for node in order[: len(trees.words)]]

    # Every node is in one slot: an edge, or behind them the sentence whose root it is.
    assert len(trees) == n_nodes == trees.n_edges + len(sentences)
    assert trees.slot[torch.cat([trees.children, trees.roots])].tolist() == list(range(n_nodes))

    # The edges of a level lead to its children: by ordinal, or of a binary tree in pairs.
    assert (trees.levels[1], trees.edges[:2], trees.siblings[0]) == (trees.n_leaves, [0, 0], [])
    lefts = {below[0] for below in children if below}
    sides_of = ["root" if p is None else "left" if node in lefts else "right" for node, p in enumerate(parents)]
    assert len(trees.sides) == (max(heights) + 1 if kind == "constituency" else 0)
    for start, end, sides in zip(trees.levels, trees.levels[1:], trees.sides, strict=False):
        expected = ["left"] * sides[0] + ["right"] * sides[1] + ["root"] * (end - start - sum(sides))
        assert [sides_of[node] for node in order[start:end]] == expected
    for nodes, inner, edges, siblings, counts, parent, sides in trees.upper_levels():
        below = [[rank[child] for child in children[order[place]]] for place in range(nodes.start, nodes.stop)]
        assert (parent + nodes.start).tolist() == trees.parent[trees.children[edges]].tolist()
        assert counts.tolist() == siblings + [0] * (len(counts) - len(siblings))
        assert len(counts) > len(siblings)
        assert inner == slice(nodes.start - trees.n_leaves, nodes.stop - trees.n_leaves)
        if kind == "constituency":
            assert sides == trees.sides[trees.levels.index(nodes.start)]
            assert siblings == []
            assert trees.children[edges].tolist() == [child for pair in below for child in pair]
            continue
        assert siblings == [sum(len(some) > k for some in below) for k in range(max(map(len, below)))]
        by_ordinal = trees.children[edges].split(siblings)
        found = [sorted(some[k].item() for some in by_ordinal if k < len(some)) for k in range(len(below))]
        assert found == [*map(sorted, below)]
        assert sides == []
    assert len(list(trees.upper_levels())) == max(heights)
    check_rows(sentences, kind)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(sentences(), min_size=1, max_size=6))
@settings(max_examples=60)
def test_random_trees(kind, some):
    check(some, kind)


def check_rows(some, kind):
    """Leaves are one row where their words are the same, and in a binary tree what they are to their parents."""
    vocabulary = Vocabulary([UNKNOWN, *WORDS[:-2]])
    batch = collate(some, {"words": vocabulary}, [kind])
    trees, ids = batch.trees(kind), batch.ids["words"]
    rows = getattr(ids, kind)

    def what(place):
        edge = trees.slot[place].item()
        side = 2 if edge >= trees.n_edges else edge % 2
        return (side if kind == "constituency" else 0), ids.inverse[trees.words[place]].item()

    leaves = [what(place) for place in range(trees.n_leaves)]
    distinct = sorted(set(leaves))
    assert rows.n_leaves == len(distinct)
    assert rows.sides == ([[side for side, _ in distinct].count(side) for side in (0, 1)] if trees.sides else [])
    inner = range(len(distinct), len(distinct) + len(trees) - trees.n_leaves)
    assert rows.of_nodes.tolist() == [*map(distinct.index, leaves), *inner]
    assert rows.leaves.tolist() == sorted(range(len(leaves)), key=lambda place: (leaves[place], place))
    assert rows.leaf_starts.tolist() == [sorted(leaves).index(leaf) for leaf in distinct]

    words = [word for _, word in distinct]
    words += [ids.inverse[word].item() for word in trees.words[trees.n_leaves :]]
    assert rows.words.tolist() == words
    assert rows.by_word.tolist() == sorted(range(len(words)), key=lambda row: (words[row], row))
    assert rows.word_starts.tolist() == [sorted(words).index(word) for word in range(len(ids.distinct))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(kind, shape):
    check(SHAPES[shape], kind)


def test_moving_moves_all_tensors_and_keeps_the_rest():
    batch = collate(SHAPES["mixed"], {"words": Vocabulary([UNKNOWN, *WORDS])}, KINDS)
    moved = batch.to("meta")
    for kind in KINDS:
        for of, other in ((batch, moved), (batch.ids["words"], moved.ids["words"])):
            for name, value in vars(getattr(of, kind)).items():
                found = getattr(getattr(other, kind), name)
                assert found.is_meta if isinstance(value, torch.Tensor) else found == value
                assert not isinstance(value, torch.Tensor) or found.shape == value.shape
