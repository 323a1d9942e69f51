"""Recurrent networks over sentences without a backward pass, on the CPU: they keep nothing.

They have the parameters of PyTorch's modules; ``recurrent`` has the equations. Only products may have less
precision than the word vectors: for sigmoids, single precision is also faster.

Shapes: n words, U distinct ones, B sentences, sorted by decreasing length; H hidden size of a direction, D directions,
X input size, P parts of H numbers that go from step to step.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from structviews.batches.batch import Packing, WordIds
from structviews.kernels import steps
from structviews.kernels.recurrent import Gru, GruResetBefore, Lstm, RecurrentCell
from structviews.runtime.products import ROWS, Product, prepared


class _Cell(ABC):
    """A direction of a cell with its products; the gates are in PyTorch's order, with the tanh's folded."""

    carried: ClassVar[int] = 1  # P

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


class _Gru(_Cell):
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


class _GruResetBefore(_Cell):
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        weights = w_state.split((2 * self.size, self.size))
        self.of_r_and_z, self.of_n = (Product(weight, None, precision) for weight in weights)
        return torch.zeros_like(b_state)

    def step(self, gates: Tensor, state: Tensor) -> None:
        r_and_z, n = gates.split_with_sizes((2 * self.size, self.size), dim=1)
        r, z = r_and_z.add_(self.of_r_and_z(state)).sigmoid_().chunk(2, dim=1)
        n.add_(self.of_n(r.mul_(state)), alpha=steps.FOLD).sigmoid_()
        torch.lerp(torch.add(self.one, n, alpha=-2, out=n), state, z, out=state)


class _Lstm(_Cell):
    carried = 2

    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        self.of_state = Product(steps.folded(w_state, self.size), None, precision)
        return torch.zeros_like(b_state)

    def step(self, gates: Tensor, state: Tensor) -> None:
        h, c = state.chunk(2, dim=1)
        i, f, s, o = gates.add_(self.of_state(h)).sigmoid_().chunk(4, dim=1)
        c.mul_(f).addcmul_(i, s, value=4).sub_(i, alpha=2)
        torch.addcmul(o, o, c.sigmoid(), value=-2, out=h)


_CELLS: dict[type[RecurrentCell], type[_Cell]] = {Gru: _Gru, GruResetBefore: _GruResetBefore, Lstm: _Lstm}


@torch.no_grad()
def run(
    network: nn.RNNBase,
    kind: type[RecurrentCell],
    vectors: Tensor,
    ids: WordIds,
    packing: Packing,
    states: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Final states ``(B, D H)``; on request also the states ``(n, D H)``; both in the order of the text.

    The network has one layer; ``vectors (U, X)`` are those of the distinct words. Under autocast, products are in bf16.
    """
    precision = "bf16" if torch.is_autocast_enabled("cpu") else "fp32"
    words, sizes = ids.inverse.index_select(0, packing.order), packing.sizes.tolist()
    finals, outputs = [], []
    with torch.autocast("cpu", enabled=False):
        cells = prepared(network, precision, lambda: [_CELLS[kind](each, precision) for each in network.all_weights])
        for direction, cell in enumerate(cells):
            of_words = cell.of_word(vectors)
            state = vectors.new_zeros(sizes[0], cell.carried * cell.size)
            every = vectors.new_empty(len(words) if states else 0, cell.size)
            stop = len(words) if direction else 0
            for n in reversed(sizes) if direction else sizes:
                start, stop = (stop - n, stop - n) if direction else (stop, stop + n)
                for first in range(0, n, ROWS):
                    block = slice(first, min(first + ROWS, n))
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
