"""Recurrent networks over sentences in packed order, forward and backward, for the CPU.

They have the parameters of PyTorch's modules, which on the CPU spend a third of their time accumulating the gradients
of the recurrent weights step by step. Here these are one product over all steps. ``recurrent_cells`` has the equations.

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

from structviews.batches.batch import Packing
from structviews.batches.word_ids import WordIds
from structviews.kernels import steps
from structviews.kernels.recurrent_cells import RecurrentCell


def run(
    network: nn.RNNBase, kind: type[RecurrentCell], vectors: Tensor, ids: WordIds, packing: Packing
) -> tuple[Tensor, Tensor]:
    """States ``(m, D H)`` in packed order and final states ``(D, B, H)``, as from PyTorch's modules.

    Under autocast, the states have its dtype and the final states that of the vectors.

    Args:
        network: the parameters.
        kind: the cell.
        vectors: ``(U, X)`` vectors of the distinct words.
        ids: the words in text order.
        packing: the packed order.

    Raises:
        ValueError: if the network has several layers.
    """
    check_layers(network)
    dtype = steps.product_dtype(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        x, results = vectors.to(dtype), []
        for direction, parameters in enumerate(network.all_weights):
            weights = (weight.to(dtype) for weight in kind.arranged(*parameters))
            results.append(_Direction.apply(kind, ids, packing, bool(direction), x, *weights))
        states, final = zip(*results, strict=True)
        return torch.cat(states, dim=1), torch.stack(final).to(vectors.dtype)


def check_layers(network: nn.RNNBase) -> None:
    """Raise ValueError if the network has several layers."""
    if network.num_layers != 1:
        raise ValueError(f"a network with {network.num_layers} layers: only one layer is supported")


class _Direction(torch.autograd.Function):
    """One direction over a packed batch; all tensors have the dtype of the products.

    The weights are as the cell has arranged them. Returns the states ``(m, H)``, and the final states ``(B, H)`` in
    the dtype of the arithmetic.

    The sentences of a step are a prefix of the batch. Those that also took part in the previous step of
    this direction have a state (``[:old]``); the others start from zeros.
    """

    apply: ClassVar[Callable[..., tuple[Tensor, Tensor]]]

    @staticmethod
    def forward(
        ctx: Any,
        kind: type[RecurrentCell],
        ids: WordIds,
        packing: Packing,
        backwards: bool,
        x: Tensor,
        w_word: Tensor,
        w_state: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size, sizes, dtype = w_state.shape[1], packing.sizes.tolist(), steps.working_dtype(x.dtype)
        bare = kind.bare * size
        of_words = steps.multiply(x, steps.folded(w_word, size).T, steps.folded(bias[bare:], size))
        if bare:
            of_words = torch.cat([bias[:bare].expand(len(x), bare), of_words], dim=1)
        gates = of_words.index_select(0, ids.inverse.index_select(0, packing.order))
        previous, states = (gates.new_empty(len(gates), parts * size) for parts in (kind.parts, 1))
        carried = x.new_zeros(sizes[0], kind.parts * size, dtype=dtype)
        cell, old = kind(w_state, carried), 0
        for stored, before, result in _by_step(sizes, backwards, gates, previous, states):
            now = carried[: len(before)]
            before.copy_(now)
            cell.open(stored, before, now, old)
            result.copy_(now[:, :size])
            old = len(before)
        ctx.kind, ctx.ids, ctx.rank, ctx.sizes, ctx.backwards = kind, ids, packing.rank, sizes, backwards
        ctx.save_for_backward(x, w_word, w_state, gates, previous)
        ctx.set_materialize_grads(False)
        return states, carried[:, :size]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor | None, d_final: Tensor | None) -> Any:
        x, w_word, w_state, gates, previous = ctx.saved_tensors
        size, sizes = w_state.shape[1], ctx.sizes
        d_gates = torch.empty_like(gates)
        d_carried = x.new_zeros(sizes[0], previous.shape[1], dtype=steps.working_dtype(x.dtype))
        if d_final is not None:
            d_carried[:, :size] = d_final
        cell = ctx.kind(w_state, d_carried)
        parts = _by_step(sizes, not ctx.backwards, gates, previous, d_gates)
        d_results = repeat((None,)) if d_states is None else _by_step(sizes, not ctx.backwards, d_states)
        order = sizes if ctx.backwards else sizes[::-1]
        for (stored, before, d_stored), (d_result,), old in zip(parts, d_results, [*order[1:], 0], strict=False):
            d_now = d_carried[: len(before)]
            if d_result is not None:
                d_now[:, :size] += d_result
            cell.close(stored, before, d_now, d_stored, old)
        sums = steps.sums_by_group(d_gates, ctx.rank.index_select(0, ctx.ids.places), ctx.ids.starts)
        by_word = sums[:, ctx.kind.bare * size :]
        d_x = steps.multiply(by_word, w_word) if ctx.needs_input_grad[4] else None
        d_state = cell.gradient(gates, previous, d_gates)
        return None, None, None, None, d_x, by_word.T @ x, d_state, sums.sum(0)


def _by_step(sizes: Sequence[int], backwards: bool, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The rows of every tensor by step, from the first step to the last or in reverse."""
    parts = list(zip(*(tensor.split(sizes) for tensor in tensors), strict=True))
    return parts[::-1] if backwards else parts
