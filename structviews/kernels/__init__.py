"""Tree-LSTM cells and the ways to run them over a batch of trees."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding

from structviews.kernels import child_sum, message_passing, naive, nary
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.trees import TreeBatch
from structviews.vocabulary import WordIds

Cell = ChildSumCell | BinaryCell


# States (rows, H), the row (N,) of each node in sorted order, states of the roots (B, H), and attention (E,) or None.
Results = tuple[Tensor, Tensor, Tensor, Tensor | None]
Backend = Callable[[Cell, Tensor, WordIds, TreeBatch], Results]


@dataclass(frozen=True)
class TreeStates:
    """What running a cell gives.

    Attributes:
        roots: ``(B, H)`` hidden state of each sentence's root.
        attention: ``(E,)`` weight of each child under its parent, in the order of
            ``TreeBatch.children``; None for a cell without attention.
    """

    roots: Tensor
    attention: Tensor | None
    _rows: Tensor
    _row_of_node: Tensor

    @property
    def states(self) -> Tensor:
        """``(N, H)`` hidden state of every node, in the sentences' own order."""
        return embedding(self._row_of_node, self._rows.to(self.roots.dtype))


def _level(cell: Cell, vectors: Tensor, ids: WordIds, trees: TreeBatch) -> Results:
    rows = ids.nodes_of(trees)
    if isinstance(cell, ChildSumCell):
        states, roots, attention = child_sum.run(cell, vectors, rows, trees)
    else:
        (states, roots), attention = nary.run(cell, vectors, rows, trees), None
    return states, rows.of_nodes, roots, attention


def _word_by_word(run: Callable[[Cell, Tensor, TreeBatch], tuple[Tensor, Tensor, Tensor | None]]) -> Backend:
    """A backend that wants a vector for each word in text order, and gives the states of all nodes."""

    def with_vectors(cell: Cell, vectors: Tensor, ids: WordIds, trees: TreeBatch) -> Results:
        states, roots, attention = run(cell, embedding(ids.inverse, vectors), trees)
        return states, torch.arange(len(trees), device=states.device), roots, attention

    return with_vectors


BACKENDS: dict[str, Backend] = {
    "level": _level,
    "dgl": _word_by_word(message_passing.run),
    "naive": _word_by_word(naive.run),
}


def run(cell: Cell, vectors: Tensor, ids: WordIds, trees: TreeBatch, backend: str = "level") -> TreeStates:
    """Run a cell from the leaves to the roots of a batch of trees.

    Args:
        cell: the parameters.
        vectors: ``(U, input_dim)`` of the different words.
        ids: which of them each word is, in text order (every node of dependency trees, the leaves of
            constituency trees), and as nodes of these trees.
        trees: the structure; binary for a BinaryCell.
        backend: ``level`` (whole levels at once), ``dgl`` (message passing in DGL, an extra) or
            ``naive`` (plain recursion, the oracle).

    Raises:
        ValueError: for an unknown backend, or a binary cell over trees that are not binary.
        InputError: for ``dgl`` where DGL is missing.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown tree backend {backend!r}: one of {', '.join(BACKENDS)}")
    if isinstance(cell, BinaryCell) and not trees.binary:
        raise ValueError("these trees are not binary, as the cell wants them: constituency_trees makes such")
    rows, row_of_node, roots, attention = BACKENDS[backend](cell, vectors, ids, trees)
    return TreeStates(roots, attention, rows, row_of_node.index_select(0, trees.rank))
