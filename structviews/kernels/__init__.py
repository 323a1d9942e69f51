"""Tree-LSTM cells and the ways to run them over a batch of trees."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from structviews.kernels import child_sum, naive, nary
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.trees import TreeBatch

Cell = ChildSumCell | BinaryCell


class TreeStates(NamedTuple):
    """What running a cell gives.

    Attributes:
        states: ``(N, H)`` hidden state of every node, in the sentences' own order.
        roots: ``(B, H)`` those of the roots.
        attention: ``(E,)`` weight of each child under its parent, in the order of
            ``TreeBatch.parent_row``; None for a cell without attention.
    """

    states: Tensor
    roots: Tensor
    attention: Tensor | None


def _level(cell: Cell, inputs: Tensor, trees: TreeBatch) -> tuple[Tensor, Tensor | None]:
    if isinstance(cell, ChildSumCell):
        return child_sum.run(cell, inputs, trees)
    return nary.run(cell, inputs, trees), None


BACKENDS: dict[str, Callable[[Cell, Tensor, TreeBatch], tuple[Tensor, Tensor | None]]] = {
    "level": _level,
    "naive": naive.run,
}


def run(cell: Cell, inputs: Tensor, trees: TreeBatch, backend: str = "level") -> TreeStates:
    """Run a cell from the leaves to the roots of a batch of trees.

    Args:
        cell: the parameters.
        inputs: ``(n, input_dim)`` word vectors in text order: of every node of dependency trees,
            of the leaves of constituency trees.
        trees: the structure; binary for a BinaryCell.
        backend: ``level`` (whole levels at once) or ``naive`` (plain recursion, the oracle).

    Raises:
        ValueError: for an unknown backend, or a binary cell over trees that are not binary.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown tree backend {backend!r}: one of {', '.join(BACKENDS)}")
    states, attention = BACKENDS[backend](cell, inputs, trees)
    return TreeStates(states[trees.rank], states[trees.roots], attention)
