"""What happens between the matrix products of a level, in operations of PyTorch, forward and backward.

These run on any device; ``on`` finds what is fastest on one.

With ``tanh(x) = 1 - 2 sigmoid(-2x)`` every gate is a sigmoid, and one pass over memory makes them
all. So the weights of ``u`` are scaled by -2 (``FOLD``) before the products, and cells are kept as
``C = -2c``:

    C = 4 i s - 2 i + sum_k f_k C_k     where s = sigmoid(-2 u'), u = tanh(u') = 1 - 2s
    h = o - 2 o t                       where t = sigmoid(C),     tanh(c) = 1 - 2t

Gates stand in the order i, o, s; in a binary cell the forget gates of the left and of the right
child follow. What the products read and write (sums before the gates, states, gradients of both)
may be stored in half precision; cells and all arithmetic have at least single.

Everything is done in blocks of rows that stay in the cache from one operation to the next.

Shapes: M nodes of a level, or all leaves; K children of a level; H hidden size; F forget gates of a
node: 2 in a binary cell, else 0. A level's edges are grouped by ordinal: ``structviews.trees``.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from structviews.trees import Level, TreeBatch

FOLD = -2.0
# Under the roots of the cosine: the query of an unknown word may be the zero vector.
EPSILON = 1e-8
# Numbers of one gate in a block of rows.
BLOCK = 2**16
# Rows of a product on the CPU: MKL is up to a third slower where a long factor is given whole.
ROWS = 2048

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class Gradients(NamedTuple):
    """Gradients on their way down, one row for each slot of ``TreeBatch.slot``.

    Attributes:
        h: ``(N, H)`` by the states.
        c: ``(N, H)`` by the cells.
    """

    h: Tensor
    c: Tensor

    @classmethod
    def of_results(cls, trees: TreeBatch, h: Tensor, c: Tensor, d_h: Tensor | None, d_roots: Tensor | None) -> Self:
        """Those of the roots filled in, room for the others.

        Args:
            trees: the structure.
            h, c: tensors of the types of states and cells; ``c (N, H)``.
            d_h: ``(N, H)`` gradient by the states of all nodes.
            d_roots: ``(B, H)`` by those of the roots.
        """
        new = cls(torch.empty_like(c, dtype=h.dtype), torch.empty_like(c))
        new.c[trees.n_edges :] = 0
        new.h[trees.n_edges :] = 0 if d_roots is None else d_roots
        if d_h is not None:
            new.h[trees.n_edges :] += d_h.index_select(0, trees.roots)
        return new


class Attention(NamedTuple):
    """Attention of a level's nodes over their children.

    Attributes:
        weight: ``(K,)`` of each child under its parent.
        cosine: ``(K,)`` of the parent's query and the child's key.
        query_scale: ``(K,)`` one over the norm of the parent's query.
        key_scale: ``(K,)`` one over the norm of the child's key.
    """

    weight: Tensor
    cosine: Tensor
    query_scale: Tensor
    key_scale: Tensor


@cache
def on(device: torch.device) -> ModuleType:
    """The module whose steps are fastest on a device; they have the names and the arguments of those here."""
    if device.type == "cuda" and find_spec("triton"):
        return import_module("structviews.kernels.fused")
    return sys.modules[__name__]


def folded(weight: Tensor, hidden: int) -> Tensor:
    """A weight or bias whose rows are gates, i, o, u first, with those of ``u`` scaled by -2."""
    scale = weight.new_ones(len(weight))
    scale[2 * hidden : 3 * hidden] = FOLD
    return weight * scale.view(-1, *[1] * (weight.dim() - 1))


def product_dtype(inputs: Tensor) -> torch.dtype:
    """What to store and multiply in: autocast's type where it is on, else that of the inputs."""
    kind = inputs.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inputs.dtype


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """What to calculate in when storing in ``dtype``."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def multiply(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``bias + rows @ weight`` for many rows."""
    size = max(len(rows), 1) if rows.is_cuda else ROWS
    out = rows.new_empty(len(rows), weight.shape[1])
    for block, result in zip(rows.split(size), out.split(size), strict=True):
        if bias is None:
            torch.mm(block, weight, out=result)
        else:
            torch.addmm(bias, block, weight, out=result)
    return out


def sums_by_word(rows: Tensor, places: Tensor, starts: Tensor) -> Tensor:
    """Sums ``(U, ...)`` of the rows of each different word.

    Args:
        rows: ``(m, ...)`` a row for each word.
        places: ``(n,)`` for each word, sorted as in ``WordIds.places``, its row.
        starts: ``(U,)`` where those of each different word begin.
    """
    return embedding_bag(places, rows, starts, mode="sum")


def gather_children(children: Tensor, h: Tensor, c: Tensor, h_child: Tensor, c_child: Tensor) -> None:
    """Copy the states and cells of a level's children.

    Args:
        children: ``(K,)`` the children.
        h, c: ``(N, H)`` states and cells of all nodes.
        h_child, c_child: ``(K, H)`` are given the children's.
    """
    torch.index_select(h, 0, children, out=h_child)
    torch.index_select(c, 0, children, out=c_child)


def open_gates(gates: Tensor, c: Tensor, h: Tensor, below: Tensor | None = None) -> None:
    """From the sums before the gates to states.

    Args:
        gates: ``(M, (3 + F) H)`` sums; afterwards activations.
        c: ``(M, H)`` what is added to the cells from elsewhere, zeros if nothing; afterwards cells.
        h: ``(M, H)`` is given the states.
        below: ``(M, F, H)`` cells of the children that have a forget gate here.
    """
    size = h.shape[1]
    for rows in _blocks(len(h), size):
        stored, cells = gates[rows], c[rows]
        active = stored.to(c.dtype).sigmoid_()
        i, o, s, *forget = active.split(size, dim=1)
        for f, c_child in zip(forget, _columns(below, rows), strict=True):
            cells.addcmul_(f, c_child)
        cells.add_(i, alpha=-2).addcmul_(i, s, value=4)
        torch.addcmul(o, o, cells.sigmoid(), value=-2, out=h[rows])
        stored.copy_(active)  # does nothing where no other dtype made a copy


def close_gates(
    gates: Tensor,
    c: Tensor,
    above: Gradients,
    slot: Tensor,
    d_gates: Tensor,
    d_c: Tensor,
    below: Tensor | None = None,
    d_below: Tensor | None = None,
) -> None:
    """The backward pass of ``open_gates``.

    Args:
        gates: ``(M, (3 + F) H)`` activations.
        c: ``(M, H)`` cells.
        above: what the parents, or the results, gave.
        slot: ``(M,)`` each node's row of ``above``.
        d_gates: ``(M, (3 + F) H)`` is given the gradient by the sums before the gates.
        d_c: ``(M, H)`` is given the gradient by the cells.
        below: ``(M, F, H)`` as there.
        d_below: ``(M, F, H)`` is given their gradient.
    """
    size = c.shape[1]
    for rows in _blocks(len(c), size):
        i, o, s, *forget = gates[rows].to(c.dtype).split(size, dim=1)
        stored = d_gates[rows]
        d_sums = torch.empty_like(stored, dtype=c.dtype) if stored.dtype != c.dtype else stored
        d_i, d_o, d_s, *d_forget = d_sums.split(size, dim=1)
        dh = above.h.index_select(0, slot[rows]).to(c.dtype)
        dc = torch.index_select(above.c, 0, slot[rows], out=d_c[rows])
        t = c[rows].sigmoid()
        work = dh * o
        dc.add_(_sigmoid_backward(work, t, grad_input=work), alpha=-2)
        _sigmoid_backward(torch.addcmul(dh, dh, t, value=-2, out=work), o, grad_input=d_o)
        columns = _columns(below, rows), _columns(d_below, rows)
        for f, d_f, c_child, d_c_child in zip(forget, d_forget, *columns, strict=True):
            _sigmoid_backward(torch.mul(dc, c_child, out=work), f, grad_input=d_f)
            torch.mul(dc, f, out=d_c_child)
        torch.mul(dc, -2, out=dh)
        _sigmoid_backward(torch.addcmul(dh, dh, s, value=-2, out=work), i, grad_input=d_i)
        _sigmoid_backward(torch.mul(dh, i, out=work), s, grad_input=d_s).mul_(-2)
        stored.copy_(d_sums)


def sum_children(
    level: Level,
    forget: Tensor,
    own_forget: Tensor,
    h: Tensor,
    c: Tensor,
    weight: Tensor | None,
    h_sum: Tensor,
    c_sum: Tensor,
) -> None:
    """What the children of a Child-Sum level add up to.

    Args:
        level: the level.
        forget: ``(K, H)`` what the children bring to the forget gates; afterwards their activations.
        own_forget: ``(M, H)`` what the nodes bring.
        h, c: ``(K, H)`` the children's states and cells.
        weight: ``(K,)`` attention, or None for a plain sum.
        h_sum: ``(M, H)`` zeros; is given the (weighted) sum of the states.
        c_sum: ``(M, H)`` zeros; is given the sum of the cells behind the forget gates.
    """
    for nodes, edges in _sibling_blocks(level.siblings, h.shape[1]):
        stored = forget[edges]
        f = stored.to(c.dtype).add_(own_forget[nodes]).sigmoid_()
        c_sum[nodes].addcmul_(f, c[edges])
        if weight is None:
            h_sum[nodes].add_(h[edges])
        else:
            h_sum[nodes].addcmul_(h[edges], weight[edges, None])
        stored.copy_(f)


def spread_to_children(
    level: Level,
    forget: Tensor,
    c: Tensor,
    weight: Tensor | None,
    d_h_sum: Tensor,
    d_c: Tensor,
    below: Gradients,
    d_forget: Tensor,
    d_forget_sum: Tensor,
) -> None:
    """The backward pass of ``sum_children``.

    Args:
        level: as there.
        forget: ``(K, H)`` activations.
        c: ``(K, H)`` the children's cells.
        weight: as there.
        d_h_sum: ``(M, H)`` gradient by the (weighted) sum of the states.
        d_c: ``(M, H)`` by the sum of the cells.
        below: ``(K, H)`` each, is given what children get by the two sums.
        d_forget: ``(K, H)`` is given the gradient by the sums before the forget gates.
        d_forget_sum: ``(M, H)`` zeros; is given that, summed over siblings.
    """
    for nodes, edges in _sibling_blocks(level.siblings, c.shape[1]):
        if weight is None:
            below.h[edges] = d_h_sum[nodes]
        else:
            torch.mul(d_h_sum[nodes], weight[edges, None], out=below.h[edges])
        dc, f, stored = d_c[nodes], forget[edges].to(c.dtype), d_forget[edges]
        torch.mul(dc, f, out=below.c[edges])
        d_f = dc * c[edges]
        stored.copy_(_sigmoid_backward(d_f, f, grad_input=d_f))
        d_forget_sum[nodes].add_(d_f)


def attend(level: Level, query: Tensor, key: Tensor) -> Attention:
    """Softmax over siblings of the cosine of the parent's query and the child's key.

    Args:
        level: the level.
        query: ``(M, H)`` of the level's nodes.
        key: ``(K, H)`` of the children.
    """
    dtype = working_dtype(query.dtype)
    product, key_square = torch.empty(2, len(key), dtype=dtype, device=key.device)
    query_square = torch.empty(len(query), dtype=dtype, device=key.device)
    for nodes, edges in _sibling_blocks(level.siblings, key.shape[1]):
        q, k = query[nodes].to(dtype), key[edges].to(dtype)
        torch.linalg.vecdot(q, k, out=product[edges])
        torch.linalg.vecdot(k, k, out=key_square[edges])
        if nodes.start == edges.start:  # the first children: every node comes by once
            torch.linalg.vecdot(q, q, out=query_square[nodes])
    query_scale = (query_square + EPSILON).rsqrt()[level.parent]
    key_scale = (key_square + EPSILON).rsqrt()
    cosine = product * query_scale * key_scale
    # A cosine is at most 1, so its exponential needs no shift.
    weight = cosine.exp()
    weight = weight / _sum_over_siblings(weight, level.parent, len(query))
    return Attention(weight, cosine, query_scale, key_scale)


def attend_backward(
    level: Level,
    query: Tensor,
    key: Tensor,
    attention: Attention,
    h: Tensor,
    d_h_sum: Tensor,
    d_weight: Tensor,
    d_key: Tensor,
    d_query: Tensor,
) -> None:
    """The backward pass of ``attend``.

    Args:
        level, query, key: as there.
        attention: what ``attend`` returned.
        h: ``(K, H)`` the children's states, which it weighted.
        d_h_sum: ``(M, H)`` gradient by the weighted sum.
        d_weight: ``(K,)`` gradient by the weights from elsewhere.
        d_key: ``(K, H)`` is given the gradient by the keys.
        d_query: ``(M, H)`` zeros; is given that by the queries.
    """
    dtype, size = d_weight.dtype, key.shape[1]
    d_weight = d_weight.clone()
    for nodes, edges in _sibling_blocks(level.siblings, size):
        d_weight[edges] += torch.linalg.vecdot(d_h_sum[nodes].to(dtype), h[edges].to(dtype))
    weight, cosine, query_scale, key_scale = attention
    weighted = weight * d_weight
    d_cosine = weighted - weight * _sum_over_siblings(weighted, level.parent, len(query))
    d_product = (d_cosine * query_scale * key_scale)[:, None]
    along_key = (d_cosine * cosine * key_scale.square())[:, None]
    along_query = (d_cosine * cosine * query_scale.square())[:, None]
    for nodes, edges in _sibling_blocks(level.siblings, size):
        q, k = query[nodes].to(dtype), key[edges].to(dtype)
        d_key[edges] = (q * d_product[edges]).addcmul_(k, along_key[edges], value=-1)
        d_query[nodes].addcmul_(k, d_product[edges]).addcmul_(q, along_query[edges], value=-1)


def _sum_over_siblings(values: Tensor, parent: Tensor, n_parents: int) -> Tensor:
    """For each child ``(K,)`` the sum over it and its siblings."""
    return values.new_zeros(n_parents).index_add_(0, parent, values)[parent]


def _columns(pairs: Tensor | None, rows: slice) -> Sequence[Tensor]:
    """Some rows of ``(M, F, H)`` as F tensors ``(m, H)``; none of None."""
    return () if pairs is None else pairs[rows].unbind(1)


def _blocks(n: int, size: int) -> Iterator[slice]:
    """Cut ``n`` rows of length ``size`` into blocks."""
    step = max(1, BLOCK // size)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _sibling_blocks(siblings: Sequence[int], size: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of a level's nodes, each with its first children, then its second ones, ..."""
    for block in _blocks(siblings[0], size):
        start = 0  # of the children of this ordinal
        for n_nodes in siblings:
            if n_nodes <= block.start:
                break
            end = min(n_nodes, block.stop)
            yield slice(block.start, end), slice(start + block.start, start + end)
            start += n_nodes
