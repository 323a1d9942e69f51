"""Binary N-ary Tree-LSTM, level by level; words enter at the leaves only, each different one once.

Shapes: N nodes, n leaves, U different words, H hidden size, X input size. Letters as in Tai et al. 2015 (eqs. 9-14),
with separate forget matrices for each pair of children.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.initialisation import xavier
from structviews.kernels import steps
from structviews.trees import TreeBatch
from structviews.vocabulary import WordIds


class BinaryCell(nn.Module):
    """Parameters of a binary Tree-LSTM.

    Args:
        input_dim: length X of a word vector.
        hidden: length H of a state.
    """

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = nn.Linear(input_dim, 3 * hidden, bias=False)  # Wi Wo Wu
        self.recurrent = nn.Linear(2 * hidden, 5 * hidden, bias=False)  # Ui Uo Uu Ufl Ufr, [left ; right]
        self.bias = nn.Parameter(torch.zeros(3 * hidden))  # bi bo bu, at leaves and inside
        self.bias_forget = nn.Parameter(torch.zeros(hidden))  # bf, for both children
        xavier(self, {"input.weight": 3, "recurrent.weight": 5})


def run(cell: BinaryCell, vectors: Tensor, ids: WordIds, trees: TreeBatch) -> tuple[Tensor, Tensor]:
    """States ``(N, H)`` in sorted order, and those of the roots ``(B, H)``.

    ``vectors (U, X)`` are those of the different words.
    """
    weights = (
        steps.folded(cell.input.weight, cell.hidden),
        steps.folded(cell.bias, cell.hidden),
        steps.folded(cell.recurrent.weight, cell.hidden),
        torch.cat([steps.folded(cell.bias, cell.hidden), cell.bias_forget, cell.bias_forget]),
    )
    dtype = steps.product_dtype(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        states, roots = _Binary.apply(trees, ids, vectors.to(dtype), *(weight.to(dtype) for weight in weights))
    return states, roots.to(vectors.dtype)


class _Binary(torch.autograd.Function):
    """The cell over a batch of trees; all tensors are of the one type in which products are made.

    ``w_word (3H, X)`` makes i, o, u of a leaf, ``w_pair (5H, 2H)`` i, o, u, f_l and f_r of the states
    of both children, side by side; u is folded in both.
    """

    @staticmethod
    def forward(
        ctx: Any,
        trees: TreeBatch,
        ids: WordIds,
        x: Tensor,
        w_word: Tensor,
        b_word: Tensor,
        w_pair: Tensor,
        b_pair: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size, n_leaves, dtype = w_pair.shape[1] // 2, trees.n_leaves, steps.working_dtype(x.dtype)
        words = ids.inverse.index_select(0, trees.words)
        leaf_gates = steps.multiply(x, w_word.T, b_word).index_select(0, words)
        h, c = x.new_empty(len(trees), size), x.new_zeros(len(trees), size, dtype=dtype)
        h_pair, c_pair = x.new_empty(len(trees) - n_leaves, 2, size), c.new_empty(len(trees) - n_leaves, 2, size)
        gates = x.new_empty(len(trees) - n_leaves, 5 * size)
        ops = steps.on(x.device)
        ops.open_gates(leaf_gates, c[:n_leaves], h[:n_leaves])
        for nodes, edges, *_ in trees.upper_levels():
            inner = slice(nodes.start - n_leaves, nodes.stop - n_leaves)
            into = h_pair[inner].view(-1, size), c_pair[inner].view(-1, size)
            ops.gather_children(trees.children[edges], h, c, *into)
            torch.addmm(b_pair, h_pair[inner].flatten(1), w_pair.T, out=gates[inner])
            ops.open_gates(gates[inner], c[nodes], h[nodes], c_pair[inner])
        ctx.trees, ctx.ids = trees, ids
        ctx.save_for_backward(x, w_word, w_pair, leaf_gates, gates, c, h_pair, c_pair)
        ctx.set_materialize_grads(False)
        return h, h.index_select(0, trees.roots)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None) -> Any:
        x, w_word, w_pair, leaf_gates, gates, c, h_pair, c_pair = ctx.saved_tensors
        trees, size, n_leaves = ctx.trees, w_pair.shape[1] // 2, ctx.trees.n_leaves
        above = steps.Gradients.of_results(trees, x, c, d_h, d_roots)
        ops, d_gates, d_leaf_gates = steps.on(x.device), torch.empty_like(gates), torch.empty_like(leaf_gates)
        for nodes, edges, *_ in reversed(list(trees.upper_levels())):
            inner = slice(nodes.start - n_leaves, nodes.stop - n_leaves)
            d_pair = above.c[edges].view(-1, 2, size)
            d_c = torch.empty_like(c[nodes])
            ops.close_gates(
                gates[inner], c[nodes], above, trees.slot[nodes], d_gates[inner], d_c, c_pair[inner], d_pair
            )
            torch.mm(d_gates[inner], w_pair, out=above.h[edges].view(-1, 2 * size))
            if d_h is not None:
                above.h[edges].add_(d_h.index_select(0, trees.children[edges]))
        leaves = slice(0, n_leaves)
        ops.close_gates(leaf_gates, c[leaves], above, trees.slot[leaves], d_leaf_gates, torch.empty_like(c[leaves]))
        by_word = steps.sums_by_word(d_leaf_gates, trees.places.index_select(0, ctx.ids.places), ctx.ids.starts)
        return (
            None,
            None,
            steps.multiply(by_word, w_word) if ctx.needs_input_grad[2] else None,
            by_word.T @ x,
            by_word.sum(0),
            d_gates.T @ h_pair.flatten(1),
            d_gates.sum(0),
        )
