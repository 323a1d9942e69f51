"""The schedule against trees walked node by node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees_for_tests import SHAPES, chain, gum, sentences, star

from structviews.batching import collate
from structviews.trees import words_of_leaves

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
    trees = getattr(collate(sentences, {}, [kind]), f"{kind}_trees")
    parents, children = parents_and_children(sentences, kind)
    n_nodes = len(parents)
    order, rank = trees.order.tolist(), trees.rank.tolist()

    def height(node):
        return 1 + max(map(height, children[node])) if children[node] else 0

    heights = [height(node) for node in range(n_nodes)]

    # Order and rank are inverse permutations, and bring parents and roots along.
    assert sorted(order) == list(range(n_nodes))
    assert [order[place] for place in rank] == list(range(n_nodes))
    assert [trees.parent[rank[i]].item() for i in range(n_nodes)] == [-1 if p is None else rank[p] for p in parents]
    assert trees.roots.tolist() == [rank[i] for i in range(n_nodes) if parents[i] is None]
    assert len(trees.roots) == len(sentences)

    # Levels are contiguous, from the leaves up.
    assert [heights[i] for i in order] == sorted(heights)
    assert trees.levels == [sum(h < level for h in heights) for level in range(max(heights) + 2)]
    assert trees.n_leaves == heights.count(0)

    # Below each level the slices hold its children, each once, and nothing else.
    assert trees.slices[0] == []
    assert trees.edges[:2] == [0, 0]
    assert trees.edges[-1] == len(trees.parent_row) == n_nodes - len(sentences)
    for level, (start, end, slices, edges) in enumerate(trees.upper_levels(), 1):
        below = [place for a, b in slices for place in range(a, b)]
        assert slices == sorted(slices)
        assert all(a < b and heights[order[a]] == heights[order[b - 1]] < level for a, b in slices)
        assert set(below) == {rank[child] for place in range(start, end) for child in children[order[place]]}
        assert len(below) == edges.stop - edges.start
        rows = trees.parent_row[edges].tolist()
        assert [start + row for row in rows] == [rank[parents[order[place]]] for place in below]
        if kind == "constituency":
            left, right = (side[start - trees.n_leaves : end - trees.n_leaves].tolist() for side in trees.sides())
            pairs = zip(left, right, strict=True)
            assert [[order[below[a]], order[below[b]]] for a, b in pairs] == [
                children[order[place]] for place in range(start, end)
            ]
    assert len(list(trees.upper_levels())) == max(heights)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(sentences(), min_size=1, max_size=6))
@settings(max_examples=60)
def test_random_trees(kind, some):
    check(some, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(kind, shape):
    check(SHAPES[shape], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_real_trees(kind):
    check(gum(150), kind)


def test_the_levels_of_a_star_and_of_a_chain():
    trees = collate([star(5), chain(3)], {}, ["dependency"]).dependency_trees
    assert trees.levels == [0, 5, 7, 8]
    # The leaves below level 1 are the star's four and the chain's last; its middle is below level 2.
    assert trees.slices == [[], [(0, 5)], [(5, 6)]]


def test_dependency_trees_have_no_sides():
    with pytest.raises(ValueError, match="not binary"):
        collate([chain(3)], {}, ["dependency"]).dependency_trees.sides()


def test_the_nodes_of_words():
    some = SHAPES["mixed"]
    expected, start = [], 0
    for sentence in some:
        expected += range(start, start + len(sentence.tokens))
        start += 2 * len(sentence.tokens) - 1
    assert words_of_leaves(collate(some, {}, []).lengths).tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_moving_keeps_all_fields(kind):
    trees = getattr(collate(SHAPES["mixed"], {}, [kind]), f"{kind}_trees")
    moved = trees.to("meta")
    tensors = ["order", "rank", "roots", "parent", "parent_row"] + ["left", "right"] * (kind == "constituency")
    assert all(
        getattr(moved, name).is_meta and getattr(moved, name).shape == getattr(trees, name).shape for name in tensors
    )
    assert (moved.levels, moved.slices, moved.edges) == (trees.levels, trees.slices, trees.edges)
