"""Binary N-ary Tree-LSTM, level by level; only leaves have words, and each distinct word is computed once.

Shapes: N nodes, I inner nodes, R rows, L distinct leaves, U distinct words, H hidden size, X input size. Letters as
in Tai et al. 2015 (eqs. 9-14), with separate forget matrices for each pair of children.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.trees import NodeRows, TreeBatch
from structviews.kernels import steps
from structviews.kernels.cells import Children, Results, State, TreeCell, lstm_state, xavier


class BinaryCell(TreeCell):
    """Binary Tree-LSTM; from the dimensions X of a word vector and H of a state."""

    binary = True

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = nn.Linear(input_dim, 3 * hidden, bias=False)  # Wi Wo Wu
        self.recurrent = nn.Linear(2 * hidden, 5 * hidden, bias=False)  # Ui Uo Uu Ufl Ufr, [left ; right]
        self.bias = nn.Parameter(torch.zeros(3 * hidden))  # bi bo bu, for leaves and inner nodes
        self.bias_forget = nn.Parameter(torch.zeros(hidden))  # bf, for both children
        xavier(self, {"input.weight": 3, "recurrent.weight": 5})

    def of_words(self, vectors: Tensor) -> Tensor:
        return self.input(vectors)

    def leaf(self, x: Tensor) -> State:
        return lstm_state(*(x + self.bias).chunk(3, dim=1))

    def node(self, x: Tensor, children: Children) -> State:
        h, c = children.pairs
        bias = torch.cat([self.bias, self.bias_forget, self.bias_forget])
        i, o, u, *f = (self.recurrent(h.flatten(1)) + bias).chunk(5, dim=1)
        return lstm_state(i, o, u, (torch.sigmoid(torch.stack(f, dim=1)) * c).sum(dim=1))

    def folded(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Folded weight and bias of a leaf's gates, and of a parent's, with left and right side by side."""
        w_word, w_pair = (steps.folded(each.weight, self.hidden) for each in (self.input, self.recurrent))
        b_word = steps.folded(self.bias, self.hidden)
        return w_word, b_word, w_pair, torch.cat([b_word, self.bias_forget, self.bias_forget])


def level_pass(cell: BinaryCell, vectors: Tensor, rows: NodeRows, trees: TreeBatch) -> Results:
    """The same as ``run_levels``, with one product for all weight gradients of a kind, and steps that fill buffers."""
    w_word, b_word, w_pair, b_pair = cell.folded()
    weights = w_word, b_word, *(side.contiguous() for side in w_pair.chunk(2, dim=1)), b_pair
    dtype = steps.product_dtype(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        states, roots = _Binary.apply(trees, rows, vectors.to(dtype), *(weight.to(dtype) for weight in weights))
    return states, roots.to(vectors.dtype), None


class _Binary(steps.Function):
    """The cell over a batch of trees; all tensors have the dtype of the products.

    ``w_word (3H, X)`` maps a word to i, o, u of its leaf; ``w_left`` and ``w_right (5H, H)`` map the state of
    a left or right child to i, o, u, f_l and f_r of its parent; u is folded in all of them. The bias of a
    parent's gates is added with its left child.
    """

    @staticmethod
    def forward(ctx: Any, trees: TreeBatch, rows: NodeRows, x: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        w_word, b_word, w_left, w_right, b_pair = parameters
        size, leaves, n_inner = w_left.shape[1], slice(0, rows.n_leaves), len(trees) - trees.n_leaves
        x_leaf = x.index_select(0, rows.words)
        leaf_gates = steps.multiply(x_leaf, w_word.T, b_word)
        h = x.new_empty(rows.n_leaves + n_inner, size)
        c = torch.empty_like(h, dtype=torch.promote_types(x.dtype, torch.float32))
        sent, gates = x.new_empty(len(h), 5 * size), x.new_empty(n_inner, 5 * size)

        c[leaves] = 0
        ops, children = steps.on(x.device), rows.of_nodes.index_select(0, trees.children).view(-1, 2)
        ops.open_gates(leaf_gates, c[leaves], h[leaves])
        for level in (None, *trees.upper_levels()):  # None: the leaves
            at, sides = (rows.at(level), level.sides) if level else (leaves, rows.sides)
            if level:
                ops.open_pairs(children[level.inner], sent, c, gates[level.inner], at, h[at])
            left, right, _ = sides_of(at, sides)
            steps.multiply(h[left], w_left.T, b_pair, out=sent[left])
            steps.multiply(h[right], w_right.T, out=sent[right])
        ctx.trees, ctx.rows, ctx.children = trees, rows, children
        ctx.save_for_backward(x_leaf, w_word, w_left, w_right, leaf_gates, gates, c, h)
        ctx.set_materialize_grads(False)
        return h, h.index_select(0, rows.of_nodes[trees.roots])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None) -> Any:
        x_leaf, w_word, *w_sides, gates, _, c, h = ctx.saved_tensors
        trees, rows = ctx.trees, ctx.rows
        if d_roots is None:
            d_roots = h.new_zeros(len(trees.roots), h.shape[1])
        # Gradient of the cells by slot: from the parent, or zeros for a root.
        above_c = c.new_empty(len(trees), c.shape[1])
        above_c[trees.n_edges :] = 0
        d_pair_gates, d_sides = _inner_gradients(ctx, above_c, d_h, d_roots)
        # The distinct leaves, summed over their occurrences.
        leaves, by_h = slice(0, rows.n_leaves), h.new_empty(rows.n_leaves, h.shape[1])
        slot = trees.slot.index_select(0, rows.leaves)
        parent = trees.parent.index_select(0, rows.leaves) - trees.n_leaves
        every = sides_of(slice(0, trees.n_leaves), trees.sides[0]), sides_of(leaves, rows.sides)
        *groups, (roots, of_roots) = zip(*every, strict=True)
        for (places, at), weight, d_side in zip(groups, w_sides, d_sides, strict=True):
            d_sent = steps.sums_by_group(d_pair_gates, parent[places], rows.leaf_starts[at] - places.start)
            steps.multiply(d_sent, weight, out=by_h[at])
            d_side.addmm_(d_sent.T, h[at])
        starts = rows.leaf_starts[of_roots] - roots.start
        by_h[of_roots] = steps.sums_by_group(d_roots, slot[roots] - trees.n_edges, starts)
        if d_h is not None:
            by_h.add_(d_h[leaves])
        d_gates, by_c = torch.empty_like(gates), steps.sums_by_group(above_c, slot, rows.leaf_starts)
        steps.on(h.device).close_gates(gates, c[leaves], by_h, by_c, d_gates)
        d_x = None
        if ctx.needs_input_grad[2]:
            d_x = steps.sums_by_group(steps.multiply(d_gates, w_word), rows.by_word, rows.word_starts)
        return None, None, d_x, d_gates.T @ x_leaf, d_gates.sum(0), *d_sides, d_pair_gates.sum(0)


def _inner_gradients(ctx: Any, above_c: Tensor, d_h: Tensor | None, d_roots: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The backward pass of the inner nodes, from the roots down.

    Returns the gradient ``(I, 5H)`` of the pre-activations, and the inner nodes' part of the gradients of ``w_sides``.
    """
    _, _, *w_sides, _, gates, c, h = ctx.saved_tensors
    trees, rows, children = ctx.trees, ctx.rows, ctx.children
    size, levels, ops = h.shape[1], list(trees.upper_levels())[::-1], steps.on(h.device)
    d_gates, parent = torch.empty_like(gates), trees.parent - trees.n_leaves
    # Gradients of `sent`, by side and level: those of the parents' gates.
    counts = [[level.sides[side] for level in levels] for side in (0, 1)]
    d_sent = [gates.new_empty(sum(of_side), gates.shape[1]) for of_side in counts]
    by_level = [each.split(of_side) for each, of_side in zip(d_sent, counts, strict=True)]
    sent: list[list[Tensor]] = [[], []]  # states of left and of right children
    for level, *d_sides in zip(levels, *by_level, strict=True):
        at, slot = rows.at(level), trees.slot[level.nodes]
        by_h = h.new_empty(len(slot), size)
        *here, roots = sides_of(slice(0, len(slot)), level.sides)
        for part, d_side, weight in zip(here, d_sides, w_sides, strict=True):
            torch.index_select(d_gates, 0, parent[level.nodes][part], out=d_side)
            steps.multiply(d_side, weight, out=by_h[part])
        by_h[roots] = d_roots.index_select(0, slot[roots] - trees.n_edges)
        if d_h is not None:
            by_h.add_(d_h[at])
        by_c, below = above_c.index_select(0, slot), above_c[level.edges].view(-1, 2, size)
        ops.close_pairs(children[level.inner], c, gates[level.inner], at, by_h, by_c, d_gates[level.inner], below)
        for states, part in zip(sent, sides_of(at, level.sides), strict=False):
            states.append(h[part])
    return d_gates, [d.T @ torch.cat(states or [h[:0]]) for d, states in zip(d_sent, sent, strict=True)]


def sides_of(nodes: slice, sides: Sequence[int]) -> tuple[slice, slice, slice]:
    """The slices of left children, right children and roots in a slice of nodes sorted by role."""
    right = nodes.start + sides[0]
    roots = right + sides[1]
    return slice(nodes.start, right), slice(right, roots), slice(roots, nodes.stop)
