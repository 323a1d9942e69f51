"""GRU over sentences in packed order, forward and backward, for the CPU.

It has the parameters of ``nn.GRU``, which on the CPU spends a third of its time accumulating the gradients
of the recurrent weights step by step. Here these are one product over all steps, and with
``tanh(x) = 1 - 2 sigmoid(-2x)`` every gate is a sigmoid.

    r = sigmoid(Wr x + Ur h)       q = Un h + b       n = tanh(Wn x + r q)
    z = sigmoid(Wz x + Uz h)       h' = (1 - z) n + z h

The gates are in the order q, r, z, n: the first three depend on the state, the last three on the word.
Inputs and outputs of matrix products may be stored in half precision; the state passed from step to step
and all arithmetic have at least single precision.

Whatever depends only on the word is computed once for each distinct word.

Shapes: m words, U distinct ones, B sentences, sorted by decreasing length; H hidden size of a direction, D
directions, X input size.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from structviews.batches.batch import Packing
from structviews.batches.word_ids import WordIds
from structviews.kernels import steps

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


def run(gru: nn.GRU, vectors: Tensor, ids: WordIds, packing: Packing) -> tuple[Tensor, Tensor]:
    """States ``(m, D H)`` in packed order and final states ``(D, B, H)``, as from ``nn.GRU``.

    Under autocast, the states have its dtype and the final states that of the vectors.

    Args:
        gru: the parameters.
        vectors: ``(U, X)`` vectors of the distinct words.
        ids: the words in text order.
        packing: the packed order.

    Raises:
        ValueError: if the network has several layers.
    """
    check_layers(gru)
    dtype, size = steps.product_dtype(vectors), gru.hidden_size
    with torch.autocast(vectors.device.type, enabled=False):
        x, results = vectors.to(dtype), []
        for direction, (w_word, w_state, b_word, b_state) in enumerate(gru.all_weights):
            bias = pad(b_state.roll(size), (0, size)) + pad(b_word, (size, 0))
            weights = (weight.to(dtype) for weight in (w_word, w_state.roll(size, 0), bias))
            results.append(_Direction.apply(ids, packing, bool(direction), x, *weights))
        states, final = zip(*results, strict=True)
        return torch.cat(states, dim=1), torch.stack(final).to(vectors.dtype)


def check_layers(gru: nn.GRU) -> None:
    """Raise ValueError if the network has several layers."""
    if gru.num_layers != 1:
        raise ValueError(f"a GRU with {gru.num_layers} layers: only one layer is supported")


class _Direction(torch.autograd.Function):
    """One direction over a packed batch; all tensors have the dtype of the products.

    ``w_word (3H, X)`` is for r, z, n; ``w_state (3H, H)`` for q, r, z; ``bias (4H,)``. Returns the states
    ``(m, H)``, and the final states ``(B, H)`` in the dtype of the arithmetic.

    The sentences of a step are a prefix of the batch. Those that also took part in the previous step of
    this direction have a state (``[:old]``); the others start from zeros.
    """

    apply: ClassVar[Callable[..., tuple[Tensor, Tensor]]]

    @staticmethod
    def forward(
        ctx: Any,
        ids: WordIds,
        packing: Packing,
        backwards: bool,
        x: Tensor,
        w_word: Tensor,
        w_state: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size, sizes, dtype = w_state.shape[1], packing.sizes.tolist(), steps.working_dtype(x.dtype)
        of_words = steps.multiply(x, steps.folded(w_word, size).T, steps.folded(bias[size:], size))
        of_words = torch.cat([bias[:size].expand(len(x), size), of_words], dim=1)
        gates = of_words.index_select(0, ids.inverse.index_select(0, packing.order))
        previous, states = (gates.new_empty(len(gates), size) for _ in range(2))
        final = x.new_zeros(sizes[0], size, dtype=dtype)
        room, old = final.new_empty(sizes[0], 4 * size), 0
        for stored, of_state, before, result in _by_step(
            sizes, backwards, gates, gates[:, : 3 * size], previous, states
        ):
            h = final[: len(before)]
            before.copy_(h)
            of_state[:old].addmm_(before[:old], w_state.T)
            old = len(before)
            active = _working(stored, room)
            _open_gates(active, h)
            result.copy_(h)
            stored.copy_(active)  # no-op if `active` is `stored` itself
        ctx.ids, ctx.rank, ctx.sizes, ctx.backwards = ids, packing.rank, sizes, backwards
        ctx.save_for_backward(x, w_word, w_state, gates, previous)
        ctx.set_materialize_grads(False)
        return states, final

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor | None, d_final: Tensor | None) -> Any:
        x, w_word, w_state, gates, previous = ctx.saved_tensors
        size, dtype = w_state.shape[1], steps.working_dtype(x.dtype)
        d_gates = torch.empty_like(gates)
        above = x.new_zeros(ctx.sizes[0], size, dtype=dtype)
        room, d_room = above.new_empty(2, len(above), 4 * size)
        if d_final is not None:
            above.copy_(d_final)
        parts = _by_step(ctx.sizes, not ctx.backwards, gates, previous, d_gates, d_gates[:, : 3 * size])
        d_results = repeat((None,)) if d_states is None else _by_step(ctx.sizes, not ctx.backwards, d_states)
        order = ctx.sizes if ctx.backwards else ctx.sizes[::-1]
        for (stored, before, d_stored, d_of_state), (d_result,), old in zip(
            parts, d_results, [*order[1:], 0], strict=False
        ):
            dh = above[: len(before)]
            if d_result is not None:
                dh += d_result
            d_sums = d_stored if d_stored.dtype == dtype else d_room[: len(dh)]
            _close_gates(_working(stored, room), before.to(dtype), dh, d_sums)
            d_stored.copy_(d_sums)
            dh[:old].add_(torch.mm(d_of_state[:old], w_state))
        sums = steps.sums_by_group(d_gates, ctx.rank.index_select(0, ctx.ids.places), ctx.ids.starts)
        by_word, by_state = sums[:, size:], d_gates[:, : 3 * size]
        d_x = steps.multiply(by_word, w_word) if ctx.needs_input_grad[3] else None
        return None, None, None, d_x, by_word.T @ x, by_state.T @ previous, sums.sum(0)


def _open_gates(gates: Tensor, h: Tensor) -> None:
    """Turn pre-activations, that of n folded, into activations in place; overwrites ``h`` with the next state."""
    size = h.shape[1]
    q, r, z, n = gates.chunk(4, dim=1)
    gates[:, size : 3 * size].sigmoid_()
    n.addcmul_(r, q, value=steps.FOLD).sigmoid_()
    torch.add(h.new_ones(()), n, alpha=-2, out=n)
    torch.lerp(n, h, z, out=h)


def _close_gates(gates: Tensor, before: Tensor, dh: Tensor, d_gates: Tensor) -> None:
    """The backward pass of ``_open_gates``, with respect to unfolded pre-activations.

    Args:
        gates: ``(rows, 4H)`` activations.
        before: ``(rows, H)`` the previous state.
        dh: ``(rows, H)`` gradient of the next state; overwritten with the part that passes through z.
        d_gates: ``(rows, 4H)`` receives the gradient of the pre-activations.
    """
    q, r, z, n = gates.chunk(4, dim=1)
    d_q, d_r, d_z, d_n = d_gates.chunk(4, dim=1)
    _sigmoid_backward(torch.sub(before, n, out=d_z).mul_(dh), z, grad_input=d_z)
    _tanh_backward(torch.addcmul(dh, dh, z, value=-1, out=d_n), n, grad_input=d_n)
    _sigmoid_backward(torch.mul(d_n, q, out=d_r), r, grad_input=d_r)
    torch.mul(d_n, r, out=d_q)
    dh.mul_(z)


def _by_step(sizes: Sequence[int], backwards: bool, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The rows of every tensor by step, from the first step to the last or in reverse."""
    parts = list(zip(*(tensor.split(sizes) for tensor in tensors), strict=True))
    return parts[::-1] if backwards else parts


def _working(stored: Tensor, room: Tensor) -> Tensor:
    """``stored`` itself if it has the dtype of ``room``, else a copy of it in ``room``."""
    return stored if stored.dtype == room.dtype else room[: len(stored)].copy_(stored)
