"""GRU over sentences without a backward pass, on the CPU: it has the parameters of ``nn.GRU``, and keeps nothing.

The equations are those of ``gru.py``. Each distinct prefix of the sentences is computed once, however many sentences
begin with it. Under autocast only the products have its dtype; the state and the arithmetic have single precision, in
which the CPU is also faster at sigmoids.

Shapes: n words, U distinct ones, B sentences; H hidden size of a direction, D directions, X input size.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from structviews.batches.prefixes import Prefixes, prefixes
from structviews.batches.word_ids import WordIds
from structviews.kernels import steps
from structviews.kernels.gru import check_layers
from structviews.runtime.arrays import Array

# Rows of a step that are computed together: their gates stay in the cache from one operation to the next.
ROWS = 256


def run(
    gru: nn.GRU, vectors: Tensor, ids: WordIds, lengths: Array, states: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Final states ``(B, D H)``; on request also the states ``(n, D H)`` in text order.

    Args:
        gru: the parameters.
        vectors: ``(U, X)`` vectors of the distinct words.
        ids: the words in text order.
        lengths: ``(B,)`` number of words of each sentence.
        states: also return the states.

    Raises:
        ValueError: if the network has several layers.
    """
    check_layers(gru)
    dtype, size = steps.product_dtype(vectors), gru.hidden_size
    final = vectors.new_empty(len(lengths), len(gru.all_weights) * size)
    kept = vectors.new_empty(len(ids), final.shape[1]) if states else None
    with torch.autocast(vectors.device.type, enabled=False):
        x = vectors.to(dtype)
        for direction, (w_word, w_state, b_word, b_state) in enumerate(gru.all_weights):
            of_word, of_state = b_word.clone(), b_state.clone()
            of_word[: 2 * size] += of_state[: 2 * size]
            of_state[: 2 * size] = 0
            table = linear(x, steps.folded(w_word, size).to(dtype), steps.folded(of_word, size).to(dtype))
            columns = slice(direction * size, (direction + 1) * size)
            shared = prefixes(ids.inverse.numpy(), lengths, backwards=bool(direction))
            _read(shared, table, w_state.to(dtype), of_state.to(dtype), final[:, columns], kept, columns)
    return final, kept


def _read(
    shared: Prefixes, table: Tensor, weight: Tensor, bias: Tensor, final: Tensor, kept: Tensor | None, columns: slice
) -> None:
    """One direction.

    Args:
        shared: the prefixes.
        table: ``(U, 3H)`` what the words add to the gates r, z, n; that of n is folded.
        weight, bias: ``(3H, H)`` and ``(3H,)``, what the states add to them.
        final: ``(B, H)`` receives the final states.
        kept: ``(n, D H)`` receives the states in ``columns``; None if nobody asks for them.
        columns: of this direction.
    """
    size = final.shape[1]
    before, rooms = final.new_zeros(1, size), final.new_empty(2, max(shared.sizes), size)
    every = final.new_empty(len(shared.word), size) if kept is not None else None
    start = 0
    for number, (words, parents, sentences, rows) in enumerate(
        zip(
            shared.word.split(shared.sizes),
            shared.parent.split(shared.sizes),
            shared.sentence.split(shared.ended),
            shared.last.split(shared.ended),
            strict=True,
        )
    ):
        after = rooms[number % 2, : len(words)] if every is None else every[start : start + len(words)]
        for word, parent, h in zip(words.split(ROWS), parents.split(ROWS), after.split(ROWS), strict=True):
            torch.index_select(before, 0, parent, out=h)
            _step(table.index_select(0, word).to(h.dtype), linear(h.to(weight.dtype), weight, bias).to(h.dtype), h)
        final[sentences] = after.index_select(0, rows)
        before, start = after, start + len(words)
    if kept is not None and every is not None:
        torch.index_select(every, 0, shared.of_word, out=kept[:, columns])


def _step(gates: Tensor, of_state: Tensor, h: Tensor) -> None:
    """Overwrite ``h (rows, H)`` with the next state, from what word and state add to the gates, ``(rows, 3H)`` each."""
    size = h.shape[1]
    r, z, n = gates.chunk(3, dim=1)
    gates[:, : 2 * size].add_(of_state[:, : 2 * size]).sigmoid_()
    n.addcmul_(r, of_state[:, 2 * size :], value=steps.FOLD).sigmoid_()
    torch.add(h.new_ones(()), n, alpha=-2, out=n)
    torch.lerp(n, h, z, out=h)
