"""Trees of many sentences as one level schedule.

Nodes are sorted by height, and within a height by the height of their parent. So a level is one
slice of the sorted order, and the children of a level are a few slices too, one for each lower
level: running a Tree-LSTM moves no state twice.

Shapes: B sentences, N nodes of all of them, E = N - B edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray


@dataclass(frozen=True)
class TreeBatch:
    """Structure of the trees of a batch; indices are into the sorted order unless said otherwise.

    Attributes:
        order: ``(N,)`` the node, in the sentences' own order, that stands at each sorted place.
        rank: ``(N,)`` the sorted place of each node of the sentences' own order.
        levels: where each level starts in the sorted order, and the end; level 0 are the leaves.
        roots: ``(B,)`` the root of each sentence.
        parent: ``(N,)`` the parent of each node, -1 for a root.
        slices: for each level the slices of nodes whose parents are on it, lower levels first.
            The children of a level are numbered in this order.
        parent_row: ``(E,)`` for the children of level 1, then of level 2, ...: the parent's place
            within its level.
        edges: where the children of each level start in ``parent_row``, and the end.
        left, right: binary trees only, ``(N - leaves,)``: the number of each internal node's left
            and right child among the children of its level.
    """

    order: Tensor
    rank: Tensor
    levels: list[int]
    roots: Tensor
    parent: Tensor
    slices: list[list[tuple[int, int]]]
    parent_row: Tensor
    edges: list[int]
    left: Tensor | None = None
    right: Tensor | None = None

    @property
    def n_leaves(self) -> int:
        return self.levels[1]

    def sides(self) -> tuple[Tensor, Tensor]:
        """``left`` and ``right`` of binary trees.

        Raises:
            ValueError: if these are not binary.
        """
        if self.left is None or self.right is None:
            raise ValueError("these trees are not binary: constituency_trees makes such")
        return self.left, self.right

    def upper_levels(self) -> Iterator[tuple[int, int, list[tuple[int, int]], slice]]:
        """Start, end, children's slices and edges of each level above the leaves, bottom up."""
        for level in range(1, len(self.levels) - 1):
            edges = slice(self.edges[level], self.edges[level + 1])
            yield self.levels[level], self.levels[level + 1], self.slices[level], edges

    def to(self, device: torch.device | str) -> Self:
        """The batch with its tensors on ``device``; the Python lists stay."""
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)


def dependency_trees(heads: Array, heights: Array, lengths: Array) -> TreeBatch:
    """The schedule of dependency trees; a node is a word.

    Args:
        heads: ``(N,)`` 1-based heads within each sentence, 0 for the root.
        heights: ``(N,)`` height of each word, leaf 0.
        lengths: ``(B,)`` words of each sentence.
    """
    starts = _starts(lengths)
    heads = heads.astype(np.int64)
    parent = np.where(heads > 0, np.repeat(starts, lengths) + heads - 1, -1)
    return _schedule(parent, heights.astype(np.int64))[0]


def constituency_trees(left: Array, right: Array, heights: Array, lengths: Array) -> TreeBatch:
    """The schedule of binary constituency trees; the ``2n - 1`` nodes of each sentence in a row.

    Args:
        left: ``(I,)`` left child of each internal node, numbered within its sentence.
        right: ``(I,)`` right child.
        heights: ``(N,)`` height of each node, leaf 0.
        lengths: ``(B,)`` words of each sentence; a sentence has ``n - 1`` internal nodes.
    """
    starts = _starts(2 * lengths - 1)
    inner = lengths - 1
    of_sentence = np.repeat(np.arange(len(lengths)), inner)
    node = starts[of_sentence] + lengths[of_sentence] + np.arange(inner.sum()) - _starts(inner)[of_sentence]
    left = starts[of_sentence] + left
    right = starts[of_sentence] + right
    parent = np.full(len(heights), -1, dtype=np.int64)
    parent[left] = node
    parent[right] = node
    batch, number = _schedule(parent, heights.astype(np.int64))
    sorted_inner = np.empty(len(heights), dtype=np.int64)
    sorted_inner[node] = np.arange(len(node))
    by_level = sorted_inner[batch.order.numpy()[batch.n_leaves :]]
    return replace(batch, left=_tensor(number[left[by_level]]), right=_tensor(number[right[by_level]]))


def words_of_leaves(lengths: Array) -> Array:
    """Which nodes of the constituency trees' own order are words: ``(n,)`` indices."""
    return np.repeat(_starts(2 * lengths - 1) - _starts(lengths), lengths) + np.arange(lengths.sum())


def _schedule(parent: Array, heights: Array) -> tuple[TreeBatch, Array]:
    """The batch, and each node's number among the children of its parent's level.

    ``parent`` and the numbers are in the sentences' own order.
    """
    n_levels = int(heights.max()) + 1
    is_root = parent < 0
    # A root goes behind all others of its level: it is nobody's child.
    parent_height = np.where(is_root, n_levels, heights[parent])
    order = np.lexsort((parent_height, heights))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    levels = np.searchsorted(heights[order], np.arange(n_levels + 1))
    sorted_parent = np.where(is_root, -1, rank[parent])[order]
    # counts[h, p]: nodes of height h whose parent has height p; their slices follow one another.
    counts = np.zeros((n_levels, n_levels + 1), dtype=np.int64)
    np.add.at(counts, (heights, parent_height), 1)
    ends = levels[:n_levels, None] + counts.cumsum(axis=1)
    slices = [
        [(int(ends[h, p] - counts[h, p]), int(ends[h, p])) for h in range(p) if counts[h, p]] for p in range(n_levels)
    ]
    # Children in the order of their parents' levels, and below that in sorted order.
    sorted_parent_height = parent_height[order]
    by_parent = np.argsort(sorted_parent_height, kind="stable")[: len(order) - int(is_root.sum())]
    parent_row = sorted_parent[by_parent] - levels[sorted_parent_height[by_parent]]
    edges = np.searchsorted(sorted_parent_height[by_parent], np.arange(n_levels + 1))
    number = np.zeros(len(order), dtype=np.int64)
    number[order[by_parent]] = np.arange(len(by_parent)) - edges[sorted_parent_height[by_parent]]
    batch = TreeBatch(
        order=_tensor(order),
        rank=_tensor(rank),
        levels=levels.tolist(),
        roots=_tensor(rank[is_root]),
        parent=_tensor(sorted_parent),
        slices=slices,
        parent_row=_tensor(parent_row),
        edges=edges.tolist(),
    )
    return batch, number


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _starts(lengths: Array) -> Array:
    return np.cumsum(lengths) - lengths
