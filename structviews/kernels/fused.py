"""The functions of ``steps`` in Triton: the gathers, gates and scatters of a step in one or two kernels.

A program handles a node or an edge, and a block of columns. The program of a node loops over its
children, so that sums need no atomic operations and are deterministic: the next child's edge is offset
by the number of nodes that have the current child.

Kernels are specialised for hidden size and dtypes, not for the divisibility of pointers and strides,
which changes from level to level if rows are not a multiple of 16 bytes. ``aligned`` says whether all
rows start at a multiple of 16 bytes, which allows wide loads.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from structviews.batches.trees import Level
from structviews.kernels.steps import EPSILON, Attention, Tensors

# Maximum number of columns per block, by columns and by rows; 8 columns per thread.
BLOCK = 256
ROW_BLOCK = 1024
COLUMNS_OF_WARP = 256
# Nodes per program where each node has a single number.
NODES = 128


def open_gates(gates: Tensor, c: Tensor, h: Tensor) -> None:
    """See ``steps.open_gates``."""
    _launch(_open, len(h), h.shape[1], (gates, c, h))


def open_pairs(children: Tensor, sent: Tensor, c: Tensor, gates: Tensor, nodes: slice, h: Tensor) -> None:
    """See ``steps.open_pairs``."""
    _launch(_open_pairs, len(h), h.shape[1], (sent, c, gates, c[nodes], h), children)


def close_gates(gates: Tensor, c: Tensor, d_h: Tensor, d_c: Tensor, d_gates: Tensor) -> None:
    """See ``steps.close_gates``."""
    _launch(_close, len(c), c.shape[1], (gates, c, d_h, d_c, d_gates))


def close_pairs(
    children: Tensor, c: Tensor, gates: Tensor, nodes: slice, d_h: Tensor, d_c: Tensor, d_gates: Tensor, below: Tensor
) -> None:
    """See ``steps.close_pairs``."""
    _launch(_close_pairs, len(d_h), d_h.shape[1], (c, gates, c[nodes], d_h, d_c, d_gates, below), children)


def sum_children(
    level: Level, children: Tensor, gates: Tensors, below: Tensors, weight: Tensor | None, into: Tensors
) -> None:
    """See ``steps.sum_children``."""
    _, h_sum, _ = into
    _launch(_sum, len(h_sum), h_sum.shape[1], (*gates, *below, *into), children, weight, level.counts)


def spread_to_children(
    level: Level, children: Tensor, forget: Tensor, c: Tensor, weight: Tensor | None, above: Tensors, into: Tensors
) -> None:
    """See ``steps.spread_to_children``."""
    d_h_sum, _ = above
    _launch(_spread, len(d_h_sum), c.shape[1], (forget, c, *above, *into), children, weight, level.counts)


def attend(level: Level, children: Tensor, query: Tensor, key: Tensor) -> Attention:
    """See ``steps.attend``."""
    n, size, dtype = len(children), key.shape[1], torch.promote_types(key.dtype, torch.float32)
    attention = Attention(*torch.empty(4, n, dtype=dtype, device=key.device).unbind())
    _launch(_compare, n, size, (query, key), level.parent, children, *attention, whole=True, epsilon=EPSILON)
    _normalise[(triton.cdiv(len(query), NODES),)](attention.weight, level.counts, block=NODES)
    return attention


def attend_backward(
    level: Level, children: Tensor, vectors: Tensors, attention: Attention, h: Tensor, above: Tensors, into: Tensors
) -> None:
    """See ``steps.attend_backward``."""
    (d_h_sum, d_weight), (query, _) = above, vectors
    size, weighted = h.shape[1], torch.empty_like(attention.weight)
    others = attention.weight, d_weight, d_weight.stride(0), weighted
    _launch(_weight_gradient, len(children), size, (d_h_sum, h), level.parent, children, *others, whole=True)
    rows = *vectors, *into
    _launch(_attend_backward, len(query), size, rows, children, weighted, *attention, level.counts)


def _launch(kernel: Any, n: int, size: int, rows: Tensors, *others: Any, whole: bool = False, **constants: Any) -> None:
    """Run ``n`` programs, for each block of columns, or over ``whole`` rows.

    The kernel's arguments are row tensors, their row strides, and others.
    """
    block = min(ROW_BLOCK if whole else BLOCK, triton.next_power_of_2(size))
    grid = (n,) if whole else (n, triton.cdiv(size, block))
    strides = [tensor.stride(0) for tensor in rows]
    aligned = all(
        tensor.data_ptr() % 16 == 0 and stride * tensor.element_size() % 16 == 0
        for tensor, stride in zip(rows, strides, strict=True)
    )
    warps = max(1, block // COLUMNS_OF_WARP)
    kernel[grid](
        *rows,
        *strides,
        *others,
        size=size,
        block=block,
        aligned=aligned and size % 16 == 0,
        **constants,
        num_warps=warps,
    )


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile a function as a kernel, specialised for types and constants only."""
    parameters = inspect.signature(function).parameters.values()
    return triton.jit(function, do_not_specialize=[p.name for p in parameters if p.annotation is not tl.constexpr])


@triton.jit
def _place(size: tl.constexpr, width: tl.constexpr):
    """The program's node and ``width`` columns, and which of these there are."""
    node = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * width + tl.arange(0, width)
    return node, column, column < size


@triton.jit
def _next(edge, counts, n_nodes):
    """The edge to the next child, where it stands how many nodes have one, and that number."""
    return edge + n_nodes, counts + 1, tl.load(counts + 1)


@triton.jit
def _row(pointer, row, stride, aligned: tl.constexpr):
    start = pointer + row * stride
    if aligned:
        start = tl.multiple_of(start, 16)
    return start


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _state(c, o):
    """The state from the cell and the activation of o."""
    return o - 2 * o * _sigmoid(c)


@triton.jit
def _close_node(at_gates, at_c, at_d_h, at_d_c, at_d_gates, inside, size: tl.constexpr, dtype: tl.constexpr):
    """Gradients of the pre-activations of i, o, s, and the full gradient of the cell, which is returned too."""
    i = tl.load(at_gates, inside).to(dtype)
    o = tl.load(at_gates + size, inside).to(dtype)
    s = tl.load(at_gates + 2 * size, inside).to(dtype)
    cell = tl.load(at_c, inside)
    dh = tl.load(at_d_h, inside).to(dtype)
    dc = tl.load(at_d_c, inside)
    t = _sigmoid(cell)
    dc -= 2 * dh * o * t * (1 - t)
    d_i, d_o, d_s = dc * (4 * s - 2) * i * (1 - i), dh * (1 - 2 * t) * o * (1 - o), 4 * dc * i * s * (1 - s)
    tl.store(at_d_c, dc, inside)
    tl.store(at_d_gates, d_i, inside)
    tl.store(at_d_gates + size, d_o, inside)
    tl.store(at_d_gates + 2 * size, d_s, inside)
    return dc


@_kernel
def _open(
    gates, c, h, gates_stride, c_stride, h_stride,
    size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    node, column, inside = _place(size, block)
    dtype: tl.constexpr = c.dtype.element_ty
    at_gates = _row(gates, node, gates_stride, aligned) + column
    at_c = _row(c, node, c_stride, aligned) + column
    i = _sigmoid(tl.load(at_gates, inside).to(dtype))
    o = _sigmoid(tl.load(at_gates + size, inside).to(dtype))
    s = _sigmoid(tl.load(at_gates + 2 * size, inside).to(dtype))
    tl.store(at_gates, i, inside)
    tl.store(at_gates + size, o, inside)
    tl.store(at_gates + 2 * size, s, inside)
    cell = tl.load(at_c, inside) + 4 * i * s - 2 * i
    tl.store(at_c, cell, inside)
    tl.store(_row(h, node, h_stride, aligned) + column, _state(cell, o), inside)


@triton.jit
def _pair_gate(at_left, at_right, at_gates, inside, dtype: tl.constexpr):
    """Compute a gate from the sum of what both children sent, and store it."""
    total = tl.load(at_left, inside).to(dtype) + tl.load(at_right, inside).to(dtype)
    gate = _sigmoid(total)
    tl.store(at_gates, gate, inside)
    return gate


@_kernel
def _open_pairs(
    sent, c, gates, cells, h, sent_stride, c_stride, gates_stride, cells_stride, h_stride, children,
    size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    node, column, inside = _place(size, block)
    dtype: tl.constexpr = c.dtype.element_ty
    left = tl.load(children + 2 * node)
    right = tl.load(children + 2 * node + 1)
    at_left = _row(sent, left, sent_stride, aligned) + column
    at_right = _row(sent, right, sent_stride, aligned) + column
    at_gates = _row(gates, node, gates_stride, aligned) + column
    i = _pair_gate(at_left, at_right, at_gates, inside, dtype)
    o = _pair_gate(at_left + size, at_right + size, at_gates + size, inside, dtype)
    s = _pair_gate(at_left + 2 * size, at_right + 2 * size, at_gates + 2 * size, inside, dtype)
    f_left = _pair_gate(at_left + 3 * size, at_right + 3 * size, at_gates + 3 * size, inside, dtype)
    f_right = _pair_gate(at_left + 4 * size, at_right + 4 * size, at_gates + 4 * size, inside, dtype)
    cell = 4 * i * s - 2 * i
    cell += f_left * tl.load(_row(c, left, c_stride, aligned) + column, inside)
    cell += f_right * tl.load(_row(c, right, c_stride, aligned) + column, inside)
    tl.store(_row(cells, node, cells_stride, aligned) + column, cell, inside)
    tl.store(_row(h, node, h_stride, aligned) + column, _state(cell, o), inside)


@_kernel
def _close(
    gates, c, d_h, d_c, d_gates, gates_stride, c_stride, d_h_stride, d_c_stride, d_gates_stride,
    size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    node, column, inside = _place(size, block)
    dtype: tl.constexpr = c.dtype.element_ty
    at_gates = _row(gates, node, gates_stride, aligned) + column
    at_d_gates = _row(d_gates, node, d_gates_stride, aligned) + column
    at_d_c = _row(d_c, node, d_c_stride, aligned) + column
    at_c = _row(c, node, c_stride, aligned) + column
    at_d_h = _row(d_h, node, d_h_stride, aligned) + column
    _close_node(at_gates, at_c, at_d_h, at_d_c, at_d_gates, inside, size, dtype)


@_kernel
def _close_pairs(
    c, gates, cells, d_h, d_c, d_gates, below,
    c_stride, gates_stride, cells_stride, d_h_stride, d_c_stride, d_gates_stride, below_stride, children,
    size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    node, column, inside = _place(size, block)
    dtype: tl.constexpr = c.dtype.element_ty
    at_gates = _row(gates, node, gates_stride, aligned) + column
    at_d_gates = _row(d_gates, node, d_gates_stride, aligned) + column
    at_d_c = _row(d_c, node, d_c_stride, aligned) + column
    at_c = _row(cells, node, cells_stride, aligned) + column
    at_d_h = _row(d_h, node, d_h_stride, aligned) + column
    dc = _close_node(at_gates, at_c, at_d_h, at_d_c, at_d_gates, inside, size, dtype)
    for side in tl.static_range(2):
        f = tl.load(at_gates + (3 + side) * size, inside).to(dtype)
        child = tl.load(children + 2 * node + side)
        c_child = tl.load(_row(c, child, c_stride, aligned) + column, inside)
        tl.store(at_d_gates + (3 + side) * size, dc * c_child * f * (1 - f), inside)
        tl.store(_row(below, node, below_stride, aligned) + side * size + column, dc * f, inside)


@_kernel
def _sum(
    sent, own_forget, h, c, forget, h_sum, c_sum,
    sent_stride, own_forget_stride, h_stride, c_stride, forget_stride, h_sum_stride, c_sum_stride,
    children, weight, counts, size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    node, column, inside = _place(size, block)
    dtype: tl.constexpr = c.dtype.element_ty
    own = tl.load(_row(own_forget, node, own_forget_stride, aligned) + column, inside).to(dtype)
    states = tl.zeros([block], dtype)
    cells = tl.zeros([block], dtype)
    edge = node
    n_nodes = tl.load(counts)
    while node < n_nodes:
        child = tl.load(children + edge)
        f = _sigmoid(tl.load(_row(sent, child, sent_stride, aligned) + column, inside).to(dtype) + own)
        tl.store(_row(forget, edge, forget_stride, aligned) + column, f, inside)
        cells += f * tl.load(_row(c, child, c_stride, aligned) + column, inside)
        state = tl.load(_row(h, child, h_stride, aligned) + column, inside).to(dtype)
        if weight is not None:
            state *= tl.load(weight + edge)
        states += state
        edge, counts, n_nodes = _next(edge, counts, n_nodes)
    tl.store(_row(h_sum, node, h_sum_stride, aligned) + column, states, inside)
    tl.store(_row(c_sum, node, c_sum_stride, aligned) + column, cells, inside)


@_kernel
def _spread(
    forget, c, d_h_sum, d_c, below_h, below_c, d_forget, d_own_forget,
    forget_stride, c_stride, d_h_sum_stride, d_c_stride, below_h_stride, below_c_stride, d_forget_stride,
    d_own_forget_stride, children, weight, counts, size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    node, column, inside = _place(size, block)
    dtype: tl.constexpr = c.dtype.element_ty
    dh = tl.load(_row(d_h_sum, node, d_h_sum_stride, aligned) + column, inside).to(dtype)
    dc = tl.load(_row(d_c, node, d_c_stride, aligned) + column, inside)
    total = tl.zeros([block], dtype)
    edge = node
    n_nodes = tl.load(counts)
    while node < n_nodes:
        f = tl.load(_row(forget, edge, forget_stride, aligned) + column, inside).to(dtype)
        c_child = tl.load(_row(c, tl.load(children + edge), c_stride, aligned) + column, inside)
        d_f = dc * c_child * f * (1 - f)
        total += d_f
        tl.store(_row(d_forget, edge, d_forget_stride, aligned) + column, d_f, inside)
        tl.store(_row(below_c, edge, below_c_stride, aligned) + column, dc * f, inside)
        d_state = dh
        if weight is not None:
            d_state *= tl.load(weight + edge)
        tl.store(_row(below_h, edge, below_h_stride, aligned) + column, d_state, inside)
        edge, counts, n_nodes = _next(edge, counts, n_nodes)
    tl.store(_row(d_own_forget, node, d_own_forget_stride, aligned) + column, total, inside)


@_kernel
def _compare(
    query, key, query_stride, key_stride, parent, children, weight, cosine, query_scale, key_scale,
    epsilon: tl.constexpr, size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    edge = tl.program_id(0).to(tl.int64)
    dtype: tl.constexpr = weight.dtype.element_ty
    at_query = _row(query, tl.load(parent + edge), query_stride, aligned)
    at_key = _row(key, tl.load(children + edge), key_stride, aligned)
    products = tl.zeros([block], dtype)
    query_squares = tl.zeros([block], dtype)
    key_squares = tl.zeros([block], dtype)
    for start in range(0, size, block):
        column = start + tl.arange(0, block)
        q = tl.load(at_query + column, column < size, other=0).to(dtype)
        k = tl.load(at_key + column, column < size, other=0).to(dtype)
        products += q * k
        query_squares += q * q
        key_squares += k * k
    of_query = tl.rsqrt(tl.sum(query_squares) + epsilon)
    of_key = tl.rsqrt(tl.sum(key_squares) + epsilon)
    value = tl.sum(products) * of_query * of_key
    tl.store(weight + edge, tl.exp(value))
    tl.store(cosine + edge, value)
    tl.store(query_scale + edge, of_query)
    tl.store(key_scale + edge, of_key)


@_kernel
def _normalise(weight, counts, block: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * block
    node = first + tl.arange(0, block)
    total = tl.zeros([block], weight.dtype.element_ty)
    at_count = counts
    at_weight = weight + node
    n_nodes = tl.load(at_count)
    while first < n_nodes:
        total += tl.load(at_weight, node < n_nodes, other=0)
        at_weight, at_count, n_nodes = _next(at_weight, at_count, n_nodes)
    at_weight = weight + node
    n_nodes = tl.load(counts)
    while first < n_nodes:
        tl.store(at_weight, tl.load(at_weight, node < n_nodes) / total, node < n_nodes)
        at_weight, counts, n_nodes = _next(at_weight, counts, n_nodes)


@_kernel
def _weight_gradient(
    d_h_sum, h, d_h_sum_stride, h_stride, parent, children, weight, d_weight, d_weight_stride, weighted,
    size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    edge = tl.program_id(0).to(tl.int64)
    dtype: tl.constexpr = weight.dtype.element_ty
    at_d_h_sum = _row(d_h_sum, tl.load(parent + edge), d_h_sum_stride, aligned)
    at_h = _row(h, tl.load(children + edge), h_stride, aligned)
    products = tl.zeros([block], dtype)
    for start in range(0, size, block):
        column = start + tl.arange(0, block)
        dh = tl.load(at_d_h_sum + column, column < size, other=0).to(dtype)
        products += dh * tl.load(at_h + column, column < size, other=0).to(dtype)
    gradient = tl.load(d_weight + edge * d_weight_stride) + tl.sum(products)
    tl.store(weighted + edge, tl.load(weight + edge) * gradient)


@_kernel
def _attend_backward(
    query, key, d_query, d_key, query_stride, key_stride, d_query_stride, d_key_stride,
    children, weighted, weight, cosine, query_scale, key_scale, counts,
    size: tl.constexpr, block: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    node, column, inside = _place(size, block)
    dtype: tl.constexpr = weight.dtype.element_ty
    total = tl.zeros([], dtype)
    at_count = counts
    edge = node
    n_nodes = tl.load(at_count)
    while node < n_nodes:
        total += tl.load(weighted + edge)
        edge, at_count, n_nodes = _next(edge, at_count, n_nodes)
    q = tl.load(_row(query, node, query_stride, aligned) + column, inside).to(dtype)
    d_q = tl.zeros([block], dtype)
    of_query = tl.load(query_scale + node)
    edge = node
    n_nodes = tl.load(counts)
    while node < n_nodes:
        k = tl.load(_row(key, tl.load(children + edge), key_stride, aligned) + column, inside).to(dtype)
        of_key = tl.load(key_scale + edge)
        d_cosine = tl.load(weighted + edge) - tl.load(weight + edge) * total
        d_product = d_cosine * of_query * of_key
        along = d_cosine * tl.load(cosine + edge)
        tl.store(
            _row(d_key, edge, d_key_stride, aligned) + column, q * d_product - k * (along * of_key * of_key), inside
        )
        d_q += k * d_product - q * (along * of_query * of_query)
        edge, counts, n_nodes = _next(edge, counts, n_nodes)
    tl.store(_row(d_query, node, d_query_stride, aligned) + column, d_q, inside)
