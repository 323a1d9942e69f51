"""Running a cell over a batch of trees with a chosen backend."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding

from structviews.batches.shared_trees import SharedTrees
from structviews.batches.trees import TreeBatch
from structviews.batches.word_ids import WordIds
from structviews.kernels import BACKENDS, inference, message_passing, naive
from structviews.kernels.cells import TreeCell
from structviews.runtime.products import prepared

# States (rows, H), the row (N,) of each node in sorted order, root states (B, H), and attention (E,) or None.
Results = tuple[Tensor, Tensor, Tensor, Tensor | None]
Backend = Callable[[TreeCell, Tensor, WordIds, TreeBatch], Results]


@dataclass(frozen=True)
class TreeStates:
    """The result of running a cell.

    Attributes:
        roots: ``(B, H)`` hidden state of each sentence's root.
        attention: ``(E,)`` weight of each child under its parent, in the order of
            ``TreeBatch.children``; None for a cell without attention, and where trees are merged.
    """

    roots: Tensor
    attention: Tensor | None
    _rows: Tensor
    _row_of_node: Tensor

    @property
    def states(self) -> Tensor:
        """``(N, H)`` hidden state of every node, in sentence order.

        Of merged trees, read them before the next call of ``run``, which may use their memory again.
        """
        return embedding(self._row_of_node, self._rows.to(self.roots.dtype))


def _level(cell: TreeCell, vectors: Tensor, ids: WordIds, trees: TreeBatch) -> Results:
    rows = ids.nodes_of(trees)
    states, roots, attention = cell.level(vectors, rows, trees)
    return states, rows.of_nodes, roots, attention


def _word_by_word(run: Callable[[TreeCell, Tensor, TreeBatch], tuple[Tensor, Tensor, Tensor | None]]) -> Backend:
    """A backend from a function that takes a vector per word, in text order, and returns the states of all nodes."""

    def with_vectors(cell: TreeCell, vectors: Tensor, ids: WordIds, trees: TreeBatch) -> Results:
        states, roots, attention = run(cell, embedding(ids.inverse, vectors), trees)
        return states, torch.arange(len(trees), device=states.device), roots, attention

    return with_vectors


_RUN: dict[str, Backend] = dict(
    zip(BACKENDS, (_level, _word_by_word(message_passing.run), _word_by_word(naive.run)), strict=True)
)


def run(
    cell: TreeCell,
    vectors: Tensor,
    ids: WordIds,
    trees: TreeBatch | None,
    backend: str = "level",
    precision: str | None = None,
) -> TreeStates:
    """Run a cell from the leaves to the roots of a batch of trees.

    Args:
        cell: the parameters.
        vectors: ``(U, input_dim)`` vectors of the distinct words.
        ids: the words in text order (all nodes of dependency trees, the leaves of constituency trees),
            with their rows as nodes of these trees, or with merged trees, which are run without gradients.
        trees: the structure; binary for a binary cell. Not read if the words have merged trees.
        backend: ``level`` (level by level), ``dgl`` (message passing in DGL, an extra) or ``naive``
            (plain recursion, the reference). Merged trees have one.
        precision: of the products over merged trees, see ``Product``.

    Raises:
        ValueError: for an unknown backend, without trees, or for a binary cell with trees that are not binary.
        InputError: for ``dgl`` if DGL is missing.
    """
    if backend not in _RUN:
        raise ValueError(f"unknown tree backend {backend!r}: choose one of {', '.join(BACKENDS)}")
    binary, precision = cell.binary, precision or "fp32"
    merged = ids.constituency if binary else ids.dependency
    if isinstance(merged, SharedTrees):
        products = prepared(cell, precision, lambda: cell.merged(precision))
        with torch.autocast(vectors.device.type, enabled=False):
            states = inference.run(products, vectors, merged, cell.hidden)
        return TreeStates(states.index_select(0, merged.roots), None, states, merged.of_nodes)
    if trees is None:
        kind = "constituency" if binary else "dependency"
        raise ValueError(f"the batch has no {kind} trees: include {kind!r} in its needs")
    if binary and not trees.binary:
        raise ValueError("a binary cell needs binary trees: make them with constituency_trees")
    rows, row_of_node, roots, attention = _RUN[backend](cell, vectors, ids, trees)
    return TreeStates(roots, attention, rows, row_of_node.index_select(0, trees.rank))
