"""States of the levels that are done, ready to be handed to their parents."""

from itertools import pairwise

import torch
from torch import Tensor

from structviews.trees import TreeBatch


class Pieces:
    """States of finished levels, cut where the height of the parents changes.

    Every cut piece is a slice of ``TreeBatch.slices`` and is used once, so gathering children
    costs as much as there are children, in both directions.
    """

    def __init__(self, h: Tensor, c: Tensor, trees: TreeBatch):
        self._ends = sorted({end for level in trees.slices for _, end in level})
        self._pieces: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._levels: list[Tensor] = []
        self.add(0, h, c)

    def add(self, start: int, h: Tensor, c: Tensor) -> None:
        """Take a finished level that begins at ``start`` in the sorted order."""
        self._levels.append(h)
        end = start + len(h)
        cuts = [start, *(e for e in self._ends if start < e < end), end]
        sizes = [b - a for a, b in pairwise(cuts)]
        for a, size, h_piece, c_piece in zip(cuts, sizes, h.split(sizes), c.split(sizes), strict=False):
            self._pieces[a, a + size] = h_piece, c_piece

    def children(self, slices: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """States and cells ``(K, H)`` of the children of a level."""
        h, c = zip(*(self._pieces[key] for key in slices), strict=True)
        return torch.cat(h), torch.cat(c)

    def states(self) -> Tensor:
        """States ``(N, H)`` of all nodes."""
        return torch.cat(self._levels)
