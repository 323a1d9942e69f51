"""GRU over sentences without a backward pass, on the CPU: it has the parameters of ``nn.GRU``, and keeps nothing.

The equations are those of ``gru.py``. Each distinct prefix of the sentences is computed once, however many sentences
begin with it. Only products may have less precision than the word vectors: for sigmoids, single precision is also
faster. Products of word vectors are in bf16 where states use 8 bits, as only states lie between -1 and 1.

Shapes: n words, U distinct ones, B sentences; H hidden size of a direction, D directions, X input size.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from structviews.batches.prefixes import Prefixes, prefixes
from structviews.batches.word_ids import WordIds
from structviews.kernels import steps
from structviews.kernels.gru import check_layers
from structviews.runtime.arrays import Array
from structviews.runtime.products import ROWS, Product, of_words, prepared


class _Products(NamedTuple):
    """What a word, and what the state, add to the gates r, z, n of a direction; the word's part of n is folded."""

    of_word: Product
    of_state: Product

    @classmethod
    def of(cls, weights: Sequence[Tensor], precision: str) -> "_Products":
        w_word, w_state, b_word, b_state = weights
        size = w_state.shape[1]
        # Of the state's biases, only that of n has to stay with the state.
        r_and_z = torch.cat([b_state[: 2 * size], torch.zeros_like(b_state[2 * size :])])
        of_word = Product(steps.folded(w_word, size), steps.folded(b_word + r_and_z, size), of_words(precision))
        return cls(of_word, Product(w_state, b_state - r_and_z, precision))


@torch.no_grad()
def run(
    gru: nn.GRU, vectors: Tensor, ids: WordIds, lengths: Array, states: bool = False, precision: str = "fp32"
) -> tuple[Tensor, Tensor | None]:
    """Final states ``(B, D H)``; on request also the states ``(n, D H)`` in text order.

    Args:
        gru: the parameters.
        vectors: ``(U, X)`` vectors of the distinct words.
        ids: the words in text order.
        lengths: ``(B,)`` number of words of each sentence.
        states: also return the states.
        precision: of the products, see ``Product``.

    Raises:
        ValueError: if the network has several layers.
    """
    check_layers(gru)
    products = prepared(gru, precision, lambda: [_Products.of(each, precision) for each in gru.all_weights])
    final = vectors.new_empty(len(lengths), len(products) * gru.hidden_size)
    kept = vectors.new_empty(len(ids), final.shape[1]) if states else None
    with torch.autocast(vectors.device.type, enabled=False):
        for direction, each in enumerate(products):
            columns = slice(direction * gru.hidden_size, (direction + 1) * gru.hidden_size)
            shared = prefixes(ids.inverse.numpy(), lengths, backwards=bool(direction))
            every = _read(shared, each.of_word(vectors), each.of_state, final[:, columns], states)
            if kept is not None and every is not None:
                torch.index_select(every, 0, shared.of_word, out=kept[:, columns])
    return final, kept


def _read(shared: Prefixes, of_words: Tensor, of_state: Product, final: Tensor, states: bool) -> Tensor | None:
    """One direction; the states ``(N, H)`` of all prefixes, if they are asked for.

    Args:
        shared: the prefixes.
        of_words: ``(U, 3H)`` what the words add to the gates.
        of_state: what the state adds to them.
        final: ``(B, H)`` receives the final states.
        states: keep all states, not only those of two steps.
    """
    size = final.shape[1]
    before, rooms = final.new_zeros(1, size), final.new_empty(2, max(shared.sizes), size)
    every = final.new_empty(shared.word.shape[0], size) if states else None
    one, start, shorter = final.new_ones(()), 0, 0
    for number, (n, n_ended) in enumerate(zip(shared.sizes, shared.ended, strict=True)):
        after = rooms[number % 2, :n] if every is None else every[start : start + n]
        for first in range(0, n, ROWS):
            rows = slice(start + first, start + min(first + ROWS, n))
            h = before.index_select(0, shared.parent[rows])
            gates = of_words.index_select(0, shared.word[rows]).to(h.dtype)
            _step(gates, of_state(h).to(h.dtype), h, one, after[first : first + ROWS])
        if n_ended:
            ended = slice(shorter, shorter + n_ended)
            final[shared.sentence[ended]] = after.index_select(0, shared.last[ended])
            shorter += n_ended
        before = after
        start += n
    return every


def _step(gates: Tensor, of_state: Tensor, h: Tensor, one: Tensor, out: Tensor) -> None:
    """The next states ``out (rows, H)`` from these, ``h``, and what word and state add to the gates, ``(rows, 3H)``."""
    size = h.shape[1]
    r_and_z, n = gates.split_with_sizes((2 * size, size), dim=1)
    of_r_and_z, of_n = of_state.split_with_sizes((2 * size, size), dim=1)
    r, z = r_and_z.add_(of_r_and_z).sigmoid_().chunk(2, dim=1)
    n.addcmul_(r, of_n, value=steps.FOLD).sigmoid_()
    torch.lerp(torch.add(one, n, alpha=-2, out=n), h, z, out=out)
