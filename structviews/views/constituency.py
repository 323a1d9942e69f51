"""Constituency views: a binary Tree-LSTM and a Tree-GRU over the binarised tree."""

from typing import ClassVar

import torch

from structviews.batches.batch import Batch
from structviews.batches.word_ids import WordIds
from structviews.kernels import dispatch
from structviews.kernels.cells import TreeCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.nary_gru import BinaryGruCell
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.view import Encoded, View
from structviews.views.word_tables import Words


@VIEWS.register("const")
class Constituency(View):
    """Binary Tree-LSTM with words at the leaves (structured views 3.2); its vector is the root's state."""

    needs: ClassVar[str] = "constituency"
    merges: ClassVar[bool] = True

    def __init__(self, word_dim: int, dim: int, config: Settings):
        super().__init__()
        self.dim = dim
        self.word_dim = word_dim
        self.cell = self.make_cell(word_dim, dim)

    @staticmethod
    def make_cell(word_dim: int, dim: int) -> TreeCell:
        """The cell with its parameters."""
        return BinaryCell(word_dim, dim)

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        trees = dispatch.run(self.cell, words.rows(ids), ids, batch.constituency, self.tree_backend, batch.inference)
        if not states:
            return Encoded(trees.roots)
        # A sentence of n words has 2n - 1 nodes.
        offsets = 2 * batch.offsets - torch.arange(len(batch) + 1, device=batch.device)
        return Encoded(trees.roots, trees.states, offsets)


@VIEWS.register("const-gru")
class ConstituencyGru(Constituency):
    """Binary Tree-GRU with words at the leaves (after Kokkinos and Potamianos 2017); see ``kernels.nary_gru``."""

    @staticmethod
    def make_cell(word_dim: int, dim: int) -> TreeCell:
        return BinaryGruCell(word_dim, dim)
