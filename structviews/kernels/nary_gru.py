"""Binary N-ary Tree-GRU, level by level; only leaves have words, and each distinct word is computed once.

The steps between the products are PyTorch's on a GPU, too.

For a leaf with the word vector x, and a parent of the children l and r, whose states side by side are [h_l; h_r]:

    leaf:      z = sigmoid(Wz x + bz)                   n = tanh(Wn x + bn)
               h = (1 - z) n
    parent:    z = sigmoid(Uz [h_l; h_r] + bz)          n = tanh(Un [g h_l; g h_r] + bn)
               g = sigmoid(Ug [h_l; h_r] + bg)          h = z (h_l + h_r) + (1 - z) n

Here g is the reset gate. Left and right children have their own matrices, as in the N-ary Tree-LSTM of Tai et al.
2015. After Kokkinos and Potamianos 2017 (Structural attention neural networks for improved sentiment analysis, EACL).
Implementations differ: both children share the reset and the update gate, as here, or each has its own; z and 1 - z may
be exchanged; and a parent's z may read tanh(h). States add up without bound, as cells of a Tree-LSTM do.

Shapes: N nodes, I inner nodes, R rows, L distinct leaves, U distinct words, H hidden size, X input size. Gates are in
the order n, z, g.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.trees import NodeRows, TreeBatch
from structviews.kernels import gru_steps, inference, steps
from structviews.kernels.cells import State, TreeCell
from structviews.kernels.initialisation import xavier
from structviews.kernels.nary import rooms_by_level, sides_of, states_by_side
from structviews.runtime.products import Product


class BinaryGruCell(TreeCell):
    """Binary Tree-GRU.

    Args:
        input_dim: dimension X of a word vector.
        hidden: dimension H of a state.
    """

    binary = True

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = nn.Linear(input_dim, 2 * hidden, bias=False)  # Wn Wz
        self.recurrent = nn.Linear(2 * hidden, 3 * hidden, bias=False)  # Un Uz Ug, [left ; right]
        self.bias = nn.Parameter(torch.zeros(2 * hidden))  # bn bz, for leaves and inner nodes
        self.bias_reset = nn.Parameter(torch.zeros(hidden))  # bg
        xavier(self, {"input.weight": 2, "recurrent.weight": 3})

    def gate_biases(self) -> list[Tensor]:
        return [self.bias[self.hidden :], self.bias_reset]

    def node(self, x: Tensor, children: Sequence[State]) -> tuple[State, None]:
        b_n, b_z = self.bias.chunk(2)
        if not children:
            n, z = self.input(x).chunk(2)
            return ((1 - torch.sigmoid(z + b_z)) * torch.tanh(n + b_n),), None
        (h_l,), (h_r,) = children
        u_n, u_z, u_g = self.recurrent.weight.chunk(3)
        z = torch.sigmoid(u_z @ torch.cat([h_l, h_r]) + b_z)
        g = torch.sigmoid(u_g @ torch.cat([h_l, h_r]) + self.bias_reset)
        n = torch.tanh(u_n @ torch.cat([g * h_l, g * h_r]) + b_n)
        return (z * (h_l + h_r) + (1 - z) * n,), None

    def level(self, vectors: Tensor, rows: NodeRows, trees: TreeBatch) -> tuple[Tensor, Tensor, None]:
        (weight, bias), new = self._of_pair(), self._of_reset()
        left, right = weight.chunk(2, dim=1)
        weights = *self._of_leaf(), left.contiguous(), right.contiguous(), bias, *new
        dtype = steps.product_dtype(vectors)
        with torch.autocast(vectors.device.type, enabled=False):
            states, roots = _BinaryGru.apply(trees, rows, vectors.to(dtype), *(weight.to(dtype) for weight in weights))
        return states, roots.to(vectors.dtype), None

    def merged(self, precision: str) -> "_Merged":
        return _Merged(self, precision)

    def _of_leaf(self) -> tuple[Tensor, Tensor]:
        """Folded weight and bias of a leaf's n and z."""
        return steps.folded(self.input.weight, self.hidden, 0), steps.folded(self.bias, self.hidden, 0)

    def _of_pair(self) -> tuple[Tensor, Tensor]:
        """Weight, of left and right side by side, and bias of a parent's z and g."""
        return self.recurrent.weight[self.hidden :], torch.cat([self.bias[self.hidden :], self.bias_reset])

    def _of_reset(self) -> tuple[Tensor, Tensor]:
        """Folded weight, of the reset states left and right, and bias of a parent's n."""
        return steps.FOLD * self.recurrent.weight[: self.hidden], steps.FOLD * self.bias[: self.hidden]


class _Merged(inference.MergedPairs):
    """The cell over merged trees."""

    remembers = False

    def __init__(self, cell: BinaryGruCell, precision: str):
        super().__init__(Product(*cell._of_leaf(), precision), *cell._of_pair(), precision)
        self.of_reset = Product(*cell._of_reset(), precision)

    def open_leaves(self, gates: Tensor, c: Tensor, h: Tensor) -> None:
        n, z = gates.sigmoid_().chunk(2, dim=1)
        gru_steps.advance(n, z, None, h)

    def open_pairs(self, gates: Tensor, left: Tensor, right: Tensor, c: Tensor, h: Tensor) -> None:
        z, g = gates.sigmoid_().chunk(2, dim=1)
        n = self.of_reset(torch.cat([left * g, right * g], dim=1)).to(h.dtype)
        gru_steps.advance(n.sigmoid_(), z, left + right, h)


class _BinaryGru(torch.autograd.Function):
    """The cell over a batch of trees; weights and x have the dtype of the products, states that of the arithmetic.

    ``w_word (2H, X)`` maps a word to n and z of its leaf; ``w_left`` and ``w_right (2H, H)`` map the state of a left or
    right child to z and g of its parent, whose bias is added with its left child; ``w_new (H, 2H)`` maps what g lets
    through to n. n is folded.
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
        w_left: Tensor,
        w_right: Tensor,
        b_pair: Tensor,
        w_new: Tensor,
        b_new: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size, leaves, n_inner = w_left.shape[1], slice(0, rows.n_leaves), len(trees) - trees.n_leaves
        x_leaf = x.index_select(0, rows.words)
        leaf_gates = steps.multiply(x_leaf, w_word.T, b_word)
        h = x.new_empty(rows.n_leaves + n_inner, size, dtype=steps.working_dtype(x.dtype))
        sent, gates = x.new_empty(len(h), 2 * size), x.new_empty(n_inner, 3 * size)
        reset, h_sum = x.new_empty(n_inner, 2 * size), h.new_empty(n_inner, size)

        def send(left: slice, right: slice) -> None:
            steps.multiply(h[left].to(x.dtype), w_left.T, b_pair, out=sent[left])
            steps.multiply(h[right].to(x.dtype), w_right.T, out=sent[right])

        children = rows.of_nodes.index_select(0, trees.children).view(-1, 2)
        gru_steps.open_gates(leaf_gates, None, h[leaves])
        send(*sides_of(leaves, rows.sides)[:2])
        for level in trees.upper_levels():
            at, opened, through, total = rows.at(level), *(each[level.inner] for each in (gates, reset, h_sum))
            gru_steps.reset_pairs(children[level.inner], sent, h, opened[:, size:], through, total)
            torch.addmm(b_new, through, w_new.T, out=opened[:, :size])
            gru_steps.open_gates(opened[:, : 2 * size], total, h[at])
            send(*sides_of(at, level.sides)[:2])
        ctx.trees, ctx.rows, ctx.children = trees, rows, children
        ctx.save_for_backward(x_leaf, w_word, w_left, w_right, w_new, leaf_gates, gates, reset, h_sum, h)
        ctx.set_materialize_grads(False)
        return h, h.index_select(0, rows.of_nodes[trees.roots])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None) -> Any:
        x_leaf, w_word, w_left, w_right, w_new, leaf_gates, gates, reset, h_sum, h = ctx.saved_tensors
        trees, rows, w_sides = ctx.trees, ctx.rows, (w_left, w_right)
        # Gradient of the states by slot: from the parent, beside what the node has sent, or from the objective.
        above = h.new_empty(len(trees), h.shape[1])
        above[trees.n_edges :] = 0 if d_roots is None else d_roots
        d_gates, d_inner = _inner_gradients(ctx, w_sides, w_new, gates, h_sum, h, above, d_h)
        d_new, d_pair = d_gates[:, : len(w_new)], d_gates[:, len(w_new) :].contiguous()
        d_leaf_gates, d_leaves = _leaf_gradients(trees, rows, w_sides, leaf_gates, d_pair, h, above, d_h)
        d_x = None
        if ctx.needs_input_grad[2]:
            d_x = steps.sums_by_group(steps.multiply(d_leaf_gates, w_word), rows.by_word, rows.word_starts)
        return (
            None,
            None,
            d_x,
            d_leaf_gates.T @ x_leaf,
            d_leaf_gates.sum(0),
            *(inner.addmm_(d.T, h_side) for inner, (d, h_side) in zip(d_inner, d_leaves, strict=True)),
            d_pair.sum(0),
            d_new.T @ reset,
            d_new.sum(0),
        )


def _inner_gradients(
    ctx: Any,
    w_sides: Sequence[Tensor],
    w_new: Tensor,
    gates: Tensor,
    h_sum: Tensor,
    h: Tensor,
    above: Tensor,
    d_h: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:
    """The backward pass of the inner nodes, from the roots down; fills in ``above``.

    Returns:
        The gradient ``(I, 3H)`` of the pre-activations, and the inner nodes' part of the gradients of ``w_sides``.
    """
    trees, rows, size, levels = ctx.trees, ctx.rows, h.shape[1], list(ctx.trees.upper_levels())[::-1]
    d_gates, parent = torch.empty_like(gates), trees.parent - trees.n_leaves
    # Gradients of `sent`, by side and level: those of the parents' z and g.
    d_sent, rooms = rooms_by_level(levels, gates[:, size:])
    for level, *d_sides in zip(levels, *rooms, strict=True):
        by_h = above.index_select(0, trees.slot[level.nodes])
        here = sides_of(slice(0, len(by_h)), level.sides)[:2]
        for part, d_side, weight in zip(here, d_sides, w_sides, strict=True):
            torch.index_select(d_gates[:, size:], 0, parent[level.nodes][part], out=d_side)
            gru_steps.add_product(by_h[part], d_side, weight)
        if d_h is not None:
            by_h.add_(d_h[rows.at(level)])
        opened, d_opened, below = gates[level.inner], d_gates[level.inner], above[level.edges].view(-1, 2, size)
        gru_steps.close_gates(opened[:, : 2 * size], h_sum[level.inner], by_h, d_opened[:, : 2 * size])
        d_reset, g, d_g = torch.mm(d_opened[:, :size], w_new), opened[:, 2 * size :], d_opened[:, 2 * size :]
        gru_steps.reset_pairs_backward(ctx.children[level.inner], h, g, d_reset, by_h, d_g, below)
    states = (of_side.to(gates.dtype) for of_side in states_by_side(levels, rows, h))
    return d_gates, [d.T @ of_side for d, of_side in zip(d_sent, states, strict=True)]


def _leaf_gradients(
    trees: TreeBatch,
    rows: NodeRows,
    w_sides: Sequence[Tensor],
    gates: Tensor,
    d_pair: Tensor,
    h: Tensor,
    above: Tensor,
    d_h: Tensor | None,
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """The backward pass of the distinct leaves, summed over their occurrences.

    Returns:
        The gradient ``(L, 2H)`` of their pre-activations, and for each side the gradient of ``sent`` with the leaves'
        states.
    """
    leaves, slot = slice(0, rows.n_leaves), trees.slot.index_select(0, rows.leaves)
    parent = trees.parent.index_select(0, rows.leaves) - trees.n_leaves
    by_h = steps.sums_by_group(above, slot, rows.leaf_starts)
    groups = zip(
        sides_of(slice(0, trees.n_leaves), trees.sides[0]), sides_of(leaves, rows.sides), w_sides, strict=False
    )
    sent = []
    for places, at, weight in groups:
        d_side = steps.sums_by_group(d_pair, parent[places], rows.leaf_starts[at] - places.start)
        gru_steps.add_product(by_h[at], d_side, weight)
        sent.append((d_side, h[at].to(gates.dtype)))
    if d_h is not None:
        by_h.add_(d_h[leaves])
    d_leaf_gates = torch.empty_like(gates)
    gru_steps.close_gates(gates, None, by_h, d_leaf_gates)
    return d_leaf_gates, sent
