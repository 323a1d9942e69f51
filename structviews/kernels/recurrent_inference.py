"""Recurrent networks over sentences without a backward pass, on the CPU: they keep nothing.

They have the parameters of PyTorch's modules; ``recurrent_cells`` has the equations. Each distinct prefix of the
sentences is computed once, however many sentences begin with it. Only products may have less precision than the word
vectors: for sigmoids, single precision is also faster.

Shapes: n words, U distinct ones, B sentences; H hidden size of a direction, D directions, X input size, P parts of H
numbers that go from step to step.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from structviews.batches.prefixes import Prefixes, prefixes
from structviews.batches.word_ids import WordIds
from structviews.kernels import steps
from structviews.kernels.recurrent import check_layers
from structviews.kernels.recurrent_cells import Gru, GruResetBefore, Lstm, RecurrentCell
from structviews.runtime.arrays import Array
from structviews.runtime.products import ROWS, Product, prepared


class _Cell(ABC):
    """A direction of a cell with its products; the gates that a word adds to have PyTorch's order, the tanh's folded.

    Args:
        weights: of the direction, as PyTorch's module has them.
        precision: of the products.

    Attributes:
        of_word: the product of word vectors.
        size: H.
        parts: P.
    """

    parts: ClassVar[int] = 1
    of_word: Product

    def __init__(self, weights: Sequence[Tensor], precision: str):
        w_word, w_state, b_word, b_state = weights
        self.size = w_state.shape[1]
        self.one = w_word.new_ones(())
        stays = self._prepare(w_state, b_state, precision)
        self.of_word = Product(
            steps.folded(w_word, self.size), steps.folded(b_word + b_state - stays, self.size), precision
        )

    @abstractmethod
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        """Prepare the products of states; return what of their biases stays with them, the other is the word's."""

    @abstractmethod
    def step(self, gates: Tensor, before: Tensor, out: Tensor) -> None:
        """One step.

        Args:
            gates: ``(rows, G H)`` what words add to the gates; overwritten.
            before: ``(rows, P H)`` what came from the step before.
            out: ``(rows, P H)`` receives what goes on.
        """


class _Gru(_Cell):
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        stays = b_state.clone()
        stays[: 2 * self.size] = 0  # the bias of n is multiplied by r
        self.of_state = Product(w_state, stays, precision)
        return stays

    def step(self, gates: Tensor, before: Tensor, out: Tensor) -> None:
        sizes = 2 * self.size, self.size
        r_and_z, n = gates.split_with_sizes(sizes, dim=1)
        of_r_and_z, of_n = self.of_state(before).to(before.dtype).split_with_sizes(sizes, dim=1)
        r, z = r_and_z.add_(of_r_and_z).sigmoid_().chunk(2, dim=1)
        n.addcmul_(r, of_n, value=steps.FOLD).sigmoid_()
        torch.lerp(torch.add(self.one, n, alpha=-2, out=n), before, z, out=out)


class _GruResetBefore(_Cell):
    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        weights = w_state.split((2 * self.size, self.size))
        self.of_r_and_z, self.of_n = (Product(weight, None, precision) for weight in weights)
        return torch.zeros_like(b_state)

    def step(self, gates: Tensor, before: Tensor, out: Tensor) -> None:
        r_and_z, n = gates.split_with_sizes((2 * self.size, self.size), dim=1)
        r, z = r_and_z.add_(self.of_r_and_z(before)).sigmoid_().chunk(2, dim=1)
        n.add_(self.of_n(r.mul_(before)), alpha=steps.FOLD).sigmoid_()
        torch.lerp(torch.add(self.one, n, alpha=-2, out=n), before, z, out=out)


class _Lstm(_Cell):
    parts = 2

    def _prepare(self, w_state: Tensor, b_state: Tensor, precision: str) -> Tensor:
        self.of_state = Product(steps.folded(w_state, self.size), None, precision)
        return torch.zeros_like(b_state)

    def step(self, gates: Tensor, before: Tensor, out: Tensor) -> None:
        h, c = before.chunk(2, dim=1)
        h_out, c_out = out.chunk(2, dim=1)
        i, f, s, o = gates.add_(self.of_state(h)).sigmoid_().chunk(4, dim=1)
        torch.mul(f, c, out=c_out).addcmul_(i, s, value=4).sub_(i, alpha=2)
        torch.addcmul(o, o, c_out.sigmoid(), value=-2, out=h_out)


_CELLS: dict[type[RecurrentCell], type[_Cell]] = {Gru: _Gru, GruResetBefore: _GruResetBefore, Lstm: _Lstm}


@torch.no_grad()
def run(
    network: nn.RNNBase,
    kind: type[RecurrentCell],
    vectors: Tensor,
    ids: WordIds,
    lengths: Array,
    states: bool = False,
    precision: str = "fp32",
) -> tuple[Tensor, Tensor | None]:
    """Final states ``(B, D H)``; on request also the states ``(n, D H)`` in text order.

    Args:
        network: the parameters.
        kind: the cell.
        vectors: ``(U, X)`` vectors of the distinct words.
        ids: the words in text order.
        lengths: ``(B,)`` number of words of each sentence.
        states: also return the states.
        precision: of the products, see ``Product``.

    Raises:
        ValueError: if the network has several layers.
    """
    check_layers(network)
    cells = prepared(network, precision, lambda: [_CELLS[kind](each, precision) for each in network.all_weights])
    size = network.hidden_size
    final = vectors.new_empty(len(lengths), len(cells) * size)
    kept = vectors.new_empty(len(ids), final.shape[1]) if states else None
    with torch.autocast(vectors.device.type, enabled=False):
        for direction, cell in enumerate(cells):
            columns = slice(direction * size, (direction + 1) * size)
            shared = prefixes(ids.inverse.numpy(), lengths, backwards=bool(direction))
            every = _read(shared, cell.of_word(vectors), cell, final[:, columns], states)
            if kept is not None and every is not None:
                torch.index_select(every, 0, shared.of_word, out=kept[:, columns])
    return final, kept


def _read(shared: Prefixes, of_words: Tensor, cell: _Cell, final: Tensor, states: bool) -> Tensor | None:
    """One direction; the states ``(N, H)`` of all prefixes, if they are asked for.

    Args:
        shared: the prefixes.
        of_words: ``(U, G H)`` what the words add to the gates.
        cell: the cell.
        final: ``(B, H)`` receives the final states.
        states: keep all states, not only those of two steps.
    """
    size, width = cell.size, cell.parts * cell.size
    before, rooms = final.new_zeros(1, width), final.new_empty(2, max(shared.sizes), width)
    every = final.new_empty(shared.word.shape[0], width) if states else None
    start, shorter = 0, 0
    for number, (n, n_ended) in enumerate(zip(shared.sizes, shared.ended, strict=True)):
        after = rooms[number % 2, :n] if every is None else every[start : start + n]
        for first in range(0, n, ROWS):
            rows = slice(start + first, start + min(first + ROWS, n))
            gates = of_words.index_select(0, shared.word[rows]).to(final.dtype)
            cell.step(gates, before.index_select(0, shared.parent[rows]), after[first : first + ROWS])
        if n_ended:
            ended = slice(shorter, shorter + n_ended)
            final[shared.sentence[ended]] = after[:, :size].index_select(0, shared.last[ended])
            shorter += n_ended
        before = after
        start += n
    return every if every is None else every[:, :size]
