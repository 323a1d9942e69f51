"""Tree cells without gradients, over trees whose equal subtrees are merged.

The same equations as in training, with folded weights as in ``steps``, but nothing is kept for a backward pass: a level
goes through its gates in blocks of rows that stay in the cache. Weights are folded, converted and packed once
(``products``). These are the passes written by hand, for the Tree-LSTMs; other cells run as ``cells.run_merged``.
Products may be in bf16, all else has the dtype of the word vectors.

Shapes as in ``batches.trees``; H hidden size, X input size, G gates, m rows of a block.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from structviews.batches.trees import SharedFamilies, SharedPairs, SharedTrees, blocks
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.steps import EPSILON, advance, open_gates, sums_by_group
from structviews.runtime.products import ROWS, Product, prepared, scratch

# So many inner nodes, of a dozen sentences, are faster without what distinct leaves send: a product reads its weight,
# and that takes longer than to multiply a few rows.
FEW = 256


class MergedBinary:
    """The binary Tree-LSTM over merged trees: a parent's gates are a sum over its left and its right child."""

    def __init__(self, cell: BinaryCell, precision: str):
        w_word, b_word, w_pair, b_pair = cell.folded()
        left, right = w_pair.chunk(2, dim=1)
        self.of_word = Product(w_word, b_word, precision)
        self.sides = Product(left, b_pair, precision), Product(right, None, precision)
        self.of_both = Product(w_pair, b_pair, precision)

    def fill(self, vectors: Tensor, trees: SharedPairs, c: Tensor, h: Tensor) -> None:
        """Fill in cells and states ``(R, H)``; ``vectors (U, X)`` are those of the distinct words."""
        n_leaves = trees.levels[1]
        c[:n_leaves] = 0
        for rows in blocks(0, n_leaves, ROWS):
            open_gates(self.of_word(vectors[rows]).to(h.dtype), c[rows], h[rows])
        if len(h) - n_leaves <= FEW:  # one product for a level
            sizes = [stop - start for start, stop in pairwise(trees.levels[1:])]
            split = trees.children.split([2 * size for size in sizes])
            cells, states = (each[n_leaves:].split(sizes) for each in (c, h))  # in a third of the time of slices
            for size, both, c_own, h_own in zip(sizes, split, cells, states, strict=True):
                gates = self.of_both(h.index_select(0, both).view(size, -1)).to(h.dtype)
                left, right = c.index_select(0, both).view(size, 2, -1).unbind(1)
                _open_pairs(gates, left, right, c_own, h_own)
            return
        # What leaves send to their parents; that of inner nodes is only calculated where it is read.
        sent = [scratch(f"sides {side}", len(each), 5 * h.shape[1], h) for side, each in enumerate(trees.leaves)]
        for leaves, product, results in zip(trees.leaves, self.sides, sent, strict=True):
            for rows in blocks(0, len(leaves), ROWS):
                results[rows] = product(h.index_select(0, leaves[rows]))
        children = trees.children.view(-1, 2).t().contiguous().unbind(0)
        places = trees.places.unbind(0)
        writes: tuple[Callable[..., Tensor], ...] = (Tensor.copy_, Tensor.add_)
        buffer = scratch("gates", ROWS, self.of_both.outputs, h)
        for (first, last), inner in zip(pairwise(trees.levels[1:]), trees.inner, strict=True):
            for rows in blocks(first, last, ROWS):
                skipped, n = rows.start - n_leaves, rows.stop - rows.start
                gates, left, right = buffer[:n], *(each[skipped : skipped + n] for each in children)
                for side, (below, write) in enumerate(zip((left, right), writes, strict=True)):
                    start, stop = (min(max(first + bound - rows.start, 0), n) for bound in inner[side])
                    if start < stop:
                        write(gates[start:stop], self.sides[side](h.index_select(0, below[start:stop])))
                    for begin, end in ((0, start), (stop, n)):
                        if begin < end:
                            leaves = places[side][skipped + begin : skipped + end]
                            write(gates[begin:end], sent[side].index_select(0, leaves))
                _open_pairs(gates, c.index_select(0, left), c.index_select(0, right), c[rows], h[rows])


class MergedChildSum:
    """The Child-Sum Tree-LSTM over merged trees: each node has a word, and children add up."""

    def __init__(self, cell: ChildSumCell, precision: str):
        w_word, b_word, w_own, b_own, w_sum, w_send, b_send = cell.folded()
        # Of a node's word: its gates; its part of its children's forget gates; and its query, if children are weighed.
        self.of_word = Product(torch.cat([w_word, w_own]), torch.cat([b_word, b_own]), precision)
        # What each label adds to it.
        self.of_label = torch.cat(cell.folded_labels(), dim=1).detach() if cell.labelled else None
        # Of a child's state: its part of its forget gate, and its key.
        self.of_child = Product(w_send, b_send, precision)
        self.of_sum = Product(w_sum, None, precision)

    def fill(self, vectors: Tensor, trees: SharedFamilies, c: Tensor, h: Tensor) -> None:
        """Fill in cells and states ``(R, H)``; ``vectors (U, X)`` are those of the distinct words."""
        size, n_leaves = h.shape[1], trees.levels[1]
        own = self.of_word.outputs - self.of_child.outputs
        of_words = scratch("of_word", len(vectors), self.of_word.outputs, vectors)
        for rows in blocks(0, len(vectors), ROWS):
            of_words[rows] = self.of_word(vectors[rows])
        if self.of_label is not None and trees.pairs is not None:
            pairs, products = trees.pairs, of_words
            of_words = scratch("of_pairs", len(pairs.words), self.of_word.outputs, h)
            for rows in blocks(0, len(pairs.words), ROWS):
                into = torch.index_select(products, 0, pairs.words[rows], out=of_words[rows])
                into.add_(self.of_label.index_select(0, pairs.labels[rows]))
        of_word, of_head = of_words.tensor_split((own,), dim=1)
        attention = self.of_child.outputs > size
        for rows in blocks(0, len(of_head) if attention else 0, ROWS):
            query = of_head[rows, size:]
            query.mul_(torch.linalg.vecdot(query, query).add_(EPSILON).rsqrt_()[:, None])  # to unit length
        sent = scratch("sent", len(h), self.of_child.outputs, h)
        c[:n_leaves] = 0
        for rows in blocks(0, n_leaves, ROWS):
            open_gates(of_word.index_select(0, trees.words[rows]), c[rows], h[rows])
            sent[rows] = self.of_child(h[rows])
        first_child = trees.starts.tolist()  # all at once: reading one number of a tensor takes long
        places = torch.arange(len(trees.children), device=h.device)
        for (start, stop), n in zip(pairwise(trees.levels[1:]), trees.n_children, strict=True):
            for rows in blocks(start, stop, ROWS):
                inner = slice(rows.start - n_leaves, rows.stop - n_leaves + 1)
                first, last = first_child[inner.start], first_child[inner.stop - 1]
                starts, below, place = trees.starts[inner] - first, trees.children[first:last], places[: last - first]
                heads = of_head.index_select(0, trees.head_words[first:last])
                of_child, weight = sent.index_select(0, below), None
                if attention:
                    key = of_child[:, size:]
                    scale = torch.linalg.vecdot(key, key).add_(EPSILON).rsqrt_()
                    # The exponential of a cosine cannot overflow.
                    weight = torch.linalg.vecdot(heads[:, size:], key).mul_(scale).exp_()
                h_sum = sums_by_group(h, below, starts, weight, has_end=True)
                if weight is not None:
                    h_sum.div_(torch.segment_reduce(weight, "sum", offsets=starts)[:, None])
                cells = (heads[:, :size] + of_child[:, :size]).sigmoid_().mul_(c.index_select(0, below))
                c[rows] = sums_by_group(cells, place, starts, has_end=True)
                gates = of_word.index_select(0, trees.words[rows])
                open_gates(gates.add_(self.of_sum(h_sum)), c[rows], h[rows])
            for rows in blocks(start, start + n, ROWS):
                sent[rows] = self.of_child(h[rows])


@torch.no_grad()
def merged_pass(cell: BinaryCell | ChildSumCell, vectors: Tensor, trees: SharedTrees) -> Tensor:
    """The same as ``run_merged``, in memory that may be used again (``scratch``); products in bf16 under autocast."""
    kind = vectors.device.type
    precision = "bf16" if torch.is_autocast_enabled(kind) else "fp32"
    make: Any = MergedBinary if cell.binary else MergedChildSum
    with torch.autocast(kind, enabled=False):
        h, c = (scratch(name, trees.levels[-1], cell.hidden, vectors) for name in ("states", "cells"))
        prepared(cell, precision, lambda: make(cell, precision)).fill(vectors, trees, c, h)
    return h


def _open_pairs(gates: Tensor, left: Tensor, right: Tensor, c: Tensor, h: Tensor) -> None:
    """Cells and states ``(m, H)`` of parents from pre-activations ``(m, 5H)`` and their children's cells."""
    *of_node, f_left, f_right = gates.sigmoid_().chunk(5, dim=1)
    torch.mul(f_left, left, out=c)
    advance(of_node, c.addcmul_(f_right, right), h)
