"""Child-Sum Tree-LSTM, plain or attentive, level by level.

What depends on a word alone is calculated once for each different word. Leaves take part in no
recurrent product; products of weights by gradients are made once, over all levels.

Shapes: N nodes, I of them inner ones, E edges, U different words, H hidden size, X input size. Letters as in Tai et al.
2015 (eqs. 2-8), and for the attention structured views 3.2.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.initialisation import xavier
from structviews.kernels import steps
from structviews.trees import Level, TreeBatch
from structviews.vocabulary import WordIds


class ChildSumCell(nn.Module):
    """Parameters of a Child-Sum Tree-LSTM.

    Args:
        input_dim: length X of a word vector.
        hidden: length H of a state, and of the attention's space.
        attention: weigh the children by attention instead of summing their states.
    """

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


def run(cell: ChildSumCell, vectors: Tensor, ids: WordIds, trees: TreeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
    """States ``(N, H)`` in sorted order, those of the roots ``(B, H)``, and attention ``(E,)`` or None.

    ``vectors (U, X)`` are those of the different words. Leaves have no forget gate or query.
    """
    of_word, of_child = [cell.input_forget], [cell.recurrent_forget.weight]
    child_bias = [cell.recurrent_forget.weight.new_zeros(cell.hidden)]
    if cell.attention:
        of_word.append(cell.query)
        of_child.append(cell.key.weight)
        child_bias.append(cell.key.bias)
    weights = (
        steps.folded(cell.input.weight, cell.hidden),
        steps.folded(cell.input.bias, cell.hidden),
        torch.cat([part.weight for part in of_word]),
        torch.cat([part.bias for part in of_word]),
        steps.folded(cell.recurrent.weight, cell.hidden),
        torch.cat(of_child),
        torch.cat(child_bias),
    )
    dtype = steps.product_dtype(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        operands = (operand.to(dtype) for operand in (vectors, *weights))
        states, roots, attention = _ChildSum.apply(trees, ids, *operands)
    return states, roots.to(vectors.dtype), attention


class _Buffers(NamedTuple):
    """What the forward pass leaves behind, of all nodes and edges, or of a level's.

    Attributes:
        gates: ``(N, 3H)`` activations of i, o and u (folded).
        c: ``(N, H)`` cells.
        own: ``(I, (1 or 2) H)`` what inner nodes add to their children's forget gates; queries.
        h_sum: ``(I, H)`` (weighted) sum of the children's states.
        h_child, c_child: ``(E, H)`` the children's states and cells.
        child: ``(E, (1 or 2) H)`` activations of the forget gates; keys.
    """

    gates: Tensor
    c: Tensor
    own: Tensor
    h_sum: Tensor
    h_child: Tensor
    c_child: Tensor
    child: Tensor

    def at(self, level: Level, n_leaves: int) -> "_Buffers":
        """The rows of a level and of its children."""
        inner = slice(level.nodes.start - n_leaves, level.nodes.stop - n_leaves)
        return _Buffers(
            *(of_nodes[level.nodes] for of_nodes in self[:2]),
            *(of_inner[inner] for of_inner in self[2:4]),
            *(of_edges[level.edges] for of_edges in self[4:]),
        )


class _ChildSum(torch.autograd.Function):
    """The cell over a batch of trees; all tensors are of the one type in which products are made.

    ``w_word (3H, X)`` makes i, o, u (folded) of a word, ``w_own ((1 or 2) H, X)`` f and with attention
    the query;
    ``w_sum (3H, H)`` what the sum of the children's states adds to i, o, u (folded);
    ``w_child ((1 or 2) H, H)`` what a child's state adds to its forget gate, and its key.
    """

    @staticmethod
    def forward(
        ctx: Any,
        trees: TreeBatch,
        ids: WordIds,
        x: Tensor,
        w_word: Tensor,
        b_word: Tensor,
        w_own: Tensor,
        b_own: Tensor,
        w_sum: Tensor,
        w_child: Tensor,
        b_child: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        size, n_leaves = w_sum.shape[1], trees.n_leaves
        words = ids.inverse.index_select(0, trees.words)
        h, c = x.new_empty(len(trees), size), x.new_zeros(len(trees), size, dtype=steps.working_dtype(x.dtype))
        buffers = _Buffers(
            gates=steps.multiply(x, w_word.T, b_word).index_select(0, words),
            c=c,
            own=steps.multiply(x, w_own.T, b_own).index_select(0, words[n_leaves:]),
            h_sum=torch.zeros_like(c[n_leaves:]),
            h_child=h.new_empty(trees.n_edges, size),
            c_child=c.new_empty(trees.n_edges, size),
            child=x.new_empty(trees.n_edges, len(w_child)),
        )
        attention, ops = [], steps.on(x.device)
        ops.open_gates(buffers.gates[:n_leaves], c[:n_leaves], h[:n_leaves])
        for level in trees.upper_levels():
            at, weight = buffers.at(level, n_leaves), None
            ops.gather_children(trees.children[level.edges], h, c, at.h_child, at.c_child)
            torch.addmm(b_child, at.h_child, w_child.T, out=at.child)
            forget, key = at.child[:, :size], at.child[:, size:]
            own_forget, query = at.own[:, :size], at.own[:, size:]
            if len(w_child) > size:
                attention.append(ops.attend(level, query, key))
                weight = attention[-1].weight
            ops.sum_children(level, forget, own_forget, at.h_child, at.c_child, weight, at.h_sum, at.c)
            at.gates.addmm_(at.h_sum.to(x.dtype), w_sum.T)
            ops.open_gates(at.gates, at.c, h[level.nodes])
        ctx.trees, ctx.ids, ctx.attention = trees, ids, attention
        ctx.save_for_backward(x, w_word, w_own, w_sum, w_child, *buffers)
        ctx.set_materialize_grads(False)
        weights = None
        if len(w_child) > size:
            weights = torch.cat([level.weight for level in attention] or [c.new_empty(0)])
        return h, h.index_select(0, trees.roots), weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None, d_weights: Tensor | None) -> Any:
        x, w_word, w_own, w_sum, w_child, *saved = ctx.saved_tensors
        trees, ids, buffers, n_leaves = ctx.trees, ctx.ids, _Buffers(*saved), ctx.trees.n_leaves
        above = steps.Gradients.of_results(trees, x, buffers.c, d_h, d_roots)
        d_gates, d_own, d_child = _gradients(ctx, buffers, above, w_sum, w_child, d_h, d_weights)
        places = trees.places.index_select(0, ids.places)
        by_word = steps.sums_by_word(d_gates, places, ids.starts)
        # The row before the first inner node's is that of all leaves: zeros.
        by_own = steps.sums_by_word(d_own, (places - n_leaves + 1).clamp_(min=0), ids.starts).to(x.dtype)
        d_x = steps.multiply(by_word, w_word).addmm_(by_own, w_own) if ctx.needs_input_grad[2] else None
        return (
            None,
            None,
            d_x,
            by_word.T @ x,
            by_word.sum(0),
            by_own.T @ x,
            by_own.sum(0),
            d_gates[n_leaves:].T @ buffers.h_sum.to(x.dtype),
            d_child.T @ buffers.h_child,
            d_child.sum(0),
        )


def _gradients(
    ctx: Any,
    buffers: _Buffers,
    above: steps.Gradients,
    w_sum: Tensor,
    w_child: Tensor,
    d_h: Tensor | None,
    d_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """From the roots to the leaves: gradients by the sums before the gates, by ``own`` and by ``child``.

    That by ``own (1 + I, (1 or 2) H)`` begins with a row of zeros.
    """
    trees, size, n_leaves = ctx.trees, w_sum.shape[1], ctx.trees.n_leaves
    d_gates, d_c = torch.empty_like(buffers.gates), torch.empty_like(buffers.c)
    d_own, d_child = d_c.new_zeros(1 + len(buffers.own), len(w_child)), torch.empty_like(buffers.child)
    gradients = buffers._replace(gates=d_gates, c=d_c, own=d_own[1:], child=d_child)
    ops = steps.on(buffers.c.device)
    if d_weights is None:
        d_weights = d_c.new_zeros(trees.n_edges)
    for number, level in reversed(list(enumerate(trees.upper_levels()))):
        at, d, weight = buffers.at(level, n_leaves), gradients.at(level, n_leaves), None
        ops.close_gates(at.gates, at.c, above, trees.slot[level.nodes], d.gates, d.c)
        d_h_sum = torch.mm(d.gates, w_sum)
        if ctx.attention:
            attention = ctx.attention[number]
            weight = attention.weight
            ops.attend_backward(
                level,
                at.own[:, size:],
                at.child[:, size:],
                attention,
                at.h_child,
                d_h_sum,
                d_weights[level.edges],
                d.child[:, size:],
                d.own[:, size:],
            )
        below = steps.Gradients(above.h[level.edges], above.c[level.edges])
        d_forget = d.child[:, :size], d.own[:, :size]
        ops.spread_to_children(level, at.child[:, :size], at.c_child, weight, d_h_sum, d.c, below, *d_forget)
        below.h.addmm_(d.child, w_child)
        if d_h is not None:
            below.h.add_(d_h.index_select(0, trees.children[level.edges]))
    leaves = slice(0, n_leaves)
    ops.close_gates(buffers.gates[leaves], buffers.c[leaves], above, trees.slot[leaves], d_gates[leaves], d_c[leaves])
    return d_gates, d_own, d_child
