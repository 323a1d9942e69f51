"""Trees of many sentences as one level schedule.

Nodes are sorted by height, so a level is a slice, and so are the edges to its children. Within a level,
nodes of binary trees are sorted by role: left children, right children, roots; their edges come in pairs,
each parent's left and right child. Nodes of other trees are sorted by decreasing number of children, and
edges by ordinal: all first children, then all second ones, and so on. So the k-th children of a level
belong to a prefix of its nodes, and sums over children are sums of slices.

Shapes: B sentences of n words in total, N nodes, E = N - B edges, I = N - leaves inner nodes, U distinct
words, L distinct leaves, R = L + I rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from structviews.runtime.arrays import Array, group, inverse_of, stable_argsort, starts_of
from structviews.runtime.device import to_tensor


class Level(NamedTuple):
    """A level above the leaves.

    Attributes:
        nodes: its nodes, a slice of the sorted order.
        inner: the same slice, counted from the first inner node.
        edges: the edges to its children.
        siblings: number of its nodes with at least 1, 2, ... children, decreasing; empty for binary
            trees, whose edges come in pairs.
        counts: ``siblings`` as a tensor that ends with 0.
        parent: ``(K,)`` parent of each of its K children, numbered within the level.
        sides: for binary trees, the numbers of left and of right children among its nodes.
    """

    nodes: slice
    inner: slice
    edges: slice
    siblings: list[int]
    counts: Tensor
    parent: Tensor
    sides: list[int]


@dataclass(frozen=True)
class TreeBatch:
    """Structure of the trees of a batch; nodes are numbered in sorted order unless stated otherwise.

    Attributes:
        rank: ``(N,)`` sorted position of each node, nodes being in the order of the sentences.
        words: ``(n,)`` word, in text order, of each node that has one: all nodes of dependency
            trees, the leaves of constituency trees.
        levels: start of each level, and the end; level 0 holds the leaves.
        roots: ``(B,)`` root of each sentence.
        parent: ``(N,)`` parent of each node, -1 for a root.
        children: ``(E,)`` child of each edge.
        slot: ``(N,)`` the edge to each node; E + b for the root of sentence b.
        edges: start of the edges below each level, and the end.
        siblings: by level, see ``Level``.
        counts: ``(levels, maximum number of children + 1)`` ``siblings``, padded with zeros.
        parent_row: ``(E,)`` parent of each edge, numbered within its level.
        sides: by level, see ``Level``; empty unless the trees are binary.
    """

    rank: Tensor
    words: Tensor
    levels: list[int]
    roots: Tensor
    parent: Tensor
    children: Tensor
    slot: Tensor
    edges: list[int]
    siblings: list[list[int]]
    counts: Tensor
    parent_row: Tensor
    sides: list[list[int]] = field(default_factory=list)

    def __len__(self) -> int:
        """The number N of nodes."""
        return self.levels[-1]

    @property
    def n_leaves(self) -> int:
        return self.levels[1]

    @property
    def binary(self) -> bool:
        """Whether every inner node has a left and a right child."""
        return bool(self.sides)

    @property
    def n_edges(self) -> int:
        return self.edges[-1]

    def upper_levels(self) -> Iterator[Level]:
        """The levels above the leaves, bottom up."""
        for level in range(1, len(self.levels) - 1):
            nodes = slice(self.levels[level], self.levels[level + 1])
            inner = slice(nodes.start - self.n_leaves, nodes.stop - self.n_leaves)
            edges = slice(self.edges[level], self.edges[level + 1])
            sides = self.sides[level] if self.binary else []
            yield Level(nodes, inner, edges, self.siblings[level], self.counts[level], self.parent_row[edges], sides)


@dataclass(frozen=True)
class NodeRows:
    """The nodes of a batch of trees with duplicate leaves merged: leaves of the same word share a row.

    The distinct leaves come first, sorted by word; for binary trees first left children, then right children,
    then roots. The inner nodes follow in sorted order.

    Attributes:
        of_nodes: ``(N,)`` row of each node.
        words: index of the distinct word of each row that has one: ``(R,)`` for dependency trees, ``(L,)`` for
            constituency trees.
        by_word: the same rows sorted by word.
        word_starts: ``(U,)`` start of each distinct word in ``by_word``.
        leaves: ``(leaves,)`` the leaf nodes sorted by row.
        leaf_starts: ``(L,)`` start of each row in ``leaves``.
        sides: for binary trees, the numbers of left and of right children among the distinct leaves.
    """

    of_nodes: Tensor
    words: Tensor
    by_word: Tensor
    word_starts: Tensor
    leaves: Tensor
    leaf_starts: Tensor
    sides: list[int]

    @property
    def n_leaves(self) -> int:
        """The number L of distinct leaves."""
        return len(self.leaf_starts)

    def at(self, level: Level) -> slice:
        """The rows of a level above the leaves."""
        return slice(self.n_leaves + level.inner.start, self.n_leaves + level.inner.stop)


def blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """Cut rows into blocks of at most ``size``."""
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))


def node_rows(trees: TreeBatch, words: Array, n_distinct: int) -> NodeRows:
    """The rows of a batch of trees, on the CPU.

    Args:
        trees: the structure.
        words: ``(n,)`` index of each word among the distinct words, in text order.
        n_distinct: number of distinct words.
    """
    of_place = words[trees.words.numpy()]
    ends = np.cumsum(trees.sides[0] if trees.binary else [], dtype=np.int64)
    side = np.searchsorted(ends, np.arange(trees.n_leaves), side="right")
    leaves = group(of_place[: trees.n_leaves] + n_distinct * side, n_distinct * (len(ends) + 1))
    n_leaves = len(leaves.distinct)
    with_word = np.concatenate([leaves.distinct % n_distinct, of_place[trees.n_leaves :]])
    by_word = group(with_word, n_distinct)
    inner = n_leaves + np.arange(len(trees) - trees.n_leaves)
    return NodeRows(
        of_nodes=to_tensor(np.concatenate([leaves.inverse, inner])),
        words=to_tensor(with_word),
        by_word=to_tensor(by_word.places),
        word_starts=to_tensor(by_word.starts),
        leaves=to_tensor(leaves.places),
        leaf_starts=to_tensor(leaves.starts),
        sides=np.diff(np.searchsorted(leaves.distinct, n_distinct * np.arange(len(ends) + 1))).tolist(),
    )


def dependency_trees(heads: Array, heights: Array, lengths: Array) -> TreeBatch:
    """The level schedule of dependency trees, whose nodes are the words.

    Args:
        heads: ``(N,)`` 1-based heads within each sentence, 0 for the root.
        heights: ``(N,)`` height of each word, leaf 0.
        lengths: ``(B,)`` number of words of each sentence.
    """
    heads = heads.astype(np.int64)
    is_root = heads == 0
    parent = np.repeat(starts_of(lengths), lengths) + heads - 1
    n_children = np.bincount(parent[~is_root], minlength=len(parent))
    most = int(n_children.max(initial=0))
    order = stable_argsort(heights.astype(np.int64) * (most + 1) + most - n_children)
    rank, height = inverse_of(order), heights[order].astype(np.int64)
    child = np.flatnonzero(~is_root)
    child_parent = rank[parent[child]]
    by_parent = stable_argsort(child_parent)
    child_parent = child_parent[by_parent]
    # Siblings are now adjacent; the ordinal of each is its distance from the first.
    first = np.flatnonzero(np.diff(child_parent, prepend=-1))
    ordinal = np.arange(len(child)) - np.repeat(first, np.diff(first, append=len(child)))
    key = height[child_parent] * (most + 1) + ordinal
    by_ordinal = stable_argsort(key)
    counts = np.bincount(key, minlength=(height[-1] + 1) * (most + 1)).reshape(-1, most + 1)
    return TreeBatch(
        **_fields(order, rank, height, is_root, rank[child[by_parent][by_ordinal]], child_parent[by_ordinal]),
        words=to_tensor(order),
        edges=[0, *counts.sum(axis=1).cumsum().tolist()],
        siblings=[[size for size in row if size] for row in counts.tolist()],
        counts=to_tensor(counts),
    )


def constituency_trees(left: Array, right: Array, heights: Array, lengths: Array) -> TreeBatch:
    """The level schedule of binary constituency trees, with the ``2n - 1`` nodes of each sentence consecutive.

    Args:
        left: ``(I,)`` left child of each internal node, numbered within its sentence.
        right: ``(I,)`` right child.
        heights: ``(N,)`` height of each node, leaf 0.
        lengths: ``(B,)`` number of words n of each sentence, which has ``n - 1`` internal nodes.
    """
    starts, inner = starts_of(2 * lengths - 1), lengths - 1
    is_root = np.zeros(len(heights), dtype=bool)
    is_root[starts + 2 * lengths - 2] = True
    # 0 for a left child, 1 for a right one, 2 for a root.
    side = 2 * is_root
    side[np.repeat(starts, inner) + right] = 1
    key = heights.astype(np.int64) * 3 + side
    order = stable_argsort(key)
    rank, height, n_leaves = inverse_of(order), heights[order].astype(np.int64), int((heights == 0).sum())
    pairs = np.repeat(starts, inner)[:, None] + np.stack([left, right], axis=1)
    # The rows of `pairs` are the internal nodes in sentence order; in sorted order they follow the leaves.
    row = np.cumsum(heights > 0) - 1
    children = rank[pairs[row[order[n_leaves:]]]].reshape(-1)
    fields = _fields(order, rank, height, is_root, children, np.repeat(np.arange(n_leaves, len(heights)), 2))
    n_levels = len(fields["levels"]) - 1
    return TreeBatch(
        **fields,
        words=to_tensor((np.cumsum(heights == 0) - 1)[order[:n_leaves]]),
        edges=[0, *(2 * (end - n_leaves) for end in fields["levels"][1:])],
        siblings=[[] for _ in range(n_levels)],
        counts=to_tensor(np.zeros((n_levels, 1), dtype=np.int64)),
        sides=np.bincount(key, minlength=3 * n_levels).reshape(-1, 3)[:, :2].tolist(),
    )


def _fields(
    order: Array, rank: Array, height: Array, is_root: Array, children: Array, child_parent: Array
) -> dict[str, Any]:
    """Fields of a TreeBatch: from nodes sorted by height, edges in sorted numbering, and roots in sentence order."""
    levels = np.searchsorted(height, np.arange(int(height[-1]) + 2))
    roots = rank[is_root]
    parent = np.full(len(order), -1, dtype=np.int64)
    parent[children] = child_parent
    slot = np.empty_like(parent)
    slot[children] = np.arange(len(children))
    slot[roots] = len(children) + np.arange(len(roots))
    tensors = {"rank": rank, "roots": roots, "parent": parent, "children": children, "slot": slot}
    tensors["parent_row"] = child_parent - levels[height[child_parent]]
    return {name: to_tensor(array) for name, array in tensors.items()} | {"levels": levels.tolist()}
