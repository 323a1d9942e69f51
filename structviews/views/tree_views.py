"""Views of trees: a cell from the leaves to the root, whose state is the sentence's vector."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from structviews.batches.batch import Batch, WordIds
from structviews.corpus.relations import LABELS
from structviews.kernels import dispatch
from structviews.kernels.cells import TreeCell
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.tree_gru import BinaryGruCell, ChildSumGruCell
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.view import Encoded, View, Words


class TreeView(View):
    """A cell over trees of one kind; its vector is the root's state."""

    make_cell: ClassVar[Any]  # makes the cell with its parameters, from the dimensions of a word vector and of a state
    merges: ClassVar[bool] = True

    def __init__(self, word_dim: int, dim: int, config: Settings) -> None:
        super().__init__()
        self.dim = dim
        self.word_dim = word_dim
        self.cell: TreeCell = self.make_cell(word_dim, dim)

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        trees = dispatch.run(self.cell, words.rows(ids), ids, batch, self.tree_backend)
        if not states:
            return Encoded(trees.roots)
        offsets = batch.offsets
        if self.cell.binary:  # 2n - 1 nodes for n words
            offsets = 2 * offsets - torch.arange(len(offsets), device=offsets.device)
        return Encoded(trees.roots, trees.states, offsets, trees.attention)


class DependencyView(TreeView):
    """A cell over dependency trees, whose nodes are the words."""

    needs: ClassVar[str] = "dependency"


class LabelledView(TreeView):
    """A labelled cell over dependency trees, whose nodes are the words."""

    needs: ClassVar[str] = "labelled"


class ConstituencyView(TreeView):
    """A cell over binary constituency trees with words at the leaves."""

    needs: ClassVar[str] = "constituency"


@VIEWS.register("dep")
class Dependency(DependencyView):
    """Child-Sum Tree-LSTM with attention over children (structured views 3.2)."""

    make_cell = staticmethod(partial(ChildSumCell, attention=True))


@VIEWS.register("dep-rel")
class DependencyRelations(LabelledView):
    """The cell of ``dep``, in which a word's relation and the side of its head add a vector each to its products."""

    make_cell = staticmethod(partial(ChildSumCell, attention=True, labels=LABELS))


@VIEWS.register("dep-sum")
class DependencySum(DependencyView):
    """Child-Sum Tree-LSTM with a plain sum over children (Tai et al. 2015)."""

    make_cell = ChildSumCell


@VIEWS.register("dep-gru")
class DependencyGru(DependencyView):
    """Child-Sum Tree-GRU (Zhou et al. 2016); see ``kernels.tree_gru``."""

    make_cell = ChildSumGruCell


@VIEWS.register("const")
class Constituency(ConstituencyView):
    """Binary Tree-LSTM (structured views 3.2)."""

    make_cell = BinaryCell


@VIEWS.register("const-gru")
class ConstituencyGru(ConstituencyView):
    """Binary Tree-GRU (after Kokkinos and Potamianos 2017); see ``kernels.tree_gru``."""

    make_cell = BinaryGruCell


def attention_weights(encoded: Encoded, batch: Batch) -> list[np.ndarray] | None:
    """Weights ``(n,)``, float32, of each word of each sentence among the dependents of its head, which add up to 1.

    The root, which has no head, has NaN. None for a view without attention. ``encoded`` is a dependency view's output
    for the batch, with states.
    """
    if encoded.attention is None:
        return None
    trees = batch.labelled or batch.trees("dependency")
    weights = np.full(len(trees), np.nan, dtype=np.float32)
    weights[trees.words[trees.children].cpu().numpy()] = encoded.attention.detach().float().cpu().numpy()
    return np.split(weights, np.cumsum(batch.lengths)[:-1])
