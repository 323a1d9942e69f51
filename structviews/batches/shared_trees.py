"""Trees of many sentences with equal subtrees merged, for encoding without gradients.

The state of a node follows from its word, if it has one, and its children's states. So nodes whose subtrees are equal
share a row, and a batch becomes one graph whose rows are the distinct subtrees: leaves first, then level by level.
Subtrees of binary trees are equal if their left and their right children are; those of dependency trees if their words
are and they have the same children, in any order, since a Child-Sum cell does not see the order.

Shapes: B sentences of n words in total, N nodes, U distinct words, L distinct leaves, I distinct inner subtrees,
R = L + I rows, K children of the I, S words that are a child on one side.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from torch import Tensor

from structviews.runtime.arrays import Array, group, inverse_of, stable_argsort, starts_of
from structviews.runtime.device import to_tensor

# The order of a level's rows in binary trees, by two bits: whether the left and the right child are leaves.
_SIDES, _ORDER = np.array([2, 1]), np.array([1, 0, 2, 3])


@dataclass(frozen=True)
class SharedTrees:
    """What both kinds of trees have.

    Attributes:
        levels: first row of each level, and the end; level 0 holds the leaves.
        of_nodes: ``(N,)`` row of each node, nodes being in the order of the sentences.
        roots: ``(B,)`` row of each sentence's root.
    """

    levels: list[int]
    of_nodes: Tensor
    roots: Tensor


@dataclass(frozen=True)
class SharedPairs(SharedTrees):
    """Binary trees; row u < U is the leaf of the distinct word u.

    Attributes:
        children: ``(2, I)`` rows of the left and of the right children.
        leaves: for either side, the words ``(S,)`` that are a child on this side, ascending.
        places: ``(2, I)`` the place among these of each child that is a leaf.
        inner: for each level above the leaves, and either side, the first and the end of the rows whose child on this
            side is an inner node, counted from the level's first row. Rows with only a left one come first, then those
            with two, with only a right one, and with none.
    """

    children: Tensor
    leaves: tuple[Tensor, Tensor]
    places: Tensor
    inner: list[list[tuple[int, int]]]


@dataclass(frozen=True)
class SharedFamilies(SharedTrees):
    """Dependency trees.

    Attributes:
        words: ``(R,)`` distinct word of each row.
        children: ``(K,)`` rows of the children, those of one parent adjacent.
        starts: ``(I + 1,)`` start of each inner row's children, and the end.
        head_words: ``(K,)`` distinct word of each child's parent.
        n_children: for each level above the leaves the number of its rows that have a parent; they come first.
    """

    words: Tensor
    children: Tensor
    starts: Tensor
    head_words: Tensor
    n_children: list[int]


def shared_constituency(
    left: Array, right: Array, heights: Array, lengths: Array, words: Array, n_distinct: int
) -> SharedPairs:
    """Binary trees, with the ``2n - 1`` nodes of each sentence consecutive.

    Args:
        left, right, heights, lengths: as for ``trees.constituency_trees``.
        words: ``(n,)`` index of each word among the distinct words.
        n_distinct: number U of distinct words.
    """
    starts = starts_of(2 * lengths - 1)
    pairs = np.stack([left, right], axis=1) + np.repeat(starts, lengths - 1)[:, None]
    rows = np.empty(len(heights), dtype=np.int64)
    rows[heights == 0] = words
    inner = np.flatnonzero(heights)
    order, bounds = _by_level(heights[inner])
    nodes, below = inner[order], pairs[order]
    levels, children, inner_children = [0, n_distinct], [], []
    for start, stop in pairwise(bounds):
        limit = levels[-1]
        pair = rows[below[start:stop]]
        kind = _ORDER[(pair < n_distinct) @ _SIDES]
        keys, _, inverse = _distinct((kind * limit + pair[:, 0]) * limit + pair[:, 1])
        rows[nodes[start:stop]] = limit + inverse
        levels.append(limit + len(keys))
        left_only, left, all_inner = keys.searchsorted(np.arange(1, 4) * limit**2).tolist()
        inner_children.append([(0, left), (left_only, all_inner)])
        children.append([keys // limit % limit, keys % limit])
    both = np.concatenate([np.empty((2, 0), dtype=np.int64), *children], axis=1)
    leaves, places = zip(*(_leaves(side, n_distinct) for side in both), strict=True)
    return SharedPairs(
        levels,
        to_tensor(rows),
        to_tensor(rows[starts + 2 * lengths - 2]),
        to_tensor(both),
        (to_tensor(leaves[0]), to_tensor(leaves[1])),
        to_tensor(np.stack(places)),
        inner_children,
    )


def shared_dependency(heads: Array, heights: Array, lengths: Array, words: Array, n_distinct: int) -> SharedFamilies:
    """Dependency trees, whose nodes are the words.

    Args:
        heads, heights, lengths: as for ``trees.dependency_trees``.
        words: ``(n,)`` index of each word among the distinct words.
        n_distinct: number U of distinct words.
    """
    is_child = heads != 0
    order, bounds = _by_level(heights)
    n_leaves = bounds[1]
    leaves = group(words[order[:n_leaves]], n_distinct)
    rows = np.empty(len(heads), dtype=np.int64)
    rows[order[:n_leaves]] = leaves.inverse
    # The children of each node, nodes in the order by level.
    child = np.flatnonzero(is_child)
    parent = inverse_of(order)[(np.repeat(starts_of(lengths), lengths) + heads - 1)[child]]
    child = child[stable_argsort(parent)]
    counts = np.bincount(parent, minlength=len(heads))
    starts = starts_of(counts)
    levels, n_children, chosen = [0, len(leaves.distinct)], [], []
    for start, stop in pairwise(bounds[1:]):
        nodes, first = order[start:stop], starts[start]
        below = _mixed(rows[child[first : starts[stop - 1] + counts[stop - 1]]])
        # Of two different subtrees of this level, one pair in 2 ** 64 would have equal sums.
        sums = np.add.reduceat(below, starts[start:stop] - first) + _mixed(~words[nodes])
        keys, example, inverse = _distinct(sums)
        is_last = np.ones(len(keys), dtype=bool)  # has no parent
        is_last[inverse[is_child[nodes]]] = False
        by_use = is_last.argsort(kind="stable")
        rows[nodes] = levels[-1] + inverse_of(by_use)[inverse]
        levels.append(levels[-1] + len(keys))
        n_children.append(len(keys) - int(np.count_nonzero(is_last)))
        chosen.append(start + example[by_use])
    inner = np.concatenate([*chosen, np.empty(0, dtype=np.int64)])
    sizes = counts[inner]
    ends = np.cumsum(sizes)
    edges = np.repeat(starts[inner] - ends + sizes, sizes) + np.arange(sizes.sum())
    of_inner = words[order[inner]]
    return SharedFamilies(
        levels,
        to_tensor(rows),
        to_tensor(rows[~is_child]),
        to_tensor(np.concatenate([leaves.distinct, of_inner])),
        to_tensor(rows[child[edges]]),
        to_tensor(np.concatenate([[0], ends])),
        to_tensor(np.repeat(of_inner, sizes)),
        n_children,
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


def _distinct(keys: Array) -> tuple[Array, Array, Array]:
    """Distinct keys ``(I,)``, ascending, the first place of each, and which of them each key is.

    As ``np.unique``, which takes three times as long for the few keys of a level of one sentence.
    """
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    is_new = np.empty(len(keys), dtype=bool)
    is_new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    inverse = np.empty(len(keys), dtype=np.int64)
    inverse[order] = is_new.cumsum() - 1
    return ordered[is_new], order[is_new], inverse


def _mixed(numbers: Array) -> Array:
    """64 bits for each integer that look like random ones: the finaliser of SplitMix64 (Steele et al. 2014)."""
    bits = (2 * numbers + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # never of 0, which would add nothing
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: Array = bits ^ bits >> np.uint64(31)
    return mixed
