"""Trees of many sentences as one level schedule, and with equal subtrees merged, for encoding without gradients.

Nodes are sorted by height, so a level is a slice, and so are the edges to its children. Within a level,
nodes of binary trees are sorted by role: left children, right children, roots; their edges come in pairs,
each parent's left and right child. Nodes of other trees are sorted by decreasing number of children, and
edges by ordinal: all first children, then all second ones, and so on. So the k-th children of a level
belong to a prefix of its nodes, and sums over children are sums of slices.

Merged trees: the state of a node follows from its word, if it has one, and its children's states. So nodes whose
subtrees are equal share a row, and a batch becomes one graph of the distinct subtrees: leaves first, then level by
level. Subtrees of binary trees are equal if their left and their right children are; those of dependency trees if
their words are and they have the same children, in any order, since a Child-Sum cell does not see the order.

Each subtree has a number: that of its word if it is a leaf, else U + the index of an inner node. Inner nodes are
compared level by level, unless there are so few that hardly any are equal.

Shapes: B sentences of n words in total, N nodes, E = N - B edges, U distinct words, L distinct leaves, I inner nodes
(of merged trees, distinct inner subtrees), R = L + I rows; K children of the I, S words that are a child on one side.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.relations import LABELS, word_labels
from structviews.runtime.arrays import Array, group, inverse_of, mix, stable_argsort, starts_of
from structviews.runtime.device import to_tensor

# In fewer nodes, looking for equal inner ones takes longer than computing them twice.
COMPARED_FROM = 4096
# The order of a level's rows in binary trees, by two bits: whether the left and the right child are leaves.
_SIDES, _ORDER = np.array([2, 1]), np.array([1, 0, 2, 3])


class Level(NamedTuple):
    """A level above the leaves."""

    nodes: slice  # its nodes, a slice of the sorted order
    inner: slice  # the same slice, counted from the first inner node
    edges: slice  # the edges to its children
    siblings: list[int]  # numbers of its nodes with at least 1, 2, ... children, decreasing; empty for binary trees
    counts: Tensor  # `siblings` as a tensor that ends with 0
    parent: Tensor  # (K,) parent of each of its K children, numbered within the level
    sides: list[int]  # for binary trees, the numbers of left and of right children among its nodes


@dataclass(frozen=True)
class TreeBatch:
    """Structure of the trees of a batch; nodes are numbered in sorted order unless stated otherwise."""

    rank: Tensor  # (N,) sorted position of each node, nodes being in the order of the sentences
    words: Tensor  # (n,) word, in text order, of each node of dependency trees, of each leaf of constituency trees
    levels: list[int]  # start of each level, and the end; level 0 holds the leaves
    n_leaves: int  # number L of leaves
    n_edges: int  # number E of edges
    roots: Tensor  # (B,) root of each sentence
    parent: Tensor  # (N,) parent of each node, -1 for a root
    children: Tensor  # (E,) child of each edge
    slot: Tensor  # (N,) the edge to each node; E + b for the root of sentence b
    edges: list[int]  # start of the edges below each level, and the end
    siblings: list[list[int]]  # by level, see `Level`
    counts: Tensor  # (levels, maximum number of children + 1) `siblings`, padded with zeros
    parent_row: Tensor  # (E,) parent of each edge, numbered within its level
    sides: list[list[int]] = field(default_factory=list)  # by level, see `Level`; empty unless the trees are binary
    labels: Tensor | None = None  # (n,) label of each word, in text order, see `corpus.relations`; None without labels

    def __len__(self) -> int:
        """The number N of nodes."""
        return self.levels[-1]

    def upper_levels(self) -> Iterator[Level]:
        """The levels above the leaves, bottom up."""
        for level in range(1, len(self.levels) - 1):
            nodes = slice(self.levels[level], self.levels[level + 1])
            inner = slice(nodes.start - self.n_leaves, nodes.stop - self.n_leaves)
            edges = slice(self.edges[level], self.edges[level + 1])
            sides = self.sides[level] if self.sides else []
            yield Level(nodes, inner, edges, self.siblings[level], self.counts[level], self.parent_row[edges], sides)


@dataclass(frozen=True)
class Pairs:
    """The distinct pairs of a word and its label, which are to labelled trees what distinct words are to others.

    Shapes: P pairs, L possible labels.
    """

    words: Tensor  # (P,) distinct word of each, ascending
    labels: Tensor  # (P,) its label
    word_starts: Tensor  # (U,) start of each word's pairs
    by_label: Tensor  # (P,) the pairs sorted by label
    label_starts: Tensor  # (L,) start of each label in `by_label`


def paired(words: Array, labels: Array, n_distinct: int) -> tuple[Pairs, Array]:
    """The distinct pairs of ``words (n,)``, below ``n_distinct``, and ``labels (n,)``; and the pair of each word."""
    n_labels = prod(LABELS)
    distinct, of_words, _, _ = group(words * n_labels + labels, n_distinct * n_labels)
    word, label = np.divmod(distinct, n_labels)
    word_starts = starts_of(np.bincount(word, minlength=n_distinct))
    label_starts = starts_of(np.bincount(label, minlength=n_labels))
    return Pairs(*map(to_tensor, (word, label, word_starts, stable_argsort(label), label_starts))), of_words


@dataclass(frozen=True)
class NodeRows:
    """The nodes of a batch of trees with duplicate leaves merged: leaves of the same word share a row.

    The distinct leaves come first, sorted by word; for binary trees first left children, then right children,
    then roots. The inner nodes follow in sorted order.
    """

    of_nodes: Tensor  # (N,) row of each node
    words: Tensor  # distinct word of each row that has one: (R,) for dependency trees, (L,) for constituency trees
    by_word: Tensor  # the same rows sorted by word
    word_starts: Tensor  # (U,) start of each distinct word in `by_word`
    leaves: Tensor  # (leaves,) the leaf nodes sorted by row
    leaf_starts: Tensor  # (L,) start of each row in `leaves`
    n_leaves: int  # the number L of distinct leaves
    sides: list[int]  # for binary trees, the numbers of left and of right children among the distinct leaves
    pairs: Pairs | None = None  # of labelled trees, which have these in place of all the distinct words above

    def at(self, level: Level) -> slice:
        """The rows of a level above the leaves."""
        return slice(self.n_leaves + level.inner.start, self.n_leaves + level.inner.stop)


def blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """Cut rows into blocks of at most ``size``."""
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))


def node_rows(trees: TreeBatch, words: Array, n_distinct: int) -> NodeRows:
    """The rows of a batch of trees, on the CPU; ``words (n,)`` are numbers of distinct words, in text order."""
    pairs = None
    if trees.labels is not None:
        pairs, words = paired(words, trees.labels.numpy(), n_distinct)
        n_distinct = len(pairs.words)
    of_place = words[trees.words.numpy()]
    ends = np.cumsum(trees.sides[0] if trees.sides else [], dtype=np.int64)
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
        n_leaves=n_leaves,
        sides=np.diff(np.searchsorted(leaves.distinct, n_distinct * np.arange(len(ends) + 1))).tolist(),
        pairs=pairs,
    )


def dependency_trees(lengths: Array, heads: Array, heights: Array, relations: Array | None = None) -> TreeBatch:
    """The level schedule of dependency trees, whose nodes are the words.

    Args:
        lengths: ``(B,)`` number of words of each sentence.
        heads: ``(N,)`` 1-based heads within each sentence, 0 for the root.
        heights: ``(N,)`` height of each word, leaf 0.
        relations: ``(N,)`` number of each word's relation, if the trees are labelled.
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
        labels=None if relations is None else to_tensor(word_labels(heads, relations, lengths)),
    )


def constituency_trees(lengths: Array, left: Array, right: Array, heights: Array) -> TreeBatch:
    """The level schedule of binary constituency trees, with the ``2n - 1`` nodes of each sentence consecutive.

    Args:
        lengths: ``(B,)`` number of words n of each sentence, which has ``n - 1`` internal nodes.
        left: ``(I,)`` left child of each internal node, numbered within its sentence.
        right: ``(I,)`` right child.
        heights: ``(N,)`` height of each node, leaf 0.
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
    counts = {"n_leaves": int(levels[1]), "n_edges": len(children)}
    roots = rank[is_root]
    parent = np.full(len(order), -1, dtype=np.int64)
    parent[children] = child_parent
    slot = np.empty_like(parent)
    slot[children] = np.arange(len(children))
    slot[roots] = len(children) + np.arange(len(roots))
    tensors = {"rank": rank, "roots": roots, "parent": parent, "children": children, "slot": slot}
    tensors["parent_row"] = child_parent - levels[height[child_parent]]
    return {name: to_tensor(array) for name, array in tensors.items()} | {"levels": levels.tolist()} | counts


@dataclass(frozen=True)
class SharedTrees:
    """What both kinds of trees have."""

    levels: list[int]  # first row of each level, and the end; level 0 holds the leaves
    of_nodes: Tensor  # (N,) row of each node, nodes being in the order of the sentences
    roots: Tensor  # (B,) row of each sentence's root
    words: Tensor  # distinct word of each row that has one: (L,) in binary trees, else (R,)
    children: Tensor  # (K,) rows of the children, those of one parent adjacent; in binary trees the left one first
    starts: Tensor  # (I + 1,) start of each inner row's children, and the end
    pairs: Pairs | None = field(default=None, kw_only=True)  # see `NodeRows`


@dataclass(frozen=True)
class SharedPairs(SharedTrees):
    """Binary trees; row u < U is the leaf of the distinct word u."""

    leaves: tuple[Tensor, Tensor]  # for either side, the words (S,) that are a child on this side, ascending
    places: Tensor  # (2, I) the place among these of each child that is a leaf
    # For each level above the leaves, and either side, the first and the end of the rows whose child on this side is
    # an inner node, counted from the level's first row. Rows with only a left one come first, then those with two, with
    # only a right one, and with none.
    inner: list[list[tuple[int, int]]]


@dataclass(frozen=True)
class SharedFamilies(SharedTrees):
    """Dependency trees."""

    head_words: Tensor  # (K,) distinct word of each child's parent
    n_children: list[int]  # for each level above the leaves, number of its rows that have a parent; they come first


def shared_constituency(
    words: Array, n_distinct: int, lengths: Array, left: Array, right: Array, heights: Array
) -> SharedPairs:
    """Merge binary trees, given as for ``constituency_trees``; ``words (n,)`` are numbers of distinct words."""
    starts = starts_of(2 * lengths - 1)
    pairs = np.stack([left, right], axis=1) + np.repeat(starts, lengths - 1)[:, None]
    inner = np.flatnonzero(heights)
    subtree = np.empty(len(heights), dtype=np.int64)
    subtree[heights == 0] = words
    subtree[inner] = own = n_distinct + np.arange(len(inner))
    if len(heights) >= COMPARED_FROM:
        by_level = stable_argsort(heights[inner])
        for start, stop in pairwise([0, *np.bincount(heights[inner])[1:].cumsum().tolist()]):
            level = by_level[start:stop]
            below = subtree[pairs[level]]
            keys = below[:, 0] * (n_distinct + len(inner)) + below[:, 1]
            _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            subtree[inner[level]] = own[level[first]][inverse]
    distinct = np.flatnonzero(subtree[inner] == own)
    below = subtree[pairs[distinct]]
    kinds = 4 * (heights[inner[distinct]].astype(np.int64) - 1) + _ORDER[(below < n_distinct) @ _SIDES]
    order = stable_argsort(kinds)
    row = np.arange(n_distinct + len(inner))
    row[own[distinct[order]]] = n_distinct + np.arange(len(distinct))
    rows, children = row[subtree], row[below[order]]
    # Where each kind ends in its level.
    ends = np.bincount(kinds, minlength=4 * int(heights.max(initial=0))).reshape(-1, 4).cumsum(axis=1)
    occurs = np.zeros((2, n_distinct + 1), dtype=bool)  # the words that are a child on either side
    numbers = np.minimum(children.T, n_distinct)  # the last stands for all inner nodes
    sides = np.arange(2)[:, None]
    occurs[sides, numbers] = True
    leaves = [np.flatnonzero(side[:-1]) for side in occurs]
    places = (occurs.cumsum(axis=1) - 1)[sides, numbers]
    return SharedPairs(
        [0, *np.concatenate([[n_distinct], ends[:, 3]]).cumsum().tolist()],
        to_tensor(rows),
        to_tensor(rows[starts + 2 * lengths - 2]),
        torch.arange(n_distinct),
        to_tensor(children.ravel()),
        torch.arange(0, 2 * len(children) + 1, 2),
        (to_tensor(leaves[0]), to_tensor(leaves[1])),
        to_tensor(places),
        [[(0, both), (left_only, right_only)] for left_only, both, right_only, _ in ends.tolist()],
    )


def shared_dependency(
    words: Array, n_distinct: int, lengths: Array, heads: Array, heights: Array, relations: Array | None = None
) -> SharedFamilies:
    """Merge dependency trees, given as for ``dependency_trees``; ``words (n,)`` as for binary trees.

    Subtrees of labelled trees are equal if their words' labels are, too.
    """
    pairs = None
    if relations is not None:
        pairs, words = paired(words, word_labels(heads, relations, lengths), n_distinct)
        n_distinct = len(pairs.words)
    is_child = heads != 0
    order, bounds = stable_argsort(heights), [0, *np.bincount(heights).cumsum().tolist()]
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
            sums = np.add.reduceat(below, starts[start:stop] - starts[start])
            sums += mix((~of_node[start:stop]).astype(np.uint64))
            _, first, inverse = np.unique(sums, return_index=True, return_inverse=True)
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
    by_use = np.bincount(uses, minlength=2 * int(heights.max(initial=0))).reshape(-1, 2)
    return SharedFamilies(
        [0, *np.concatenate([[len(leaves)], by_use.sum(axis=1)]).cumsum().tolist()],
        to_tensor(rows[rank]),
        to_tensor(rows[rank[~is_child]]),
        to_tensor(np.concatenate([leaves, of_inner])),
        to_tensor(rows[child[edges]]),
        to_tensor(np.concatenate([[0], ends])),
        to_tensor(np.repeat(of_inner, sizes)),
        by_use[:, 0].tolist(),
        pairs=pairs,
    )
