"""The steps between the matrix products of a level, forward and backward, in plain PyTorch.

They run on any device; ``on`` returns the fastest implementation for a device.

With ``tanh(x) = 1 - 2 sigmoid(-2x)`` every gate is a sigmoid, and one pass over memory computes them
all. So the weights of ``u`` are scaled by -2 (``FOLD``) before the products, and cells are stored as
``C = -2c``:

    C = 4 i s - 2 i + sum_k f_k C_k     where s = sigmoid(-2 u'), u = tanh(u') = 1 - 2s
    h = o - 2 o t                       where t = sigmoid(C),     tanh(c) = 1 - 2t

The gates are in the order i, o, s; in a binary cell, the forget gates of the left and the right child
follow. Inputs and outputs of matrix products (pre-activations, states and their gradients) may be stored
in half precision; cells and all arithmetic have at least single precision.

A node *sends* its parent the product of its state and a weight: in a Child-Sum cell its part of its forget
gate, and its key; in a binary cell its part of all five gates.

All steps work on blocks of rows that stay in the cache; children's rows are read in place.

Shapes: R rows of a batch (``trees.NodeRows``); M nodes of a level, or all leaves; K children of a level;
H hidden size. A level's edges are grouped by ordinal, see ``structviews.batches.trees``.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from structviews.batches.trees import Level, blocks

FOLD = -2.0
# Added under the square roots of the cosine: the query of an unknown word may be the zero vector.
EPSILON = 1e-8
# Elements of one gate in a block of rows.
NUMBERS_AT_ONCE = 2**16
# Rows per product on the CPU: MKL is up to a third slower on a long factor that is not split.
ROWS = 2048

Tensors = tuple[Tensor, ...]

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class Function(torch.autograd.Function):
    """The base of our functions: PyTorch's, whose ``apply`` has no type."""

    apply: ClassVar[Callable[..., Any]]


class Attention(NamedTuple):
    """Attention over the children of a level, ``(K,)`` each: the weight of a child under its parent, the cosine of the
    parent's query and the child's key, and the inverse norms of both.
    """

    weight: Tensor
    cosine: Tensor
    query_scale: Tensor
    key_scale: Tensor


@cache
def on(device: torch.device) -> ModuleType:
    """The module with the fastest steps for a device; its functions have the same names and arguments as these."""
    if device.type == "cuda" and find_spec("triton"):
        return import_module("structviews.kernels.fused")
    return sys.modules[__name__]


def folded(weight: Tensor, hidden: int) -> Tensor:
    """A weight or bias, whose rows are those of gates, with those of the third scaled by -2: u in i, o, u, ..."""
    scale = weight.new_ones(len(weight))
    scale[2 * hidden : 3 * hidden] = FOLD
    return weight * scale.view(-1, *[1] * (weight.dim() - 1))


def product_dtype(inputs: Tensor) -> torch.dtype:
    """The dtype for storage and products: autocast's if enabled, else that of the inputs."""
    kind = inputs.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inputs.dtype


def multiply(rows: Tensor, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """``bias + rows @ weight`` for many rows, written to ``out`` if given."""
    size = max(len(rows), 1) if rows.is_cuda else ROWS
    if out is None:
        out = rows.new_empty(len(rows), weight.shape[1])
    for block, result in zip(rows.split(size), out.split(size), strict=True):
        if bias is None:
            torch.mm(block, weight, out=result)
        else:
            torch.addmm(bias, block, weight, out=result)
    return out


def sums_by_group(
    rows: Tensor, places: Tensor, starts: Tensor, weight: Tensor | None = None, *, has_end: bool = False
) -> Tensor:
    """Sums ``(groups, ...)`` of the rows ``(m, ...)`` of each group, without gradients.

    ``places (n,)`` are row indices sorted by group, with weights if given; ``starts`` is where each group begins in
    them, with the end of the last one if ``has_end``.
    """
    # The function of torch.nn.functional does the same, after checks that take as long as a sentence's sums.
    return torch.embedding_bag(rows, places, starts, False, 0, False, weight, has_end)[0]


def open_gates(gates: Tensor, c: Tensor, h: Tensor) -> None:
    """Compute states from pre-activations.

    Args:
        gates: ``(M, 3H)`` pre-activations; overwritten with activations.
        c: ``(M, H)`` the children's contribution to the cells, or zeros; overwritten with the cells.
        h: ``(M, H)`` receives the states.
    """
    for rows in in_cache(h):
        stored = gates[rows]
        active = stored.to(c.dtype).sigmoid_()
        advance(active.chunk(3, dim=1), c[rows], h[rows])
        stored.copy_(active)  # no-op if `active` is `stored` itself


def open_pairs(children: Tensor, sent: Tensor, c: Tensor, gates: Tensor, nodes: slice, h: Tensor) -> None:
    """Compute states of a binary cell from what the left and right children send.

    Args:
        children: ``(M, 2)`` rows of the children.
        sent: ``(R, 5H)`` what nodes send; the sum over both children is the pre-activation.
        c: ``(R, H)`` cells; those of the nodes are filled in.
        gates: ``(M, 5H)`` receives the activations.
        nodes: the M rows of the nodes.
        h: ``(M, H)`` receives the states.
    """
    cells = c[nodes]
    for rows in in_cache(h):
        left, right = children[rows].unbind(1)
        stored = gates[rows]
        # The fastest way to gather and add rows.
        total = embedding_bag(children[rows], sent, mode="sum")
        active = torch.sigmoid(total.to(c.dtype), out=_working(stored, c.dtype))
        *gates_of_node, f_left, f_right = active.chunk(5, dim=1)
        torch.mul(f_left, c.index_select(0, left), out=cells[rows])
        advance(gates_of_node, cells[rows].addcmul_(f_right, c.index_select(0, right)), h[rows])
        stored.copy_(active)


def advance(gates: Sequence[Tensor], c: Tensor, h: Tensor) -> None:
    """Cells and states from activations of i, o, s ``(m, H)``; ``c`` holds the children's contribution."""
    i, o, s = gates
    c.add_(i, alpha=-2).addcmul_(i, s, value=4)
    torch.addcmul(o, o, c.sigmoid(), value=-2, out=h)


def close_gates(gates: Tensor, c: Tensor, d_h: Tensor, d_c: Tensor, d_gates: Tensor) -> None:
    """The backward pass of ``open_gates``, with the ``gates`` and cells ``c`` that it left.

    Args:
        d_h: ``(M, H)`` gradient of the states.
        d_c: ``(M, H)`` gradient of the cells from the parents; overwritten with the full gradient.
        d_gates: ``(M, 3H)`` receives the gradient of the pre-activations.
    """
    for rows in in_cache(c):
        active, stored = gates[rows].to(c.dtype), d_gates[rows]
        d_active = _working(stored, c.dtype)
        _retreat(active.chunk(3, dim=1), c[rows], d_h[rows], d_c[rows], d_active.chunk(3, dim=1))
        stored.copy_(d_active)


def close_pairs(
    children: Tensor, c: Tensor, gates: Tensor, nodes: slice, d_h: Tensor, d_c: Tensor, d_gates: Tensor, below: Tensor
) -> None:
    """The backward pass of ``open_pairs``, with what it left; ``d_h (M, H)`` and ``d_c (M, H)`` as for ``close_gates``.

    Args:
        d_gates: ``(M, 5H)`` receives the gradient of the pre-activations, the same for what either child sent.
        below: ``(M, 2, H)`` receives the gradient of the children's cells.
    """
    for rows in in_cache(d_h):
        stored = d_gates[rows]
        d_active = _working(stored, c.dtype)
        *active, f_left, f_right = gates[rows].to(c.dtype).chunk(5, dim=1)
        *d_of_node, d_left, d_right = d_active.chunk(5, dim=1)
        dc = d_c[rows]
        _retreat(active, c[nodes][rows], d_h[rows], dc, d_of_node)
        for side, (f, d_f) in enumerate(((f_left, d_left), (f_right, d_right))):
            cells = c.index_select(0, children[rows, side])
            _sigmoid_backward(cells.mul_(dc), f, grad_input=d_f)
            torch.mul(dc, f, out=below[rows, side])
        stored.copy_(d_active)


def _retreat(gates: Sequence[Tensor], c: Tensor, d_h: Tensor, d_c: Tensor, d_gates: Sequence[Tensor]) -> None:
    """The backward pass of ``advance``; adds to ``d_c``."""
    i, o, s = gates
    d_i, d_o, d_s = d_gates
    d_h, t = d_h.to(c.dtype), c.sigmoid()
    work = d_h * o
    d_c.add_(_sigmoid_backward(work, t, grad_input=work), alpha=-2)
    _sigmoid_backward(torch.addcmul(d_h, d_h, t, value=-2, out=work), o, grad_input=d_o)
    d_u = torch.mul(d_c, -2, out=t)
    _sigmoid_backward(torch.addcmul(d_u, d_u, s, value=-2, out=work), i, grad_input=d_i)
    _sigmoid_backward(torch.mul(d_u, i, out=work), s, grad_input=d_s).mul_(-2)


def sum_children(
    level: Level, children: Tensor, gates: Tensors, below: Tensors, weight: Tensor | None, into: Tensors
) -> None:
    """Sum states and gated cells over the children of a Child-Sum level.

    Args:
        level: the level.
        children: ``(K,)`` rows of its children.
        gates: the children's part of the forget gates, ``(R, H)``, and the nodes' part, ``(M, H)``.
        below: ``(R, H)`` states and cells.
        weight: ``(K,)`` attention, or None for a plain sum.
        into: receive the activations of the forget gates, ``(K, H)``, the (weighted) sum of the states, and the sum of
            the cells times their forget gates, ``(M, H)``.
    """
    (sent, own_forget), (h, c), (forget, h_sum, c_sum) = gates, below, into
    for block, siblings in _sibling_blocks(level.siblings, h_sum):
        total = torch.zeros_like(h_sum[block], dtype=c.dtype)
        cells = c_sum[block].zero_()
        for n, edges in siblings:
            rows = children[edges]
            f = sent.index_select(0, rows).to(c.dtype).add_(own_forget[block][:n]).sigmoid_()
            cells[:n].addcmul_(f, c.index_select(0, rows))
            if weight is None:
                total[:n].add_(h.index_select(0, rows))
            else:
                total[:n].addcmul_(h.index_select(0, rows), weight[edges, None])
            forget[edges] = f
        h_sum[block] = total


def spread_to_children(
    level: Level, children: Tensor, forget: Tensor, c: Tensor, weight: Tensor | None, above: Tensors, into: Tensors
) -> None:
    """The backward pass of ``sum_children``; ``level``, ``children``, ``c`` and ``weight`` as there.

    Args:
        forget: ``(K, H)`` activations of the forget gates.
        above: ``(M, H)`` gradients of the (weighted) sum of the states, and of the sum of the cells.
        into: receive the gradients of the children's states and cells and of the forget gates' pre-activations,
            ``(K, H)``, and the last summed over siblings, ``(M, H)``.
    """
    (d_h_sum, d_c), (below_h, below_c, d_forget, d_own_forget) = above, into
    for block, siblings in _sibling_blocks(level.siblings, d_c):
        total = torch.zeros_like(d_c[block])
        for n, edges in siblings:
            dc, f, d_h = d_c[block][:n], forget[edges].to(c.dtype), d_h_sum[block][:n]
            below_h[edges] = d_h if weight is None else d_h * weight[edges, None]
            torch.mul(dc, f, out=below_c[edges])
            d_f = c.index_select(0, children[edges]).mul_(dc)
            total[:n].add_(_sigmoid_backward(d_f, f, grad_input=d_f))
            d_forget[edges] = d_f
        d_own_forget[block] = total


def attend(level: Level, children: Tensor, query: Tensor, key: Tensor) -> Attention:
    """Softmax over siblings of the cosine of the parent's query ``(M, H)`` and the child's key, a row of ``(R, H)``."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    product, key_square = torch.empty(2, len(children), dtype=dtype, device=key.device)
    query_square = torch.empty(len(query), dtype=dtype, device=key.device)
    for block, siblings in _sibling_blocks(level.siblings, query):
        q = query[block].to(dtype)
        torch.linalg.vecdot(q, q, out=query_square[block])
        for n, edges in siblings:
            k = key.index_select(0, children[edges]).to(dtype)
            torch.linalg.vecdot(q[:n], k, out=product[edges])
            torch.linalg.vecdot(k, k, out=key_square[edges])
    query_scale = (query_square + EPSILON).rsqrt()[level.parent]
    key_scale = (key_square + EPSILON).rsqrt()
    cosine = product * query_scale * key_scale
    # A cosine is at most 1, so its exponential cannot overflow.
    weight = cosine.exp()
    weight = weight / weight.new_zeros(len(query)).index_add_(0, level.parent, weight)[level.parent]
    return Attention(weight, cosine, query_scale, key_scale)


def attend_backward(
    level: Level, children: Tensor, vectors: Tensors, attention: Attention, h: Tensor, above: Tensors, into: Tensors
) -> None:
    """The backward pass of ``attend``; ``level`` and ``children`` as there.

    Args:
        vectors: its query and key.
        attention: its result.
        h: ``(R, H)`` the states that were weighted.
        above: gradient ``(M, H)`` of the weighted sum of the states, and other gradient ``(K,)`` of the weights.
        into: receive the gradients of the queries, ``(M, H)``, and of the children's keys, ``(K, H)``.
    """
    (query, key), (d_h_sum, d_weight), (d_query, d_key) = vectors, above, into
    dtype, d_weight = d_weight.dtype, d_weight.clone()
    for block, siblings in _sibling_blocks(level.siblings, query):
        d_h = d_h_sum[block].to(dtype)
        for n, edges in siblings:
            d_weight[edges] += torch.linalg.vecdot(d_h[:n], h.index_select(0, children[edges]).to(dtype))
    weight, cosine, query_scale, key_scale = attention
    weighted = weight * d_weight
    d_cosine = weighted - weight * weighted.new_zeros(len(query)).index_add_(0, level.parent, weighted)[level.parent]
    d_product = (d_cosine * query_scale * key_scale)[:, None]
    along_key = (d_cosine * cosine * key_scale.square())[:, None]
    along_query = (d_cosine * cosine * query_scale.square())[:, None]
    for block, siblings in _sibling_blocks(level.siblings, query):
        q = query[block].to(dtype)
        total = torch.zeros_like(q)
        for n, edges in siblings:
            k = key.index_select(0, children[edges]).to(dtype)
            total[:n].addcmul_(k, d_product[edges]).addcmul_(q[:n], along_query[edges], value=-1)
            d_key[edges] = k.mul_(along_key[edges]).neg_().addcmul_(q[:n], d_product[edges])
        d_query[block] = total


def _working(stored: Tensor, dtype: torch.dtype) -> Tensor:
    """A buffer of type ``dtype`` for values to store in ``stored``: ``stored`` itself if it has that type."""
    return stored if stored.dtype == dtype else torch.empty_like(stored, dtype=dtype)


def in_cache(rows: Tensor) -> Iterator[slice]:
    """Cut rows ``(n, H)`` into blocks."""
    return blocks(0, len(rows), max(1, NUMBERS_AT_ONCE // rows.shape[1]))


def _sibling_blocks(siblings: Sequence[int], nodes: Tensor) -> Iterator[tuple[slice, list[tuple[int, slice]]]]:
    """Blocks of a level's nodes ``(M, H)``, each with the edges to its first children, to its second ones, ...

    Each slice of edges comes with the number n of its parents, which are the first n nodes of the block.
    """
    for block in in_cache(nodes):
        start, edges = 0, []  # start of the edges of this ordinal
        for n_nodes in siblings:
            if n_nodes <= block.start:
                break
            end = min(n_nodes, block.stop)
            edges.append((end - block.start, slice(start + block.start, start + end)))
            start += n_nodes
        yield block, edges
