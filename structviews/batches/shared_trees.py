"""Trees of many sentences with equal subtrees merged, for encoding without gradients.

The state of a node follows from its word, if it has one, and its children's states. So nodes whose subtrees are equal
share a row, and a batch becomes one graph whose rows are the distinct subtrees: leaves first, then level by level.
Subtrees of binary trees are equal if their left and their right children are; those of dependency trees if their words
are and they have the same children, in any order, since a Child-Sum cell does not see the order.

Each subtree has a number: that of its word if it is a leaf, else U + the index of an inner node. Inner nodes are
compared level by level, unless there are so few that hardly any are equal.

Shapes: B sentences of n words in total, N nodes, U distinct words, L distinct leaves, I distinct inner subtrees,
R = L + I rows, K children of the I, S words that are a child on one side.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from structviews.batches.trees import blocks
from structviews.runtime.arrays import Array, inverse_of, mix, stable_argsort, starts_of
from structviews.runtime.device import to_tensor

# In fewer nodes, looking for equal inner ones takes longer than computing them twice.
COMPARED_FROM = 4096
# The order of a level's rows in binary trees, by two bits: whether the left and the right child are leaves.
_SIDES, _ORDER = np.array([2, 1]), np.array([1, 0, 2, 3])


@dataclass(frozen=True)
class SharedTrees:
    """What both kinds of trees have.

    Attributes:
        levels: first row of each level, and the end; level 0 holds the leaves.
        of_nodes: ``(N,)`` row of each node, nodes being in the order of the sentences.
        roots: ``(B,)`` row of each sentence's root.
        words: distinct word of each row that has one: ``(L,)`` in binary trees, else ``(R,)``.
        children: ``(K,)`` rows of the children, those of one parent adjacent; in binary trees the left one first.
        starts: ``(I + 1,)`` start of each inner row's children, and the end.
    """

    levels: list[int]
    of_nodes: Tensor
    roots: Tensor
    words: Tensor
    children: Tensor
    starts: Tensor

    def blocks(self, size: int) -> Iterator[tuple[slice, tuple[Tensor, Tensor] | None]]:
        """At most ``size`` rows of a level at a time, from the leaves up.

        With the rows ``(k,)`` of the m rows' children, where each one's start, and the end ``(m + 1,)``; None for
        leaves.
        """
        n_leaves = self.levels[1]
        for start, stop in pairwise(self.levels):
            for rows in blocks(start, stop, size):
                if start == 0:
                    yield rows, None
                    continue
                starts = self.starts[rows.start - n_leaves : rows.stop - n_leaves + 1]
                first, last = starts[[0, -1]].tolist()
                yield rows, (self.children[first:last], starts - first)


@dataclass(frozen=True)
class SharedPairs(SharedTrees):
    """Binary trees; row u < U is the leaf of the distinct word u.

    Attributes:
        leaves: for either side, the words ``(S,)`` that are a child on this side, ascending.
        places: ``(2, I)`` the place among these of each child that is a leaf.
        inner: for each level above the leaves, and either side, the first and the end of the rows whose child on this
            side is an inner node, counted from the level's first row. Rows with only a left one come first, then those
            with two, with only a right one, and with none.
    """

    leaves: tuple[Tensor, Tensor]
    places: Tensor
    inner: list[list[tuple[int, int]]]


@dataclass(frozen=True)
class SharedFamilies(SharedTrees):
    """Dependency trees.

    Attributes:
        head_words: ``(K,)`` distinct word of each child's parent.
        n_children: for each level above the leaves the number of its rows that have a parent; they come first.
    """

    head_words: Tensor
    n_children: list[int]


def shared_constituency(
    left: Array, right: Array, heights: Array, lengths: Array, words: Array, n_distinct: int
) -> SharedPairs:
    """Merge binary trees, given as for ``trees.constituency_trees``; ``words (n,)`` are numbers of distinct words."""
    starts = starts_of(2 * lengths - 1)
    pairs = np.stack([left, right], axis=1) + np.repeat(starts, lengths - 1)[:, None]
    inner = np.flatnonzero(heights)
    subtree = np.empty(len(heights), dtype=np.int64)
    subtree[heights == 0] = words
    subtree[inner] = own = n_distinct + np.arange(len(inner))
    if len(heights) >= COMPARED_FROM:
        order, bounds = _by_level(heights[inner])
        for start, stop in pairwise(bounds):
            level = order[start:stop]
            below = subtree[pairs[level]]
            first, inverse = _distinct(below[:, 0] * (n_distinct + len(inner)) + below[:, 1])
            subtree[inner[level]] = own[level[first]][inverse]
    distinct = np.flatnonzero(subtree[inner] == own)
    below = subtree[pairs[distinct]]
    kinds = 4 * (heights[inner[distinct]].astype(np.int64) - 1) + _ORDER[(below < n_distinct) @ _SIDES]
    order = stable_argsort(kinds)
    row = np.arange(n_distinct + len(inner))
    row[own[distinct[order]]] = n_distinct + np.arange(len(distinct))
    rows, children = row[subtree], row[below[order]]
    # Where each kind ends in its level.
    ends = np.bincount(kinds, minlength=4 * heights.max(initial=0)).reshape(-1, 4).cumsum(axis=1)
    leaves, places = zip(*(_leaves(side, n_distinct) for side in children.T), strict=True)
    return SharedPairs(
        [0, *np.concatenate([[n_distinct], ends[:, 3]]).cumsum().tolist()],
        to_tensor(rows),
        to_tensor(rows[starts + 2 * lengths - 2]),
        torch.arange(n_distinct),
        to_tensor(children.ravel()),
        torch.arange(0, 2 * len(children) + 1, 2),
        (to_tensor(leaves[0]), to_tensor(leaves[1])),
        to_tensor(np.stack(places)),
        [[(0, both), (left_only, right_only)] for left_only, both, right_only, _ in ends.tolist()],
    )


def shared_dependency(heads: Array, heights: Array, lengths: Array, words: Array, n_distinct: int) -> SharedFamilies:
    """Merge dependency trees, given as for ``trees.dependency_trees``; ``words (n,)`` as for binary trees."""
    is_child = heads != 0
    order, bounds = _by_level(heights)
    n_leaves = bounds[1]
    of_node = words[order]
    # Nodes are in the order by level from here on: the children of each, those of one parent adjacent.
    rank = inverse_of(order)
    child = np.flatnonzero(is_child)
    parent = rank[(np.repeat(starts_of(lengths), lengths) + heads - 1)[child]]
    child = rank[child[stable_argsort(parent)]]
    counts = np.bincount(parent, minlength=len(heads))
    starts = starts_of(counts)
    own = n_distinct + np.arange(len(heads))
    subtree = np.concatenate([of_node[:n_leaves], own[n_leaves:]])
    if len(heads) >= COMPARED_FROM:
        for start, stop in pairwise(bounds[1:]):
            below = mix(subtree[child[starts[start] : starts[stop - 1] + counts[stop - 1]]].astype(np.uint64))
            # Of two different subtrees of this level, one pair in 2 ** 64 would have equal sums.
            sums = np.add.reduceat(below, starts[start:stop] - starts[start]) + mix(
                (~of_node[start:stop]).astype(np.uint64)
            )
            first, inverse = _distinct(sums)
            subtree[start:stop] = own[start + first][inverse]
    distinct = n_leaves + np.flatnonzero(subtree[n_leaves:] == own[n_leaves:])
    has_parent = np.zeros(n_distinct + len(heads), dtype=bool)
    has_parent[subtree[child]] = True
    is_leaf = np.zeros(n_distinct, dtype=bool)
    is_leaf[subtree[:n_leaves]] = True
    leaves = np.flatnonzero(is_leaf)
    height = heights[order[distinct]].astype(np.int64) - 1
    uses = 2 * height + ~has_parent[own[distinct]]
    distinct = distinct[stable_argsort(uses)]
    row = np.empty(n_distinct + len(heads), dtype=np.int64)
    row[np.concatenate([leaves, own[distinct]])] = np.arange(len(leaves) + len(distinct))
    rows = row[subtree]
    sizes = counts[distinct]
    ends = np.cumsum(sizes)
    edges = np.repeat(starts[distinct] - ends + sizes, sizes) + np.arange(sizes.sum())
    of_inner = of_node[distinct]
    by_use = np.bincount(uses, minlength=2 * heights.max(initial=0)).reshape(-1, 2)
    return SharedFamilies(
        [0, *np.concatenate([[len(leaves)], by_use.sum(axis=1)]).cumsum().tolist()],
        to_tensor(rows[rank]),
        to_tensor(rows[rank[~is_child]]),
        to_tensor(np.concatenate([leaves, of_inner])),
        to_tensor(rows[child[edges]]),
        to_tensor(np.concatenate([[0], ends])),
        to_tensor(np.repeat(of_inner, sizes)),
        by_use[:, 0].tolist(),
    )


def _by_level(heights: Array) -> tuple[Array, list[int]]:
    """The nodes sorted by height, and the start of each height that occurs, ascending, with the end."""
    order = stable_argsort(heights)
    steps = np.flatnonzero(np.diff(heights[order], prepend=-1))
    return order, [*steps.tolist(), len(heights)]


def _leaves(children: Array, n_distinct: int) -> tuple[Array, Array]:
    """The distinct words ``(S,)`` among rows ``(I,)`` of binary trees, ascending, and the place of each child."""
    occurs = np.zeros(n_distinct + 1, dtype=bool)
    words = np.minimum(children, n_distinct)  # stands for all inner nodes
    occurs[words] = True
    return np.flatnonzero(occurs[:-1]), (occurs.cumsum() - 1)[words]


def _distinct(keys: Array) -> tuple[Array, Array]:
    """The first place of each distinct key of ``(I,)``, keys ascending, and which of them each key is."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse
