"""Tree cells without gradients, over trees whose equal subtrees are merged.

The same equations as in training, with folded weights as in ``steps``, but nothing is kept for a backward pass: a level
goes through its gates in blocks of rows that stay in the cache. A cell's file says which products it has and what is
done between them; this one has the order of the nodes. Weights are folded, converted and packed once (``products``).
Products may be in bf16, all else has the dtype of the word vectors.

Shapes as in ``shared_trees``; H hidden size, X input size, G gates, m rows of a block.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from structviews.batches.shared_trees import SharedFamilies, SharedPairs
from structviews.kernels.steps import EPSILON
from structviews.runtime.products import ROWS, Product
from structviews.runtime.scratch import scratch

# So many inner nodes, of a dozen sentences, are faster without what distinct leaves send: a product reads its weight,
# and that takes longer than to multiply a few rows.
FEW = 256


class MergedCell(ABC):
    """A cell over merged trees.

    Attributes:
        of_word: the product of a word's vector.
        remembers: whether nodes have cells beside their states. Where they have not, the states are passed as cells.
    """

    of_word: Product
    remembers: ClassVar[bool]

    @abstractmethod
    def fill(self, vectors: Tensor, trees: Any, c: Tensor, h: Tensor) -> None:
        """Fill in cells and states ``(R, H)``; ``vectors (U, X)`` are those of the distinct words."""

    @abstractmethod
    def open_leaves(self, gates: Tensor, c: Tensor, h: Tensor) -> None:
        """Cells and states ``(m, H)`` of leaves from what their words add to the gates ``(m, G H)``."""


class MergedPairs(MergedCell):
    """A binary cell: a leaf has a word, and a parent's gates are a sum over its left and its right child.

    Args:
        of_word: the product of a leaf's word.
        weight: ``(G H, 2 H)`` of the states of the left and the right child, side by side.
        bias: ``(G H,)`` of a parent's gates.
        precision: of the products of states.
    """

    def __init__(self, of_word: Product, weight: Tensor, bias: Tensor, precision: str):
        left, right = weight.chunk(2, dim=1)
        self.of_word = of_word
        self.sides = Product(left, bias, precision), Product(right, None, precision)
        self.of_both = Product(weight, bias, precision)

    @abstractmethod
    def open_pairs(self, gates: Tensor, left: Tensor, right: Tensor, c: Tensor, h: Tensor) -> None:
        """Cells and states ``(m, H)`` of parents from pre-activations ``(m, G H)`` and their children's cells."""

    def fill(self, vectors: Tensor, trees: SharedPairs, c: Tensor, h: Tensor) -> None:
        n_leaves = trees.levels[1]
        for rows in _blocks(0, n_leaves):
            self.open_leaves(self.of_word(vectors[rows]).to(h.dtype), c[rows], h[rows])
        if len(h) - n_leaves <= FEW:
            self._fill_few(trees, c, h)
            return
        # What leaves send to their parents; that of inner nodes is only calculated where it is read.
        sent = [
            _all(name, product, h, leaves)
            for name, product, leaves in zip(("left", "right"), self.sides, trees.leaves, strict=True)
        ]
        children, places = trees.children.unbind(0), trees.places.unbind(0)
        writes: tuple[Callable[..., Tensor], ...] = (Tensor.copy_, Tensor.add_)
        room = scratch("gates", ROWS, self.of_both.outputs, h)
        for (first, last), inner in zip(pairwise(trees.levels[1:]), trees.inner, strict=True):
            for rows in _blocks(first, last):
                skipped, n = rows.start - n_leaves, rows.stop - rows.start
                gates, left, right = room[:n], *(each[skipped : skipped + n] for each in children)
                for side, (below, write) in enumerate(zip((left, right), writes, strict=True)):
                    start, stop = (min(max(first + bound - rows.start, 0), n) for bound in inner[side])
                    if start < stop:
                        write(gates[start:stop], self.sides[side](h.index_select(0, below[start:stop])))
                    for begin, end in ((0, start), (stop, n)):
                        if begin < end:
                            leaves = places[side][skipped + begin : skipped + end]
                            write(gates[begin:end], sent[side].index_select(0, leaves))
                self.open_pairs(gates, c.index_select(0, left), c.index_select(0, right), c[rows], h[rows])

    def _fill_few(self, trees: SharedPairs, c: Tensor, h: Tensor) -> None:
        """Fill in cells and states ``(R, H)`` of the inner nodes, by one product for a level."""
        sizes = [stop - start for start, stop in pairwise(trees.levels[1:])]
        below = trees.children.t().flatten().split([2 * size for size in sizes])
        cells, states = (each[trees.levels[1] :].split(sizes) for each in (c, h))  # in a third of the time of slices
        for size, children, c_own, h_own in zip(sizes, below, cells, states, strict=True):
            gates = self.of_both(h.index_select(0, children).view(size, -1)).to(h.dtype)
            left, right = c.index_select(0, children).view(size, 2, -1).unbind(1)
            self.open_pairs(gates, left, right, c_own, h_own)


class MergedFamilies(MergedCell):
    """A Child-Sum cell: each node has a word, and children are added up, with and without a gate for each.

    Args:
        of_word: the product of a node's word: its part of the node's gates; its part of the children's gates; and its
            query, if children are weighed.
        of_child: the product of a child's state: its part of its gate, and its key.
    """

    def __init__(self, of_word: Product, of_child: Product):
        self.of_word, self.of_child = of_word, of_child

    @abstractmethod
    def open_parents(self, gates: Tensor, h_sum: Tensor, c_sum: Tensor, c: Tensor, h: Tensor) -> None:
        """Cells and states ``(m, H)`` of heads.

        Args:
            gates: ``(m, G H)`` what their words add to the gates.
            h_sum: ``(m, H)`` (weighted) sums of their children's states.
            c_sum: ``(m, H)`` sums of their children's cells times their gates.
            c, h: receive the results.
        """

    def fill(self, vectors: Tensor, trees: SharedFamilies, c: Tensor, h: Tensor) -> None:
        size, n_leaves = h.shape[1], trees.levels[1]
        own = self.of_word.outputs - self.of_child.outputs
        of_word, of_head = _all("of_word", self.of_word, vectors).tensor_split((own,), dim=1)
        _unit(of_head[:, size:])
        sent = scratch("sent", len(h), self.of_child.outputs, h)

        def send(start: int, stop: int) -> None:
            for rows in _blocks(start, stop):
                sent[rows] = self.of_child(h[rows])

        for rows in _blocks(0, n_leaves):
            self.open_leaves(of_word.index_select(0, trees.words[rows]), c[rows], h[rows])
        send(0, n_leaves)
        first_child = trees.starts.tolist()  # all at once: reading one number of a tensor takes long
        places = torch.arange(len(trees.children), device=h.device)
        for (start, stop), n in zip(pairwise(trees.levels[1:]), trees.n_children, strict=True):
            for rows in _blocks(start, stop):
                inner = slice(rows.start - n_leaves, rows.stop - n_leaves + 1)
                starts, first, last = trees.starts[inner], first_child[inner.start], first_child[inner.stop - 1]
                below = _Below(starts - first, trees.children[first:last], places[: last - first])
                sums = _sums_over_children(below, of_head.index_select(0, trees.head_words[first:last]), sent, c, h)
                self.open_parents(of_word.index_select(0, trees.words[rows]), *sums, c[rows], h[rows])
            send(start, start + n)


@torch.no_grad()
def run(cell: MergedCell, vectors: Tensor, trees: SharedPairs | SharedFamilies, hidden: int) -> Tensor:
    """States ``(R, H)`` of all rows, in memory that is used again; see ``scratch``.

    Args:
        cell: the cell with its products.
        vectors: ``(U, X)`` vectors of the distinct words.
        trees: the merged trees, of the cell's kind.
        hidden: H.
    """
    h = scratch("states", trees.levels[-1], hidden, vectors)
    c = scratch("cells", trees.levels[-1], hidden, vectors) if cell.remembers else h
    cell.fill(vectors, trees, c, h)
    return h


class _Below(NamedTuple):
    """The children ``(k,)`` of a block of rows: where each row's start, and the end; their rows; and 0 .. k - 1."""

    starts: Tensor
    rows: Tensor
    places: Tensor


def _sums_over_children(below: _Below, of_head: Tensor, sent: Tensor, c: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
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


def open_lstm(gates: Tensor, below: Tensor | None, c: Tensor, h: Tensor) -> None:
    """Cells and states ``(m, H)`` of an LSTM from pre-activations ``(m, 3H)`` and the children's part of the cells."""
    i, o, s = gates.sigmoid_().chunk(3, dim=1)
    if below is None:
        torch.mul(i, -2, out=c)
    else:
        torch.add(below, i, alpha=-2, out=c)
    c.addcmul_(i, s, value=4)
    torch.addcmul(o, o, c.sigmoid(), value=-2, out=h)


def _unit(vectors: Tensor) -> None:
    """Scale vectors ``(n, H)`` to unit length."""
    for rows in _blocks(0, len(vectors)):
        block = vectors[rows]
        block.mul_(torch.linalg.vecdot(block, block).add_(EPSILON).rsqrt_()[:, None])


def _blocks(start: int, stop: int) -> Iterator[slice]:
    """Cut rows into blocks."""
    return (slice(first, min(first + ROWS, stop)) for first in range(start, stop, ROWS))
