"""The constituency view: a binary Tree-LSTM over the binarised tree."""

from typing import ClassVar

import torch

from structviews import kernels
from structviews.batching import Batch
from structviews.kernels.nary import BinaryCell
from structviews.views.base import Encoded, View, register
from structviews.vocabulary import WordIds, Words


@register("const")
class Constituency(View):
    """Binary Tree-LSTM with words at the leaves (structured views 3.2); its vector is the root's state."""

    needs: ClassVar[str] = "constituency"

    def __init__(self, words_dim: int, dim: int):
        super().__init__()
        self.dim = dim
        self.words_dim = words_dim
        self.cell = BinaryCell(words_dim, dim)

    def encode(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        trees = kernels.run(self.cell, words.rows(ids), ids, batch.constituency_trees, self.tree_backend)
        if not states:
            return Encoded(trees.roots)
        # A sentence of n words has 2n - 1 nodes.
        offsets = 2 * batch.offsets - torch.arange(len(batch) + 1, device=batch.device)
        return Encoded(trees.roots, trees.states, offsets)
