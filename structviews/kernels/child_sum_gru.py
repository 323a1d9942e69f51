"""Child-Sum Tree-GRU, level by level.

As in ``child_sum``, what depends only on the word is computed once for each distinct word, leaves of the same word
share a row and take no part in recurrent products, and weight gradients are one product over all levels. The steps
between the products are PyTorch's on a GPU, too.

For a node with the word vector x and the children k:

    b = sum_k h_k
    z = sigmoid(Wz x + Uz b + bz)
    r_k = sigmoid(Wr x + Ur h_k + br)
    n = tanh(Wn x + Un sum_k r_k h_k + bn)
    h = z b + (1 - z) n

This is the Child-Sum Tree-GRU of Zhou et al. 2016 (Modelling sentence pairs with tree-structured attentive encoder,
COLING), as their code has it: each child has a reset gate, as it has a forget gate in the Child-Sum Tree-LSTM. The
cell of pytree, Simoulin's toolkit, is the same with z and 1 - z exchanged. Others have one reset gate, which reads and
resets the sum of the children, so that the cell is a GRU of that sum. States add up without bound, as cells of a
Tree-LSTM do.

Shapes: N nodes, I inner nodes, R rows (``trees.NodeRows``), E edges, U distinct words, H hidden size, X input size.
Gates are in the order n, z.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.trees import Level, NodeRows, TreeBatch
from structviews.kernels import gru_steps, inference, steps
from structviews.kernels.cells import State, TreeCell
from structviews.kernels.initialisation import xavier
from structviews.runtime.products import Product


class ChildSumGruCell(TreeCell):
    """Child-Sum Tree-GRU.

    Args:
        input_dim: dimension X of a word vector.
        hidden: dimension H of a state.
    """

    binary = False

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = nn.Linear(input_dim, 2 * hidden)  # Wn Wz, bn bz
        self.input_reset = nn.Linear(input_dim, hidden)  # Wr, br
        self.recurrent = nn.Linear(hidden, 2 * hidden, bias=False)  # Un Uz, of different sums
        self.recurrent_reset = nn.Linear(hidden, hidden, bias=False)  # Ur
        xavier(self, {"input.weight": 2, "recurrent.weight": 2})

    def gate_biases(self) -> list[Tensor]:
        return [self.input.bias[self.hidden :], self.input_reset.bias]

    def node(self, x: Tensor, children: Sequence[State]) -> tuple[State, None]:
        n, z = self.input(x).chunk(2)
        b = torch.zeros_like(n)
        if children:
            b = torch.stack([h_k for (h_k,) in children]).sum(dim=0)
            w_r = self.input_reset(x)
            reset = torch.stack([torch.sigmoid(w_r + self.recurrent_reset(h_k)) * h_k for (h_k,) in children])
            u_n, u_z = self.recurrent.weight.chunk(2)
            n, z = n + u_n @ reset.sum(dim=0), z + u_z @ b
        z = torch.sigmoid(z)
        return (z * b + (1 - z) * torch.tanh(n),), None

    def level(self, vectors: Tensor, rows: NodeRows, trees: TreeBatch) -> tuple[Tensor, Tensor, None]:
        weights = (
            steps.folded(self.input.weight, self.hidden, 0),
            steps.folded(self.input.bias, self.hidden, 0),
            self.input_reset.weight,
            self.input_reset.bias,
            steps.folded(self.recurrent.weight, self.hidden, 0),
            self.recurrent_reset.weight,
        )
        dtype = steps.product_dtype(vectors)
        with torch.autocast(vectors.device.type, enabled=False):
            states, roots = _ChildSumGru.apply(
                trees, rows, vectors.to(dtype), *(weight.to(dtype) for weight in weights)
            )
        return states, roots.to(vectors.dtype), None

    def merged(self, precision: str) -> "_Merged":
        return _Merged(self, precision)


class _Merged(inference.MergedFamilies):
    """The cell over merged trees."""

    remembers = False

    def __init__(self, cell: ChildSumGruCell, precision: str):
        weight, bias = (steps.folded(each, cell.hidden, 0) for each in (cell.input.weight, cell.input.bias))
        weight, bias = torch.cat([weight, cell.input_reset.weight]), torch.cat([bias, cell.input_reset.bias])
        super().__init__(Product(weight, bias, precision), Product(cell.recurrent_reset.weight, None, precision))
        recurrent = steps.folded(cell.recurrent.weight, cell.hidden, 0).chunk(2)
        self.of_reset, self.of_sum = (Product(each, None, precision) for each in recurrent)

    def open_leaves(self, gates: Tensor, c: Tensor, h: Tensor) -> None:
        n, z = gates.sigmoid_().chunk(2, dim=1)
        gru_steps.advance(n, z, None, h)

    def open_parents(self, gates: Tensor, h_sum: Tensor, c_sum: Tensor, c: Tensor, h: Tensor) -> None:
        n, z = gates.chunk(2, dim=1)
        n.add_(self.of_reset(c_sum))
        z.add_(self.of_sum(h_sum))
        gates.sigmoid_()
        gru_steps.advance(n, z, h_sum, h)


class _Buffers(NamedTuple):
    """Results of the forward pass for all rows, inner nodes and edges, or for those of one level.

    Attributes:
        gates: ``(R, 2H)`` n and z.
        h: ``(R, H)`` states.
        sent: ``(R, H)`` the nodes' contributions to their reset gates.
        own: ``(I, H)`` the inner nodes' contributions to their children's reset gates.
        h_sum: ``(I, H)`` sums of the children's states.
        reset_sum: ``(I, H)`` the same of the states times their reset gates.
        reset: ``(E, H)`` activations of the reset gates.
    """

    gates: Tensor
    h: Tensor
    sent: Tensor
    own: Tensor
    h_sum: Tensor
    reset_sum: Tensor
    reset: Tensor

    def at(self, level: Level, rows: NodeRows) -> "_Buffers":
        """The rows of a level, and the edges to its children."""
        slices = *(rows.at(level),) * 3, *(level.inner,) * 3, level.edges
        return _Buffers(*(buffer[part] for buffer, part in zip(self, slices, strict=True)))


class _ChildSumGru(torch.autograd.Function):
    """The cell over a batch of trees; weights and x have the dtype of the products, states that of the arithmetic.

    ``w_word (2H, X)`` maps a word to n and z, ``w_own (H, X)`` to its children's r; ``w_sums (2H, H)`` the sum of the
    reset states to n and that of the states to z; ``w_send (H, H)`` a child's state to its r. n is folded.
    """

    apply: ClassVar[Callable[..., tuple[Tensor, Tensor]]]

    @staticmethod
    def forward(
        ctx: Any,
        trees: TreeBatch,
        rows: NodeRows,
        x: Tensor,
        w_word: Tensor,
        b_word: Tensor,
        w_own: Tensor,
        b_own: Tensor,
        w_sums: Tensor,
        w_send: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size, leaves, n_inner = len(w_send), slice(0, rows.n_leaves), len(trees) - trees.n_leaves
        h = x.new_empty(rows.n_leaves + n_inner, size, dtype=steps.working_dtype(x.dtype))
        buffers = _Buffers(
            gates=steps.multiply(x, w_word.T, b_word).index_select(0, rows.words),
            h=h,
            sent=x.new_empty(len(h), size),
            own=steps.multiply(x, w_own.T, b_own).index_select(0, rows.words[rows.n_leaves :]),
            h_sum=h.new_empty(n_inner, size),
            reset_sum=h.new_empty(n_inner, size),
            reset=x.new_empty(trees.n_edges, size),
        )
        sent, children = buffers.sent, rows.of_nodes.index_select(0, trees.children)
        w_reset, w_total = w_sums.chunk(2)
        gru_steps.open_gates(buffers.gates[leaves], None, h[leaves])
        steps.multiply(h[leaves].to(x.dtype), w_send.T, out=sent[leaves])
        for level in trees.upper_levels():
            at, below = buffers.at(level, rows), children[level.edges]
            # The states take the place of a Tree-LSTM's cells.
            steps.sum_children(level, below, sent, at.own, h, h, None, at.reset, at.h_sum, at.reset_sum)
            n, z = at.gates.chunk(2, dim=1)
            n.addmm_(at.reset_sum.to(x.dtype), w_reset.T)
            z.addmm_(at.h_sum.to(x.dtype), w_total.T)
            gru_steps.open_gates(at.gates, at.h_sum, at.h)
            torch.mm(at.h.to(x.dtype), w_send.T, out=at.sent)
        ctx.trees, ctx.rows, ctx.children = trees, rows, children
        ctx.save_for_backward(x, w_word, w_own, w_sums, w_send, *buffers)
        ctx.set_materialize_grads(False)
        return h, h.index_select(0, rows.of_nodes[trees.roots])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None) -> Any:
        x, w_word, w_own, w_sums, w_send, *saved = ctx.saved_tensors
        rows, buffers = ctx.rows, _Buffers(*saved)
        d_gates, d_sent, d_own = _gradients(ctx, buffers, w_sums, w_send, d_h, d_roots)
        by_word = steps.sums_by_group(d_gates, rows.by_word, rows.word_starts)
        by_own = steps.sums_by_group(d_own, rows.inner_by_word, rows.word_starts)
        d_x = steps.multiply(by_word, w_word).addmm_(by_own, w_own) if ctx.needs_input_grad[2] else None
        of_inner = zip(d_gates[rows.n_leaves :].chunk(2, dim=1), (buffers.reset_sum, buffers.h_sum), strict=True)
        return (
            None,
            None,
            d_x,
            by_word.T @ x,
            by_word.sum(0),
            by_own.T @ x,
            by_own.sum(0),
            torch.cat([d.T @ total.to(x.dtype) for d, total in of_inner]),
            d_sent.T @ buffers.h.to(x.dtype),
        )


def _gradients(
    ctx: Any, buffers: _Buffers, w_sums: Tensor, w_send: Tensor, d_h: Tensor | None, d_roots: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The backward pass from the roots to the leaves: gradients of pre-activations, of ``sent`` and of ``own``.

    The gradient of ``own``, ``(1 + I, H)``, begins with a row of zeros.
    """
    trees, rows = ctx.trees, ctx.rows
    gates, h, sent, own, *_ = buffers
    d_gates, d_sent, d_own = torch.empty_like(gates), torch.empty_like(sent), own.new_zeros(1 + len(own), own.shape[1])
    # By slot, see ``TreeBatch.slot``: from the parents, then from the objective.
    above, above_sent = h.new_empty(len(trees), h.shape[1]), sent.new_empty(len(trees), h.shape[1])
    above[trees.n_edges :] = 0 if d_roots is None else d_roots
    above_sent[trees.n_edges :] = 0
    w_reset, w_total = w_sums.chunk(2)

    def close(at: slice, by_h: Tensor, by_sent: Tensor, before: Tensor | None) -> Tensor:
        d_sent[at] = by_sent
        gru_steps.add_product(by_h, by_sent, w_send)
        if d_h is not None:
            by_h.add_(d_h[at])
        gru_steps.close_gates(gates[at], before, by_h, d_gates[at])
        return by_h

    for level in reversed(list(trees.upper_levels())):
        at, below, slots = buffers.at(level, rows), ctx.children[level.edges], trees.slot[level.nodes]
        by_h, by_sent = (each.index_select(0, slots) for each in (above, above_sent))
        by_sum = close(rows.at(level), by_h, by_sent, at.h_sum)
        d_n, d_z = d_gates[rows.at(level)].chunk(2, dim=1)
        gru_steps.add_product(by_sum, d_z, w_total)
        by_reset, from_reset = torch.mm(d_n, w_reset).to(h.dtype), h.new_empty(len(below), h.shape[1])
        into = above[level.edges], from_reset, above_sent[level.edges], d_own[1:][level.inner]
        steps.spread_to_children(level, below, at.reset, h, None, by_sum, by_reset, *into)
        above[level.edges].add_(from_reset)
    slots = trees.slot.index_select(0, rows.leaves)
    by_h, by_sent = (steps.sums_by_group(each, slots, rows.leaf_starts) for each in (above, above_sent))
    close(slice(0, rows.n_leaves), by_h, by_sent, None)
    return d_gates, d_sent, d_own
