"""Child-Sum Tree-LSTM, plain or attentive, with or without labels, level by level.

Whatever depends only on the word is computed once for each distinct word, so leaves of the same word share
a row. Leaves take no part in recurrent products. A node computes its contribution to its parent's forget
gate once, and weight gradients are one product over all levels.

Shapes: N nodes, I inner nodes, R rows (``trees.NodeRows``), E edges, U distinct words (or P pairs of words and
labels), H hidden size, X input size. Letters as in Tai et al. 2015 (eqs. 2-8), and for the attention structured
views 3.2.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from structviews.batches.trees import NodeRows, TreeBatch
from structviews.kernels import steps
from structviews.kernels.cells import Children, Results, State, TreeCell, lstm_state, of_pairs, xavier


class ChildSumCell(TreeCell):
    """Child-Sum Tree-LSTM over word vectors of dimension X; states, queries and keys have dimension H.

    ``attention`` weighs the children's states instead of summing them. ``labels`` are the numbers of relations and of
    sides, see ``corpus.relations``, each of which adds a vector to all products of a word; None for a cell that reads
    no labels.
    """

    binary = False

    def __init__(self, input_dim: int, hidden: int, attention: bool = False, labels: tuple[int, int] | None = None):
        super().__init__()
        self.hidden = hidden
        self.attention = attention
        self.labels = labels
        self.labelled = labels is not None
        self.input = nn.Linear(input_dim, 3 * hidden)  # Wi Wo Wu, bi bo bu
        self.input_forget = nn.Linear(input_dim, hidden)  # Wf, bf
        self.recurrent = nn.Linear(hidden, 3 * hidden, bias=False)  # Ui Uo Uu
        self.recurrent_forget = nn.Linear(hidden, hidden, bias=False)  # Uf
        if attention:
            self.query = nn.Linear(input_dim, hidden)  # Wq, bq
            self.key = nn.Linear(hidden, hidden)  # Wp, bp
        products = 5 if attention else 4
        if labels:
            self.label = nn.Linear(sum(labels), products * hidden, bias=False)  # a column for each
        xavier(self, {"input.weight": 3, "recurrent.weight": 3, "label.weight": products})

    def of_words(self, vectors: Tensor) -> Tensor:
        parts = [self.input, self.input_forget, *([self.query] if self.attention else [])]
        return torch.cat([part(vectors) for part in parts], dim=1)

    def of_labels(self) -> Tensor:
        assert self.labels
        relations, sides = self.label.weight.T.split(self.labels)
        return (relations[:, None] + sides).flatten(0, 1)

    def leaf(self, x: Tensor) -> State:
        return lstm_state(*x.split(self.hidden, dim=1)[:3])

    def node(self, x: Tensor, children: Children) -> State:
        i, o, u, f, *q = x.split(self.hidden, dim=1)
        h, c = children.states
        forget = torch.sigmoid(children.of_parent(f) + self.recurrent_forget(h))
        if self.attention:
            h = children.softmax(cosine(children.of_parent(q[0]), self.key(h).to(x.dtype)))[:, None] * h
        u_i, u_o, u_u = self.recurrent(children.sum(h)).chunk(3, dim=1)
        return lstm_state(i + u_i, o + u_o, u + u_u, children.sum(forget * c))

    def folded_labels(self) -> tuple[Tensor, Tensor]:
        """What labels add to the first and to the other products of words of ``folded``."""
        by_label = steps.folded(self.of_labels().T, self.hidden).T
        return by_label[:, : 3 * self.hidden], by_label[:, 3 * self.hidden :]

    def folded(self) -> tuple[Tensor, ...]:
        """Weights and biases of the products, those of u folded: of a word; of a word, but not of leaves; of the sum of
        the children's states; of a child's state. See ``_ChildSum``.
        """
        own, forget = [self.input_forget], self.recurrent_forget.weight
        w_send, b_send = [forget], [forget.new_zeros(self.hidden)]  # this part of a forget gate has no bias
        if self.attention:
            own.append(self.query)
            w_send.append(self.key.weight)
            b_send.append(self.key.bias)
        return (
            steps.folded(self.input.weight, self.hidden),
            steps.folded(self.input.bias, self.hidden),
            torch.cat([part.weight for part in own]),
            torch.cat([part.bias for part in own]),
            steps.folded(self.recurrent.weight, self.hidden),
            torch.cat(w_send),
            torch.cat(b_send),
        )


def cosine(query: Tensor, key: Tensor) -> Tensor:
    """Cosine ``(K,)`` of the rows of ``(K, H)``."""
    norms = (query.square().sum(dim=1) + steps.EPSILON).sqrt() * (key.square().sum(dim=1) + steps.EPSILON).sqrt()
    return (query * key).sum(dim=1) / norms


def level_pass(cell: ChildSumCell, vectors: Tensor, rows: NodeRows, trees: TreeBatch) -> Results:
    """The same as ``run_levels``, with one product for all weight gradients of a kind, and steps that fill buffers."""
    dtype = steps.product_dtype(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        w_word, b_word, w_own, b_own, *recurrent = (each.to(dtype) for each in cell.folded())
        x = vectors.to(dtype)
        of_words = [linear(x, w_word, b_word), linear(x, w_own, b_own)]
        if (pairs := rows.pairs) is not None:
            both = zip(of_words, cell.folded_labels(), strict=True)
            of_words = [of_pairs(each, labels.to(dtype), pairs) for each, labels in both]
        states, roots, attention = _ChildSum.apply(trees, rows, *of_words, *recurrent)
    return states, roots.to(vectors.dtype), attention


class _ChildSum(steps.Function):
    """The cell over a batch of trees; all tensors have the dtype of the products.

    ``of_words (U, 3H)`` are a word's parts of i, o, u (folded), ``own_of_words (U, (1 or 2) H)`` that of f and, with
    attention, the query; ``w_sum (3H, H)`` maps the sum of the children's states to i, o, u (folded);
    ``w_send ((1 or 2) H, H)`` a child's state to its part of the forget gate and, with attention, its key.
    """

    @staticmethod
    def forward(
        ctx: Any, trees: TreeBatch, rows: NodeRows, of_words: Tensor, own_of_words: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        w_sum, w_send, b_send = parameters
        size, leaves, n_inner = w_sum.shape[1], slice(0, rows.n_leaves), len(trees) - trees.n_leaves
        h = of_words.new_empty(rows.n_leaves + n_inner, size)
        c = torch.empty_like(h, dtype=torch.promote_types(h.dtype, torch.float32))
        gates = of_words.index_select(0, rows.words)  # (R, 3H) of i, o and u (folded); their activations
        # What nodes send to their parents: (R, (1 or 2) H) their part of the forget gates; keys.
        sent = h.new_empty(len(h), len(w_send))
        # What inner nodes have for their children: (I, (1 or 2) H) their part of the forget gates; queries.
        own = own_of_words.index_select(0, rows.words[rows.n_leaves :])
        h_sum = h.new_empty(n_inner, size)  # (weighted) sum of the children's states
        forget = h.new_empty(trees.n_edges, size)  # activations of the forget gates
        ops, children = steps.on(h.device), rows.of_nodes.index_select(0, trees.children)
        attentive, attentions = len(w_send) > size, []
        c[leaves] = 0
        ops.open_gates(gates[leaves], c[leaves], h[leaves])
        steps.multiply(h[leaves], w_send.T, b_send, out=sent[leaves])
        for level in trees.upper_levels():
            at, inner, edges = rows.at(level), level.inner, level.edges
            below, sums, heads = children[edges], h_sum[inner], own[inner]
            attention = ops.attend(level, below, heads[:, size:], sent[:, size:]) if attentive else None
            attentions.append(attention)
            weight = attention.weight if attention else None
            forget_gates = sent[:, :size], heads[:, :size]
            ops.sum_children(level, below, forget_gates, (h, c), weight, (forget[edges], sums, c[at]))
            gates[at].addmm_(sums, w_sum.T)
            ops.open_gates(gates[at], c[at], h[at])
            torch.addmm(b_send, h[at], w_send.T, out=sent[at])
        ctx.trees, ctx.rows, ctx.children, ctx.attentions = trees, rows, children, attentions
        ctx.save_for_backward(w_sum, w_send, gates, c, h, sent, own, h_sum, forget)
        ctx.set_materialize_grads(False)
        weights = torch.cat([each.weight for each in attentions if each] or [c.new_empty(0)]) if attentive else None
        return h, h.index_select(0, rows.of_nodes[trees.roots]), weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None, d_weights: Tensor | None) -> Any:
        w_sum, w_send, gates, c, h, sent, own, h_sum, forget = ctx.saved_tensors
        trees, rows, size, ops = ctx.trees, ctx.rows, h.shape[1], steps.on(h.device)
        d_gates, d_sent = torch.empty_like(gates), torch.empty_like(sent)
        d_own = own.new_zeros(1 + len(own), own.shape[1])  # the first row is that of all leaves
        if d_weights is None:
            d_weights = c.new_zeros(trees.n_edges)
        # What parents pass down to h, c and sent, by slot, see ``TreeBatch.slot``; nothing but d_roots to roots.
        above = above_h, above_c, above_sent = [each.new_empty(len(trees), each.shape[1]) for each in (h, c, sent)]
        for each, of_roots in zip(above, (0 if d_roots is None else d_roots, 0, 0), strict=True):
            each[trees.n_edges :] = of_roots
        levels = zip((None, *trees.upper_levels()), (None, *ctx.attentions), strict=True)  # None: the leaves
        for level, attention in reversed([*levels]):
            at = rows.at(level) if level else slice(0, rows.n_leaves)
            if level:
                slot = trees.slot[level.nodes]
                by_h, by_c = (each.index_select(0, slot) for each in (above_h, above_c))
                torch.index_select(above_sent, 0, slot, out=d_sent[at])
            else:  # a leaf's row stands for all leaves of its word
                slot = trees.slot.index_select(0, rows.leaves)
                by_h, by_c, d_sent[at] = (steps.sums_by_group(each, slot, rows.leaf_starts) for each in above)
            by_h.addmm_(d_sent[at], w_send)
            if d_h is not None:
                by_h.add_(d_h[at])
            ops.close_gates(gates[at], c[at], by_h, by_c, d_gates[at])  # now `by_c` has all of the cells' gradient
            if not level:
                break
            inner, edges, weight = level.inner, level.edges, attention.weight if attention else None
            below, d_edges, d_heads = ctx.children[edges], above_sent[edges], d_own[1:][inner]
            d_h_sum = torch.mm(d_gates[at], w_sum)
            if attention:
                vectors, into = (own[inner, size:], sent[:, size:]), (d_heads[:, size:], d_edges[:, size:])
                ops.attend_backward(level, below, vectors, attention, h, (d_h_sum, d_weights[edges]), into)
            into_all = above_h[edges], above_c[edges], d_edges[:, :size], d_heads[:, :size]
            ops.spread_to_children(level, below, forget[edges], c, weight, (d_h_sum, by_c), into_all)
        d_of_words = steps.sums_by_group(d_gates, rows.by_word, rows.word_starts)
        d_own_of_words = steps.sums_by_group(d_own, (rows.by_word - rows.n_leaves + 1).clamp_(min=0), rows.word_starts)
        d_w_sum = d_gates[rows.n_leaves :].T @ h_sum
        return None, None, d_of_words, d_own_of_words, d_w_sum, d_sent.T @ h, d_sent.sum(0)
