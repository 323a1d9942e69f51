"""The states of an encoder as vectors of words; with gradients, unless the encoder is frozen.

Shapes: n words, w windows, p pieces of all windows, d dimension of a state.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.pretrained.alignment import Pieces
from structviews.pretrained.loading import Loaded
from structviews.runtime.arrays import Array, inverse_of, stable_argsort, starts_of
from structviews.runtime.device import send, to_tensor
from structviews.words.word_settings import FIRST

# Pieces of a product, with padding, by device: few on a CPU, as sentences of one length leave the least padding, and
# many on a GPU, to fill it.
PIECES_AT_ONCE = {"cpu": 2**10, "cuda": 2**14}


def word_states(encoder: Loaded, pieces: Pieces, layers: tuple[int, ...], pooling: str) -> Tensor:
    """The vector of each word, ``(n, d)``, on the encoder's device.

    Args:
        encoder: the encoder.
        pieces: of the words, by its aligner.
        layers: whose mean is taken; 0 are the embeddings.
        pooling: of a word's pieces: ``mean`` or ``first``.
    """
    device = next(encoder.model.parameters()).device
    states, order = [torch.empty(0, encoder.model.config.hidden_size, device=device)], [np.empty(0, np.int64)]
    for places in _blocks(pieces.lengths, PIECES_AT_ONCE.get(device.type, PIECES_AT_ONCE["cuda"])):
        is_piece = places >= 0
        ids, mask = (
            send(to_tensor(each), device) for each in (np.where(is_piece, pieces.ids[places], encoder.pad), is_piece)
        )
        states.append(_states(encoder.model, ids, mask, layers)[mask])
        order.append(places[is_piece])
    places = inverse_of(np.concatenate(order))[pieces.places]
    read = torch.cat(states)
    if pooling == FIRST:
        return read.index_select(0, send(to_tensor(places[pieces.starts]), device))
    chosen, starts = (send(to_tensor(each), device) for each in (places, pieces.starts))
    return F.embedding_bag(chosen, read, starts, mode="mean")


def _states(model: Any, ids: Tensor, mask: Tensor, layers: tuple[int, ...]) -> Tensor:
    """The mean state of some layers, ``(rows, longest, d)``, of windows of ``ids (rows, longest)``."""
    if layers == (model.config.num_hidden_layers,):
        last: Tensor = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return last
    hidden = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    return torch.stack([hidden[layer] for layer in layers]).mean(dim=0)


def _blocks(lengths: Array, at_once: int) -> Iterator[Array]:
    """Blocks of windows of similar length; each ``(rows, longest)`` has the indices of their pieces, -1 for padding."""
    order = stable_argsort(lengths.max(initial=0) - lengths)
    starts, done = starts_of(lengths), 0
    while done < len(order):
        longest = lengths[order[done]]
        rows = order[done : done + max(1, at_once // longest)]
        inside = np.arange(longest)
        yield np.where(inside < lengths[rows, None], starts[rows, None] + inside, -1)
        done += len(rows)
