"""Recurrent networks over sentences in packed order, for the CPU: forward and backward, and without a backward pass.

They have the parameters of PyTorch's modules, which on the CPU spend a third of their time accumulating the gradients
of the recurrent weights step by step. Here these are one product over all steps. Whatever depends only on the word is
computed once for each distinct word.

A cell is one step, forward and backward. With ``tanh(x) = 1 - 2 sigmoid(-2x)`` every gate is a sigmoid; see ``steps``
for the weights that are folded for that, and for cells stored as ``C = -2c``. Products are in the dtype of storage,
possibly half precision; what goes from step to step and all arithmetic have at least single precision. Rows of a step
that begin a sentence come last and start from zeros: they have no product with a state.

Without a backward pass (``run_inference``) nothing is kept, weights are prepared once (``runtime.products``), and only
products may have less precision than the word vectors: for sigmoids, single precision is also faster.

Shapes: m words, U distinct ones, B sentences, sorted by decreasing length; H hidden size of a direction, D directions,
X input size; R rows of a step, the first ``old`` of which go on from the step before; G gates; P parts of H dimensions
that go from step to step, the first of which is the state.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import repeat
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.batch import Packing, WordIds
from structviews.batches.trees import blocks
from structviews.kernels import steps
from structviews.runtime.products import ROWS, Product, prepared

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class RecurrentCell(ABC):
    """A cell over one direction of a batch; from the weight of the state, as ``arranged``.

    ``now (B, P H)`` is what goes from step to step, for its shape and dtype.
    """

    module: ClassVar[type[nn.GRU] | type[nn.LSTM]]  # PyTorch's, with the parameters
    built_in: ClassVar[bool] = True  # whether that module computes the same
    gates: ClassVar[int]  # G
    bare: ClassVar[int] = 0  # how many of the gates, the first ones, get only a bias from the word
    carried: ClassVar[int] = 1  # P

    def __init__(self, w_state: Tensor, now: Tensor):
        self.size = w_state.shape[1]
        self.w_state = w_state
        self.one = now.new_ones(())
        # Memory for gates and their gradients in the dtype of arithmetic, if they are stored in another.
        half = w_state.dtype != now.dtype
        self._buffers = now.new_empty(2, len(now), self.gates * self.size) if half else None

    @staticmethod
    def arranged(w_word: Tensor, w_state: Tensor, b_word: Tensor, b_state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights and biases of a direction of the module: of the word, of the state, and the biases of all gates."""
        return w_word, w_state, b_word + b_state

    @abstractmethod
    def open(self, stored: Tensor, before: Tensor, now: Tensor, old: int) -> None:
        """One step.

        Args:
            stored: ``(R, G H)`` what words add to the gates, that of the tanh folded; overwritten with activations.
            before: ``(R, P H)`` what came from the step before.
            now: ``(R, P H)`` the same in the dtype of arithmetic; overwritten with what goes on.
            old: how many of the rows go on.
        """

    @abstractmethod
    def close(self, stored: Tensor, before: Tensor, d_now: Tensor, d_stored: Tensor, old: int) -> None:
        """The backward pass of ``open``: ``d_now`` is overwritten with the gradient of what came from the step before,
        and ``d_stored`` receives that of the unfolded pre-activations.
        """

    def gradient(self, stored: Tensor, before: Tensor, d_stored: Tensor) -> Tensor:
        """Gradient of ``w_state``, from the arguments of ``close`` for all steps together."""
        return d_stored.T @ before[:, : self.size]

    def _working(self, stored: Tensor) -> Tensor:
        """Gates in the dtype of arithmetic: ``stored`` itself, or a copy."""
        return stored if self._buffers is None else self._buffers[0, : len(stored)].copy_(stored)

    def _gradients(self, d_stored: Tensor) -> Tensor:
        """Memory for the gradients of gates in the dtype of arithmetic: ``d_stored`` itself if it has that."""
        return d_stored if self._buffers is None else self._buffers[1, : len(d_stored)]


class Gru(RecurrentCell):
    """GRU whose reset gate acts after the product with the state, as in PyTorch and cuDNN.

    The gates are in the order q, r, z, n: the first three depend on the state, the last three on the word.

        r = sigmoid(Wr x + Ur h)       q = Un h + b       n = tanh(Wn x + r q)
        z = sigmoid(Wz x + Uz h)       h' = (1 - z) n + z h
    """

    module = nn.GRU
    gates = 4
    bare = 1

    @staticmethod
    def arranged(w_word: Tensor, w_state: Tensor, b_word: Tensor, b_state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size, none = w_state.shape[1], b_word.new_zeros(w_state.shape[1])
        return w_word, w_state.roll(size, 0), torch.cat([b_state.roll(size), none]) + torch.cat([none, b_word])

    def open(self, stored: Tensor, before: Tensor, now: Tensor, old: int) -> None:
        stored[:old, : 3 * self.size].addmm_(before[:old], self.w_state.T)
        gates = self._working(stored)
        q, r, z, n = gates.chunk(4, dim=1)
        gates[:, self.size : 3 * self.size].sigmoid_()
        n.addcmul_(r, q, value=steps.FOLD).sigmoid_()
        self._move(z, n, now)
        stored.copy_(gates)  # no-op if `gates` is `stored` itself

    def _move(self, z: Tensor, n: Tensor, now: Tensor) -> None:
        """From the sigmoid of the folded n its tanh, and with it the next state."""
        torch.add(self.one, n, alpha=-2, out=n)
        torch.lerp(n, now, z, out=now)

    def close(self, stored: Tensor, before: Tensor, d_now: Tensor, d_stored: Tensor, old: int) -> None:
        gates, d_gates = self._working(stored), self._gradients(d_stored)
        q, r, z, n = gates.chunk(4, dim=1)
        d_q, d_r, d_z, d_n = d_gates.chunk(4, dim=1)
        self._unmove(z, n, before.to(d_now.dtype), d_now, d_z, d_n)
        _sigmoid_backward(torch.mul(d_n, q, out=d_r), r, grad_input=d_r)
        torch.mul(d_n, r, out=d_q)
        d_now.mul_(z)
        d_stored.copy_(d_gates)
        d_now[:old].add_(torch.mm(d_stored[:old, : 3 * self.size], self.w_state))

    def _unmove(self, z: Tensor, n: Tensor, before: Tensor, d_now: Tensor, d_z: Tensor, d_n: Tensor) -> None:
        """The gradients of z and n."""
        _sigmoid_backward(torch.sub(before, n, out=d_z).mul_(d_now), z, grad_input=d_z)
        _tanh_backward(torch.addcmul(d_now, d_now, z, value=-1, out=d_n), n, grad_input=d_n)

    def gradient(self, stored: Tensor, before: Tensor, d_stored: Tensor) -> Tensor:
        return d_stored[:, : 3 * self.size].T @ before


class GruResetBefore(Gru):
    """GRU whose reset gate acts before the product with the state (Cho et al. 2014; TensorFlow's ``GRUCell``).

    The gates are in the order r, z, n:

        r = sigmoid(Wr x + Ur h)       n = tanh(Wn x + Un (r h))
        z = sigmoid(Wz x + Uz h)       h' = (1 - z) n + z h
    """

    built_in = False
    gates = 3
    bare = 0
    arranged = staticmethod(RecurrentCell.arranged)

    def __init__(self, w_state: Tensor, now: Tensor):
        super().__init__(w_state, now)
        self.of_r_and_z, self.of_n = w_state.split((2 * self.size, self.size))

    def open(self, stored: Tensor, before: Tensor, now: Tensor, old: int) -> None:
        stored[:old, : 2 * self.size].addmm_(before[:old], self.of_r_and_z.T)
        gates = self._working(stored)
        r, z, n = gates.chunk(3, dim=1)
        gates[:, : 2 * self.size].sigmoid_()
        reset = (r[:old] * before[:old]).to(stored.dtype)
        n[:old].add_(torch.mm(reset, self.of_n.T), alpha=steps.FOLD)
        n.sigmoid_()
        self._move(z, n, now)
        stored.copy_(gates)

    def close(self, stored: Tensor, before: Tensor, d_now: Tensor, d_stored: Tensor, old: int) -> None:
        gates, d_gates, h = self._working(stored), self._gradients(d_stored), before.to(d_now.dtype)
        r, z, n = gates.chunk(3, dim=1)
        d_r, d_z, d_n = d_gates.chunk(3, dim=1)
        self._unmove(z, n, h, d_now, d_z, d_n)
        d_reset = torch.mm(d_n[:old].to(stored.dtype), self.of_n).to(d_now.dtype)
        _sigmoid_backward(torch.mul(d_reset, h[:old], out=d_r[:old]), r[:old], grad_input=d_r[:old])
        d_r[old:] = 0
        d_now.mul_(z)[:old].addcmul_(d_reset, r[:old])
        d_stored.copy_(d_gates)
        d_now[:old].add_(torch.mm(d_stored[:old, : 2 * self.size], self.of_r_and_z))

    def gradient(self, stored: Tensor, before: Tensor, d_stored: Tensor) -> Tensor:
        d_r_and_z, d_n = d_stored.split((2 * self.size, self.size), dim=1)
        return torch.cat([d_r_and_z.T @ before, d_n.T @ (stored[:, : self.size] * before)])


class Lstm(RecurrentCell):
    """LSTM (Gers et al. 2000), without peepholes.

    The gates are in the order i, f, s, o; what goes from step to step is the state and ``C = -2c``.

        i, f, o = sigmoid(W x + U h)       g = tanh(Wg x + Ug h) = 1 - 2s
        c' = f c + i g                     h' = o tanh(c')
    """

    module = nn.LSTM
    gates = 4
    carried = 2

    def __init__(self, w_state: Tensor, now: Tensor):
        super().__init__(w_state, now)
        self.folded = steps.folded(w_state, self.size)

    def open(self, stored: Tensor, before: Tensor, now: Tensor, old: int) -> None:
        h, c = now.chunk(2, dim=1)
        stored[:old].addmm_(before[:old, : self.size], self.folded.T)
        gates = self._working(stored).sigmoid_()
        self._advance(gates, c)
        o = gates[:, 3 * self.size :]
        torch.addcmul(o, o, c.sigmoid(), value=-2, out=h)
        stored.copy_(gates)

    def _advance(self, gates: Tensor, c: Tensor) -> Tensor:
        """The next cells, in place."""
        i, f, s, _ = gates.chunk(4, dim=1)
        return c.mul_(f).addcmul_(i, s, value=4).sub_(i, alpha=2)

    def close(self, stored: Tensor, before: Tensor, d_now: Tensor, d_stored: Tensor, old: int) -> None:
        gates, d_gates = self._working(stored), self._gradients(d_stored)
        i, f, s, o = gates.chunk(4, dim=1)
        d_i, d_f, d_s, d_o = d_gates.chunk(4, dim=1)
        dh, dc = d_now.chunk(2, dim=1)
        c_before = before[:, self.size :].to(d_now.dtype)
        t = self._advance(gates, c_before.clone()).sigmoid_()
        # h' = o (1 - 2t)
        _sigmoid_backward(torch.mul(dh, o, out=d_s), t, grad_input=d_s)
        dc.sub_(d_s, alpha=2)
        _sigmoid_backward(torch.addcmul(dh, dh, t, value=-2, out=d_o), o, grad_input=d_o)
        # C' = f C + 4 i s - 2 i
        _sigmoid_backward(torch.mul(dc, i, out=d_s), s, grad_input=d_s)
        d_s.mul_(4 * steps.FOLD)
        _sigmoid_backward(torch.mul(dc, c_before, out=d_f), f, grad_input=d_f)
        _sigmoid_backward(torch.mul(dc, s, out=d_i).mul_(4).sub_(dc, alpha=2), i, grad_input=d_i)
        dc.mul_(f)
        d_stored.copy_(d_gates)
        dh.zero_()[:old].add_(torch.mm(d_stored[:old], self.w_state))


def run(
    network: nn.RNNBase, kind: type[RecurrentCell], vectors: Tensor, ids: WordIds, packing: Packing
) -> tuple[Tensor, Tensor]:
    """States ``(m, D H)`` in packed order and final states ``(D, B, H)``, as from PyTorch's modules of one layer.

    ``vectors (U, X)`` are those of the distinct words. Under autocast, the states have its dtype and the final states
    that of the vectors.
    """
    dtype = steps.product_dtype(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        x, results = vectors.to(dtype), []
        for direction, parameters in enumerate(network.all_weights):
            weights = (weight.to(dtype) for weight in kind.arranged(*parameters))
            results.append(_Direction.apply(kind, ids, packing, bool(direction), x, *weights))
        states, final = zip(*results, strict=True)
        return torch.cat(states, dim=1), torch.stack(final).to(vectors.dtype)


class _Direction(steps.Function):
    """One direction over a packed batch; all tensors have the dtype of the products.

    The weights are as the cell has arranged them. Returns the states ``(m, H)``, and the final states ``(B, H)`` in
    the dtype of the arithmetic.

    The sentences of a step are a prefix of the batch. Those that also took part in the previous step of
    this direction have a state (``[:old]``); the others start from zeros.
    """

    @staticmethod
    def forward(
        ctx: Any, kind: type[RecurrentCell], ids: WordIds, packing: Packing, backwards: bool, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        x, w_word, w_state, bias = tensors
        size, sizes, dtype = w_state.shape[1], packing.sizes.tolist(), torch.promote_types(x.dtype, torch.float32)
        bare = kind.bare * size
        of_words = steps.multiply(x, steps.folded(w_word, size).T, steps.folded(bias[bare:], size))
        if bare:
            of_words = torch.cat([bias[:bare].expand(len(x), bare), of_words], dim=1)
        gates = of_words.index_select(0, ids.inverse.index_select(0, packing.order))
        previous, states = (gates.new_empty(len(gates), n * size) for n in (kind.carried, 1))
        carried = x.new_zeros(sizes[0], kind.carried * size, dtype=dtype)
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
        d_carried = x.new_zeros(sizes[0], previous.shape[1], dtype=torch.promote_types(x.dtype, torch.float32))
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


class _InferenceCell(ABC):
    """A direction of a cell with its products; the gates are in PyTorch's order, with the tanh's folded."""

    def __init__(self, weights: Sequence[Tensor], precision: str):
        w_word, w_state, b_word, b_state = weights
        self.size = w_state.shape[1]
        self.one = w_word.new_ones(())
        bias = b_word + b_state - self._prepare(w_state, b_state, precision)
        self.of_word = Product(steps.folded(w_word, self.size), steps.folded(bias, self.size), precision)

    @abstractmethod
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        """Prepare the products of states; return what of their biases stays with them, the other is the word's."""

    @abstractmethod
    def step(self, gates: Tensor, state: Tensor) -> None:
        """One step: from what words add to the gates ``(rows, G H)``, the state ``(rows, P H)`` is overwritten."""


class _GruInference(_InferenceCell):
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        stays = b_state.clone()
        stays[: 2 * self.size] = 0  # the bias of n is multiplied by r
        self.of_state = Product(w_state, stays, precision)
        return stays

    def step(self, gates: Tensor, state: Tensor) -> None:
        sizes = 2 * self.size, self.size
        r_and_z, n = gates.split_with_sizes(sizes, dim=1)
        of_r_and_z, of_n = self.of_state(state).to(state.dtype).split_with_sizes(sizes, dim=1)
        r, z = r_and_z.add_(of_r_and_z).sigmoid_().chunk(2, dim=1)
        n.addcmul_(r, of_n, value=steps.FOLD).sigmoid_()
        torch.lerp(torch.add(self.one, n, alpha=-2, out=n), state, z, out=state)


class _GruResetBeforeInference(_InferenceCell):
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        weights = w_state.split((2 * self.size, self.size))
        self.of_r_and_z, self.of_n = (Product(weight, None, precision) for weight in weights)
        return torch.zeros_like(b_state)

    def step(self, gates: Tensor, state: Tensor) -> None:
        r_and_z, n = gates.split_with_sizes((2 * self.size, self.size), dim=1)
        r, z = r_and_z.add_(self.of_r_and_z(state)).sigmoid_().chunk(2, dim=1)
        n.add_(self.of_n(r.mul_(state)), alpha=steps.FOLD).sigmoid_()
        torch.lerp(torch.add(self.one, n, alpha=-2, out=n), state, z, out=state)


class _LstmInference(_InferenceCell):
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        self.of_state = Product(steps.folded(w_state, self.size), None, precision)
        return torch.zeros_like(b_state)

    def step(self, gates: Tensor, state: Tensor) -> None:
        h, c = state.chunk(2, dim=1)
        i, f, s, o = gates.add_(self.of_state(h)).sigmoid_().chunk(4, dim=1)
        c.mul_(f).addcmul_(i, s, value=4).sub_(i, alpha=2)
        torch.addcmul(o, o, c.sigmoid(), value=-2, out=h)


_INFERENCE: dict[type[RecurrentCell], type[_InferenceCell]] = {
    Gru: _GruInference,
    GruResetBefore: _GruResetBeforeInference,
    Lstm: _LstmInference,
}


@torch.no_grad()
def run_inference(
    network: nn.RNNBase, kind: type[RecurrentCell], vectors: Tensor, ids: WordIds, packing: Packing, states: bool
) -> tuple[Tensor, Tensor | None]:
    """Final states ``(B, D H)``; on request also the states ``(n, D H)``; both in the order of the text.

    The network has one layer; ``vectors (U, X)`` are those of the distinct words. Under autocast, products are in bf16.
    """
    precision = "bf16" if torch.is_autocast_enabled("cpu") else "fp32"
    words, sizes = ids.inverse.index_select(0, packing.order), packing.sizes.tolist()
    finals, outputs = [], []
    with torch.autocast("cpu", enabled=False):
        new = _INFERENCE[kind]
        cells = prepared(network, precision, lambda: [new(each, precision) for each in network.all_weights])
        for direction, cell in enumerate(cells):
            of_words = cell.of_word(vectors)
            state = vectors.new_zeros(sizes[0], kind.carried * cell.size)
            every = vectors.new_empty(len(words) if states else 0, cell.size)
            stop = len(words) if direction else 0
            for n in reversed(sizes) if direction else sizes:
                start, stop = (stop - n, stop - n) if direction else (stop, stop + n)
                for block in blocks(0, n, ROWS):
                    rows = words[start + block.start : start + block.stop]
                    cell.step(of_words.index_select(0, rows).to(state.dtype), state[block])
                if states:
                    every[start : start + n] = state[:n, : cell.size]
            finals.append(state[:, : cell.size])
            outputs.append(every)
    final = torch.cat(finals, dim=1).index_select(0, packing.sentence)
    if not states:
        return final, None
    in_steps = torch.cat(outputs, dim=1)
    return final, torch.empty_like(in_steps).index_copy_(0, packing.order, in_steps)
