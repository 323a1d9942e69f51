"""The tree cells without gradients, over trees whose equal subtrees are merged.

The same equations as ``nary`` and ``child_sum``, with folded weights as in ``steps``, but nothing is kept for a
backward pass: a level goes through its gates in blocks of rows that stay in the cache. Weights are folded, converted
and packed once (``products``). Products may be in bf16 or 8 bits, all else has the dtype of the word vectors. Where
states are multiplied in 8 bits, word vectors are in bf16: only states are known to lie between -1 and 1.

Shapes as in ``shared_trees``; H hidden size, X input size, m rows of a block.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from structviews.batches.shared_trees import SharedFamilies, SharedPairs
from structviews.kernels.cells import Cell
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.steps import EPSILON, folded
from structviews.runtime.products import ROWS, Product, of_words, prepared
from structviews.runtime.scratch import scratch

# So many inner nodes, of a dozen sentences, are faster without what distinct leaves send: a product reads its weight,
# and that takes longer than to multiply a few rows.
FEW = 256


class _Pairs(NamedTuple):
    """Products of a binary cell: of a word; of a left and of a right child; of both, side by side.

    The bias is added on the left.
    """

    of_word: Product
    of_left: Product
    of_right: Product
    of_both: Product

    @classmethod
    def of(cls, cell: BinaryCell, precision: str) -> "_Pairs":
        bias = folded(cell.bias, cell.hidden)
        both = folded(cell.recurrent.weight, cell.hidden)
        bias_of_both = torch.cat([bias, cell.bias_forget, cell.bias_forget])
        left, right = both.chunk(2, dim=1)
        return cls(
            Product(folded(cell.input.weight, cell.hidden), bias, of_words(precision)),
            Product(left, bias_of_both, precision),
            Product(right, None, precision),
            Product(both, bias_of_both, precision),
        )


class _Families(NamedTuple):
    """Products of a Child-Sum cell.

    Attributes:
        of_word: a word's part of i, o, u; its part of its children's forget gates; and its query.
        of_sum: the part of i, o, u of the (weighted) sum of the children's states.
        of_child: a child's part of its forget gate, and its key.
    """

    of_word: Product
    of_sum: Product
    of_child: Product

    @classmethod
    def of(cls, cell: ChildSumCell, precision: str) -> "_Families":
        hidden, words = cell.hidden, of_words(precision)
        of_word = [folded(cell.input.weight, hidden), cell.input_forget.weight]
        bias_of_word = [folded(cell.input.bias, hidden), cell.input_forget.bias]
        of_child = [cell.recurrent_forget.weight]
        bias = None
        if cell.attention:
            of_word.append(cell.query.weight)
            bias_of_word.append(cell.query.bias)
            of_child.append(cell.key.weight)
            bias = torch.cat([torch.zeros_like(cell.key.bias), cell.key.bias])
        return cls(
            Product(torch.cat(of_word), torch.cat(bias_of_word), words),
            # A plain sum of states may exceed 1.
            Product(folded(cell.recurrent.weight, hidden), None, precision if cell.attention else words),
            Product(torch.cat(of_child), bias, precision),
        )


def _products(cell: Cell, precision: str) -> _Pairs | _Families:
    """The cell's products, prepared when first asked for and again after its weights have changed."""
    made = _Pairs if isinstance(cell, BinaryCell) else _Families
    return prepared(cell, precision, lambda: made.of(cell, precision))  # type: ignore[arg-type]


@torch.no_grad()
def run(cell: Cell, vectors: Tensor, trees: SharedPairs | SharedFamilies, precision: str = "fp32") -> Tensor:
    """States ``(R, H)`` of all rows, in memory that is used again; see ``scratch``.

    Args:
        cell: the parameters.
        vectors: ``(U, X)`` vectors of the distinct words.
        trees: the merged trees, of the cell's kind.
        precision: of the products, see ``Product``.
    """
    products = _products(cell, precision)
    h, c = (scratch(name, trees.levels[-1], cell.hidden, vectors) for name in ("states", "cells"))
    if isinstance(products, _Pairs) and isinstance(trees, SharedPairs):
        _run_pairs(products, vectors, trees, h, c)
    elif isinstance(products, _Families) and isinstance(trees, SharedFamilies):
        _run_families(products, vectors, trees, h, c)
    else:
        raise ValueError(f"{type(cell).__name__} does not run over {type(trees).__name__}")
    return h


def _run_pairs(products: _Pairs, vectors: Tensor, trees: SharedPairs, h: Tensor, c: Tensor) -> None:
    """Fill in states and cells ``(R, H)`` of a binary cell."""
    n_leaves = trees.levels[1]
    for rows in _blocks(0, n_leaves):
        _open(products.of_word(vectors[rows]).to(h.dtype), None, c[rows], h[rows])
    if len(h) - n_leaves <= FEW:
        _run_few_pairs(products.of_both, trees, h, c)
        return
    sides = products.of_left, products.of_right
    # What leaves send to their parents; that of inner nodes is only calculated where it is read.
    sent = [
        _all(name, product, h, leaves)
        for name, product, leaves in zip(("left", "right"), sides, trees.leaves, strict=True)
    ]
    children, places = trees.children.unbind(0), trees.places.unbind(0)
    writes: tuple[Callable[..., Tensor], ...] = (Tensor.copy_, Tensor.add_)
    room = scratch("gates", ROWS, products.of_left.outputs, h)
    for (first, last), inner in zip(pairwise(trees.levels[1:]), trees.inner, strict=True):
        for rows in _blocks(first, last):
            skipped, n = rows.start - n_leaves, rows.stop - rows.start
            gates, left, right = room[:n], *(each[skipped : skipped + n] for each in children)
            for side, (below, write) in enumerate(zip((left, right), writes, strict=True)):
                start, stop = (min(max(first + bound - rows.start, 0), n) for bound in inner[side])
                if start < stop:
                    write(gates[start:stop], sides[side](h.index_select(0, below[start:stop])))
                for begin, end in ((0, start), (stop, n)):
                    if begin < end:
                        leaves = places[side][skipped + begin : skipped + end]
                        write(gates[begin:end], sent[side].index_select(0, leaves))
            _open_pairs(gates, c.index_select(0, left), c.index_select(0, right), c[rows], h[rows])


def _run_few_pairs(of_both: Product, trees: SharedPairs, h: Tensor, c: Tensor) -> None:
    """Fill in states and cells ``(R, H)`` of the inner nodes, by one product for a level."""
    sizes = [stop - start for start, stop in pairwise(trees.levels[1:])]
    below = trees.children.t().flatten().split([2 * size for size in sizes])
    states, cells = (each[trees.levels[1] :].split(sizes) for each in (h, c))  # in a third of the time of slices
    for size, children, h_own, c_own in zip(sizes, below, states, cells, strict=True):
        gates = of_both(h.index_select(0, children).view(size, -1)).to(h.dtype)
        left, right = c.index_select(0, children).view(size, 2, -1).unbind(1)
        _open_pairs(gates, left, right, c_own, h_own)


def _run_families(products: _Families, vectors: Tensor, trees: SharedFamilies, h: Tensor, c: Tensor) -> None:
    """Fill in states and cells ``(R, H)`` of a Child-Sum cell."""
    size, n_leaves = h.shape[1], trees.levels[1]
    of_word, of_head = _all("of_word", products.of_word, vectors).tensor_split((3 * size,), dim=1)
    _unit(of_head[:, size:])
    sent = scratch("sent", len(h), products.of_child.outputs, h)

    def send(start: int, stop: int) -> None:
        for rows in _blocks(start, stop):
            sent[rows] = products.of_child(h[rows])

    for rows in _blocks(0, n_leaves):
        _open(of_word.index_select(0, trees.words[rows]), None, c[rows], h[rows])
    send(0, n_leaves)
    first_child = trees.starts.tolist()  # all at once: reading one number of a tensor takes long
    places = torch.arange(len(trees.children), device=h.device)
    for (start, stop), n in zip(pairwise(trees.levels[1:]), trees.n_children, strict=True):
        for rows in _blocks(start, stop):
            inner = slice(rows.start - n_leaves, rows.stop - n_leaves + 1)
            starts, first, last = trees.starts[inner], first_child[inner.start], first_child[inner.stop - 1]
            below = _Below(starts - first, trees.children[first:last], places[: last - first])
            h_sum, c_sum = _sums_over_children(below, of_head.index_select(0, trees.head_words[first:last]), sent, h, c)
            gates = of_word.index_select(0, trees.words[rows]).add_(products.of_sum(h_sum))
            _open(gates, c_sum, c[rows], h[rows])
        send(start, start + n)


class _Below(NamedTuple):
    """The children ``(k,)`` of a block of rows: where each row's start, and the end; their rows; and 0 .. k - 1."""

    starts: Tensor
    rows: Tensor
    places: Tensor


def _sums_over_children(below: _Below, of_head: Tensor, sent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """For each row the (weighted) sum of its children's states, and that of their cells times forget gates."""
    of_child, size = sent.index_select(0, below.rows), h.shape[1]
    weight = None
    if sent.shape[1] > size:
        key = of_child[:, size:]
        scale = torch.linalg.vecdot(key, key).add_(EPSILON).rsqrt_()
        # The exponential of a cosine cannot overflow.
        weight = torch.linalg.vecdot(of_head[:, size:], key).mul_(scale).exp_()
    h_sum = _sums(below.rows, h, below.starts, weight)
    if weight is not None:
        h_sum.div_(torch.segment_reduce(weight, "sum", offsets=below.starts)[:, None])
    forget = (of_head[:, :size] + of_child[:, :size]).sigmoid_()
    return h_sum, _sums(below.places, forget.mul_(c.index_select(0, below.rows)), below.starts)


def _sums(rows: Tensor, of: Tensor, starts: Tensor, weight: Tensor | None = None) -> Tensor:
    """Sums ``(m, H)`` of the (weighted) rows ``(k,)`` of ``of``, from each start to the next."""
    # The function of torch.nn.functional does the same, after checks that take as long as a sentence's sums.
    return torch.embedding_bag(of, rows, starts, False, 0, False, weight, True)[0]


def _all(name: str, product: Product, rows: Tensor, chosen: Tensor | None = None) -> Tensor:
    """The products of all rows, or of the chosen ones, in the rows' dtype and in the buffer of this name."""
    n = len(rows) if chosen is None else len(chosen)
    results = scratch(name, n, product.outputs, rows)
    for block in _blocks(0, n):
        results[block] = product(rows[block] if chosen is None else rows.index_select(0, chosen[block]))
    return results


def _unit(vectors: Tensor) -> None:
    """Scale vectors ``(n, H)`` to unit length."""
    for rows in _blocks(0, len(vectors)):
        block = vectors[rows]
        block.mul_(torch.linalg.vecdot(block, block).add_(EPSILON).rsqrt_()[:, None])


def _open(gates: Tensor, below: Tensor | None, c: Tensor, h: Tensor) -> None:
    """Cells and states ``(m, H)`` from pre-activations ``(m, 3H)`` and the children's part of the cells."""
    i, o, s = gates.sigmoid_().chunk(3, dim=1)
    if below is None:
        torch.mul(i, -2, out=c)
    else:
        torch.add(below, i, alpha=-2, out=c)
    c.addcmul_(i, s, value=4)
    torch.addcmul(o, o, c.sigmoid(), value=-2, out=h)


def _open_pairs(gates: Tensor, left: Tensor, right: Tensor, c: Tensor, h: Tensor) -> None:
    """Cells and states ``(m, H)`` from pre-activations ``(m, 5H)`` and the children's cells ``(m, H)``."""
    i, o, s, f_left, f_right = gates.sigmoid_().chunk(5, dim=1)
    torch.mul(f_left, left, out=c)
    c.addcmul_(f_right, right).addcmul_(i, s.sub_(0.5), value=4)
    torch.addcmul(o, o, c.sigmoid(), value=-2, out=h)


def _blocks(start: int, stop: int) -> Iterator[slice]:
    """Cut rows into blocks."""
    return (slice(first, min(first + ROWS, stop)) for first in range(start, stop, ROWS))
