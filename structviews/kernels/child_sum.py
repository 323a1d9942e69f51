"""Child-Sum Tree-LSTM, plain or attentive, level by level.

Whatever depends only on the word is computed once for each distinct word, so leaves of the same word share
a row. Leaves take no part in recurrent products. A node computes its contribution to its parent's forget
gate once, and weight gradients are one product over all levels.

Shapes: N nodes, I inner nodes, R rows (``trees.NodeRows``), E edges, U distinct words, H hidden size, X
input size. Letters as in Tai et al. 2015 (eqs. 2-8), and for the attention structured views 3.2.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.trees import Level, NodeRows, TreeBatch
from structviews.kernels import steps
from structviews.kernels.cells import LEVEL_PASSES, Children, Results, State, TreeCell
from structviews.kernels.initialisation import xavier


class ChildSumCell(TreeCell):
    """Child-Sum Tree-LSTM.

    Args:
        input_dim: dimension X of a word vector.
        hidden: dimension H of a state, and of queries and keys.
        attention: weigh the children's states by attention instead of summing them.
    """

    binary = False

    def __init__(self, input_dim: int, hidden: int, attention: bool = False):
        super().__init__()
        self.hidden = hidden
        self.attention = attention
        self.input = nn.Linear(input_dim, 3 * hidden)  # Wi Wo Wu, bi bo bu
        self.input_forget = nn.Linear(input_dim, hidden)  # Wf, bf
        self.recurrent = nn.Linear(hidden, 3 * hidden, bias=False)  # Ui Uo Uu
        self.recurrent_forget = nn.Linear(hidden, hidden, bias=False)  # Uf
        if attention:
            self.query = nn.Linear(input_dim, hidden)  # Wq, bq
            self.key = nn.Linear(hidden, hidden)  # Wp, bp
        xavier(self, {"input.weight": 3, "recurrent.weight": 3})

    def of_words(self, vectors: Tensor) -> Tensor:
        parts = [self.input, self.input_forget, *([self.query] if self.attention else [])]
        return torch.cat([part(vectors) for part in parts], dim=1)

    def leaf(self, x: Tensor) -> State:
        i, o, u, *_ = x.split(self.hidden, dim=1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    def node(self, x: Tensor, children: Children) -> State:
        i, o, u, f, *q = x.split(self.hidden, dim=1)
        h, c = children.states
        forget = torch.sigmoid(children.of_parent(f) + self.recurrent_forget(h))
        if self.attention:
            p, q_k = self.key(h).to(x.dtype), children.of_parent(q[0])
            lengths = (p.square().sum(dim=1) + steps.EPSILON).sqrt() * (q_k.square().sum(dim=1) + steps.EPSILON).sqrt()
            h = children.softmax((q_k * p).sum(dim=1) / lengths)[:, None] * h
        u_i, u_o, u_u = self.recurrent(children.sum(h)).chunk(3, dim=1)
        c = torch.sigmoid(i + u_i) * torch.tanh(u + u_u) + children.sum(forget * c)
        return torch.sigmoid(o + u_o) * torch.tanh(c), c

    def of_head(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of a word's part of its children's forget gates, and of its query."""
        parts = [self.input_forget, self.query] if self.attention else [self.input_forget]
        return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])

    def of_child(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of a child's part of its forget gate, which has no bias, and of its key."""
        weight, bias = [self.recurrent_forget.weight], [self.recurrent_forget.weight.new_zeros(self.hidden)]
        if self.attention:
            weight.append(self.key.weight)
            bias.append(self.key.bias)
        return torch.cat(weight), torch.cat(bias)


def level_pass(cell: ChildSumCell, vectors: Tensor, rows: NodeRows, trees: TreeBatch) -> Results:
    """The same as ``run_levels``, with one product for all weight gradients of a kind, and steps that fill buffers."""
    # Leaves have no forget gate or query.
    weights = (
        steps.folded(cell.input.weight, cell.hidden),
        steps.folded(cell.input.bias, cell.hidden),
        *cell.of_head(),
        steps.folded(cell.recurrent.weight, cell.hidden),
        *cell.of_child(),
    )
    dtype = steps.product_dtype(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        operands = (operand.to(dtype) for operand in (vectors, *weights))
        states, roots, attention = _ChildSum.apply(trees, rows, *operands)
    return states, roots.to(vectors.dtype), attention


LEVEL_PASSES[ChildSumCell] = level_pass


class _Buffers(NamedTuple):
    """Results of the forward pass for all rows, inner nodes and edges, or for those of one level.

    Attributes:
        gates: ``(R, 3H)`` activations of i, o and u (folded).
        c, h: ``(R, H)`` cells and states.
        sent: ``(R, (1 or 2) H)`` the nodes' contributions to their parents' forget gates; keys.
        own: ``(I, (1 or 2) H)`` the inner nodes' contributions to their children's forget gates; queries.
        h_sum: ``(I, H)`` (weighted) sum of the children's states.
        forget: ``(E, H)`` activations of the forget gates.
    """

    gates: Tensor
    c: Tensor
    h: Tensor
    sent: Tensor
    own: Tensor
    h_sum: Tensor
    forget: Tensor

    def at(self, level: Level, rows: NodeRows) -> "_Buffers":
        """The rows of a level, and the edges to its children."""
        slices = *(rows.at(level),) * 4, *(level.inner,) * 2, level.edges
        return _Buffers(*(buffer[part] for buffer, part in zip(self, slices, strict=True)))


class _Above(NamedTuple):
    """Gradients passed down from parents, one row for each slot of ``TreeBatch.slot``: edges, then roots.

    Attributes:
        h, c: ``(N, H)`` gradients of states and cells.
        sent: ``(N, (1 or 2) H)`` gradients of ``sent``; zeros for roots.
    """

    h: Tensor
    c: Tensor
    sent: Tensor

    @classmethod
    def of_roots(cls, trees: TreeBatch, buffers: _Buffers, d_roots: Tensor | None) -> Self:
        """Buffers with the rows of the roots filled in."""
        new = cls(*(t.new_empty(len(trees), t.shape[1]) for t in (buffers.h, buffers.c, buffers.sent)))
        for tensor, of_roots in zip(new, (0 if d_roots is None else d_roots, 0, 0), strict=True):
            tensor[trees.n_edges :] = of_roots
        return new

    def of_nodes(self, slots: Tensor) -> Self:
        """Gradients of the nodes in these slots."""
        return type(self)(*(tensor.index_select(0, slots) for tensor in self))

    def of_leaves(self, trees: TreeBatch, rows: NodeRows) -> Self:
        """Gradients of the distinct leaves, summed over their occurrences."""
        slots = trees.slot.index_select(0, rows.leaves)
        return type(self)(*(steps.sums_by_group(tensor, slots, rows.leaf_starts) for tensor in self))


class _ChildSum(torch.autograd.Function):
    """The cell over a batch of trees; all tensors have the dtype of the products.

    ``w_word (3H, X)`` maps a word to i, o, u (folded); ``w_own ((1 or 2) H, X)`` to f and, with attention,
    the query; ``w_sum (3H, H)`` maps the sum of the children's states to i, o, u (folded);
    ``w_send ((1 or 2) H, H)`` a child's state to its part of the forget gate and, with attention, its key.
    """

    apply: ClassVar[Callable[..., tuple[Tensor, Tensor, Tensor | None]]]

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
        w_sum: Tensor,
        w_send: Tensor,
        b_send: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        size, leaves, n_inner = w_sum.shape[1], slice(0, rows.n_leaves), len(trees) - trees.n_leaves
        h = x.new_empty(rows.n_leaves + n_inner, size)
        buffers = _Buffers(
            gates=steps.multiply(x, w_word.T, b_word).index_select(0, rows.words),
            c=torch.empty_like(h, dtype=steps.working_dtype(x.dtype)),
            h=h,
            sent=h.new_empty(len(h), len(w_send)),
            own=steps.multiply(x, w_own.T, b_own).index_select(0, rows.words[rows.n_leaves :]),
            h_sum=h.new_empty(n_inner, size),
            forget=h.new_empty(trees.n_edges, size),
        )
        gates, c, _, sent, *_ = buffers
        attention, ops, children = [], steps.on(x.device), rows.of_nodes.index_select(0, trees.children)
        c[leaves] = 0
        ops.open_gates(gates[leaves], c[leaves], h[leaves])
        steps.multiply(h[leaves], w_send.T, b_send, out=sent[leaves])
        for level in trees.upper_levels():
            at, weight, below = buffers.at(level, rows), None, children[level.edges]
            if len(w_send) > size:
                attention.append(ops.attend(level, below, at.own[:, size:], sent[:, size:]))
                weight = attention[-1].weight
            ops.sum_children(level, below, sent[:, :size], at.own[:, :size], h, c, weight, at.forget, at.h_sum, at.c)
            at.gates.addmm_(at.h_sum, w_sum.T)
            ops.open_gates(at.gates, at.c, at.h)
            torch.addmm(b_send, at.h, w_send.T, out=at.sent)
        ctx.trees, ctx.rows, ctx.children, ctx.attention = trees, rows, children, attention
        ctx.save_for_backward(x, w_word, w_own, w_sum, w_send, *buffers)
        ctx.set_materialize_grads(False)
        weights = None
        if len(w_send) > size:
            weights = torch.cat([level.weight for level in attention] or [c.new_empty(0)])
        return h, h.index_select(0, rows.of_nodes[trees.roots]), weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None, d_weights: Tensor | None) -> Any:
        x, w_word, w_own, w_sum, w_send, *saved = ctx.saved_tensors
        rows, buffers = ctx.rows, _Buffers(*saved)
        above = _Above.of_roots(ctx.trees, buffers, d_roots)
        d_gates, d_sent, d_own = _gradients(ctx, buffers, above, w_sum, w_send, d_h, d_weights)
        by_word = steps.sums_by_group(d_gates, rows.by_word, rows.word_starts)
        by_own = steps.sums_by_group(d_own, rows.inner_by_word, rows.word_starts)
        d_x = steps.multiply(by_word, w_word).addmm_(by_own, w_own) if ctx.needs_input_grad[2] else None
        return (
            None,
            None,
            d_x,
            by_word.T @ x,
            by_word.sum(0),
            by_own.T @ x,
            by_own.sum(0),
            d_gates[rows.n_leaves :].T @ buffers.h_sum,
            d_sent.T @ buffers.h,
            d_sent.sum(0),
        )


def _gradients(
    ctx: Any,
    buffers: _Buffers,
    above: _Above,
    w_sum: Tensor,
    w_send: Tensor,
    d_h: Tensor | None,
    d_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The backward pass from the roots to the leaves: gradients of pre-activations, of ``sent`` and of ``own``.

    The gradient of ``own``, ``(1 + I, (1 or 2) H)``, begins with a row of zeros.
    """
    trees, rows, size, ops = ctx.trees, ctx.rows, w_sum.shape[1], steps.on(buffers.h.device)
    gates, c, h, sent, own, *_ = buffers
    d_gates, d_sent, d_own = torch.empty_like(gates), torch.empty_like(sent), own.new_zeros(1 + len(own), own.shape[1])
    if d_weights is None:
        d_weights = c.new_zeros(trees.n_edges)

    def close(at: slice, given: _Above) -> Tensor:
        d_sent[at] = given.sent
        by_h = given.h.addmm_(given.sent, w_send)
        if d_h is not None:
            by_h.add_(d_h[at])
        ops.close_gates(gates[at], c[at], by_h, given.c, d_gates[at])
        return given.c

    for number, level in reversed(list(enumerate(trees.upper_levels()))):
        at, below, weight = buffers.at(level, rows), ctx.children[level.edges], None
        d_c = close(rows.at(level), above.of_nodes(trees.slot[level.nodes]))
        d_h_sum = torch.mm(d_gates[rows.at(level)], w_sum)
        d_edges, d_nodes = above.sent[level.edges], d_own[1:][level.inner]
        if ctx.attention:
            attention = ctx.attention[number]
            weight = attention.weight
            d_key, d_query = d_edges[:, size:], d_nodes[:, size:]
            ops.attend_backward(
                level,
                below,
                at.own[:, size:],
                sent[:, size:],
                attention,
                h,
                d_h_sum,
                d_weights[level.edges],
                d_key,
                d_query,
            )
        into = above.h[level.edges], above.c[level.edges], d_edges[:, :size], d_nodes[:, :size]
        ops.spread_to_children(level, below, at.forget, c, weight, d_h_sum, d_c, *into)
    close(slice(0, rows.n_leaves), above.of_leaves(trees, rows))
    return d_gates, d_sent, d_own
