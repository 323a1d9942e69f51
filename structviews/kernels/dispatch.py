"""Running a cell over a batch of trees with a chosen backend."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import embedding

from structviews.batches.batch import Batch, WordIds
from structviews.batches.trees import NodeRows, SharedTrees
from structviews.kernels import BACKENDS, child_sum, inference, message_passing, nary
from structviews.kernels.cells import Results, TreeCell, run_levels, run_merged, run_nodes

# Passes written by hand, which take what ``run_levels`` and ``run_merged`` take, by the cell's own class, as a subclass
# may have other equations.
LEVEL_PASSES: dict[type[TreeCell], Callable[..., Results]] = {
    child_sum.ChildSumCell: child_sum.level_pass,
    nary.BinaryCell: nary.level_pass,
}
MERGED_PASSES: dict[type[TreeCell], Callable[..., Tensor]] = dict.fromkeys(LEVEL_PASSES, inference.merged_pass)


@dataclass(frozen=True)
class TreeStates:
    """The result of running a cell.

    ``attention (E,)`` has the weight of each child under its parent, in the order of ``TreeBatch.children``; None for
    a cell without attention, and where trees are merged.
    """

    roots: Tensor  # (B, H) hidden state of each sentence's root
    attention: Tensor | None
    _rows: Tensor
    _row_of_node: Tensor

    @property
    def states(self) -> Tensor:
        """``(N, H)`` hidden state of every node, in sentence order.

        Of merged trees, read them before the next call of ``run``, which may use their memory again.
        """
        return embedding(self._row_of_node, self._rows.to(self.roots.dtype))


def run(cell: TreeCell, vectors: Tensor, ids: WordIds, batch: Batch, backend: str = "level") -> TreeStates:
    """Run a cell from the leaves to the roots of a batch's trees.

    Args:
        cell: the parameters and equations.
        vectors: ``(U, input_dim)`` vectors of the distinct words.
        ids: the batch's words in a vocabulary; where they have merged trees, these are run, without gradients.
        batch: the sentences, with trees of the cell's kind.
        backend: ``level`` (level by level), ``dgl`` (message passing in DGL, an extra) or ``naive``
            (plain recursion, the reference). Merged trees have one.

    Raises:
        ValueError: for an unknown backend, or without trees of this kind.
        InputError: for ``dgl`` if DGL is missing.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown tree backend {backend!r}: choose one of {', '.join(BACKENDS)}")
    kind = "constituency" if cell.binary else "labelled" if cell.labelled else "dependency"
    rows: NodeRows | SharedTrees | None = getattr(ids, kind)
    if isinstance(rows, SharedTrees):
        states = MERGED_PASSES.get(type(cell), run_merged)(cell, vectors, rows)
        return TreeStates(states.index_select(0, rows.roots), None, states, rows.of_nodes)
    trees = batch.trees(kind)
    if backend == "level":
        assert rows is not None
        states, roots, attention = LEVEL_PASSES.get(type(cell), run_levels)(cell, vectors, rows, trees)
        return TreeStates(roots, attention, states, rows.of_nodes.index_select(0, trees.rank))
    # A vector for each word, and a state for each node.
    run_plain: Callable[..., Results] = run_nodes if backend == "naive" else message_passing.run
    states, roots, attention = run_plain(cell, embedding(ids.inverse, vectors), trees)
    return TreeStates(roots, attention, states, trees.rank)
