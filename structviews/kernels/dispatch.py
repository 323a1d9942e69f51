"""Running a cell over a batch of trees with a chosen backend."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import embedding

from structviews.batches.batch import WordIds
from structviews.batches.shared_trees import SharedTrees
from structviews.batches.trees import TreeBatch
from structviews.kernels import BACKENDS, inference, message_passing, naive
from structviews.kernels.cells import LEVEL_PASSES, Results, TreeCell, run_levels


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


def run(cell: TreeCell, vectors: Tensor, ids: WordIds, trees: TreeBatch | None, backend: str = "level") -> TreeStates:
    """Run a cell from the leaves to the roots of a batch of trees.

    Args:
        cell: the parameters and equations.
        vectors: ``(U, input_dim)`` vectors of the distinct words.
        ids: the words in text order (all nodes of dependency trees, the leaves of constituency trees),
            with their rows as nodes of these trees, or with merged trees, which are run without gradients.
        trees: the structure; binary for a binary cell. Not read if the words have merged trees.
        backend: ``level`` (level by level), ``dgl`` (message passing in DGL, an extra) or ``naive``
            (plain recursion, the reference). Merged trees have one.

    Raises:
        ValueError: for an unknown backend, without trees, or for a binary cell with trees that are not binary.
        InputError: for ``dgl`` if DGL is missing.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown tree backend {backend!r}: choose one of {', '.join(BACKENDS)}")
    merged = ids.constituency if cell.binary else ids.dependency
    if isinstance(merged, SharedTrees):
        states = inference.run(cell, vectors, merged)
        return TreeStates(states.index_select(0, merged.roots), None, states, merged.of_nodes)
    if trees is None:
        kind = "constituency" if cell.binary else "dependency"
        raise ValueError(f"the batch has no {kind} trees: include {kind!r} in its needs")
    if cell.binary and not trees.binary:
        raise ValueError("a binary cell needs binary trees: make them with constituency_trees")
    if backend == "level":
        rows = ids.nodes_of(trees)
        states, roots, attention = LEVEL_PASSES.get(type(cell), run_levels)(cell, vectors, rows, trees)
        return TreeStates(roots, attention, states, rows.of_nodes.index_select(0, trees.rank))
    # A vector for each word, and a state for each node.
    plain: Callable[[TreeCell, Tensor, TreeBatch], Results] = naive.run if backend == "naive" else message_passing.run
    states, roots, attention = plain(cell, embedding(ids.inverse, vectors), trees)
    return TreeStates(roots, attention, states, trees.rank)
