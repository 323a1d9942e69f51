"""The dependency views: Child-Sum Tree-LSTMs from the leaves to the root."""

from typing import ClassVar

from structviews import kernels
from structviews.batching import Batch
from structviews.kernels.child_sum import ChildSumCell
from structviews.views.base import Encoded, View, register
from structviews.vocabulary import WordIds, Words


@register("dep", attention=True)
@register("dep-sum", attention=False)
class Dependency(View):
    """Child-Sum Tree-LSTM; its vector is the root's state.

    ``dep`` weighs children by attention (structured views 3.2), ``dep-sum`` adds them (Tai et al. 2015).
    """

    needs: ClassVar[str] = "dependency"

    def __init__(self, words_dim: int, dim: int, attention: bool):
        super().__init__()
        self.dim = dim
        self.words_dim = words_dim
        self.cell = ChildSumCell(words_dim, dim, attention)

    def encode(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        trees = kernels.run(self.cell, words.rows(ids), ids, batch.dependency_trees, self.tree_backend)
        return Encoded(trees.roots, trees.states, batch.offsets, trees.attention) if states else Encoded(trees.roots)
