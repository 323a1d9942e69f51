"""Dependency views: Child-Sum Tree-LSTMs and a Tree-GRU from the leaves to the root."""

from typing import ClassVar

from structviews.batches.batch import Batch
from structviews.batches.word_ids import WordIds
from structviews.kernels import dispatch
from structviews.kernels.cells import TreeCell
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.child_sum_gru import ChildSumGruCell
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.view import Encoded, View
from structviews.views.word_tables import Words


@VIEWS.register("dep")
class Dependency(View):
    """Child-Sum Tree-LSTM with attention over children; its vector is the root's state (structured views 3.2)."""

    needs: ClassVar[str] = "dependency"
    merges: ClassVar[bool] = True

    def __init__(self, word_dim: int, dim: int, config: Settings) -> None:
        super().__init__()
        self.dim = dim
        self.word_dim = word_dim
        self.cell = self.make_cell(word_dim, dim)

    @staticmethod
    def make_cell(word_dim: int, dim: int) -> TreeCell:
        """The cell with its parameters."""
        return ChildSumCell(word_dim, dim, attention=True)

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        trees = dispatch.run(self.cell, words.rows(ids), ids, batch.dependency, self.tree_backend, batch.inference)
        return Encoded(trees.roots, trees.states, batch.offsets, trees.attention) if states else Encoded(trees.roots)


@VIEWS.register("dep-sum")
class DependencySum(Dependency):
    """Child-Sum Tree-LSTM with a plain sum over children (Tai et al. 2015)."""

    @staticmethod
    def make_cell(word_dim: int, dim: int) -> TreeCell:
        return ChildSumCell(word_dim, dim)


@VIEWS.register("dep-gru")
class DependencyGru(Dependency):
    """Child-Sum Tree-GRU (Zhou et al. 2016); see ``kernels.child_sum_gru``."""

    @staticmethod
    def make_cell(word_dim: int, dim: int) -> TreeCell:
        return ChildSumGruCell(word_dim, dim)
