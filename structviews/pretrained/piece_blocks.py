"""Reading pieces: windows of similar length go through an encoder together.

Shapes: w windows, p pieces of all windows, d dimension of a state.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from structviews.runtime.arrays import Array, stable_argsort, starts_of
from structviews.runtime.device import send, to_tensor

# Pieces of a product, with padding, by device: few on a CPU, as sentences of one length leave the least padding, and
# many on a GPU, to fill it.
PIECES_AT_ONCE = {"cpu": 2**10, "cuda": 2**14}


class Block(NamedTuple):
    """Windows of similar length, and their states.

    Attributes:
        windows: ``(rows,)`` their numbers.
        mask: ``(rows, longest)`` whether there is a piece, rather than padding.
        own: ``(pieces,)`` where the pieces are in the flattened mask.
        pieces: ``(pieces,)`` their indices among those of all windows.
        states: ``(rows, longest, d)``.
    """

    windows: Array
    mask: Tensor
    own: Array
    pieces: Array
    states: Tensor

    @property
    def piece_states(self) -> Tensor:
        """The states ``(pieces, d)`` of the pieces."""
        return self.states.flatten(0, 1).index_select(0, send(to_tensor(self.own), self.states.device))


def piece_blocks(
    model: Any, padding: int, ids: Array, lengths: Array, layers: tuple[int, ...] | None = None
) -> Iterator[Block]:
    """Read windows, the longest first; with gradients, unless the encoder is frozen.

    Args:
        model: the encoder, a ``PreTrainedModel``.
        padding: id of the padding piece.
        ids: ``(p,)`` the pieces of all windows, one window after the other.
        lengths: ``(w,)`` number of pieces of each window.
        layers: whose mean is taken; 0 are the embeddings. By default the last one.
    """
    device = next(model.parameters()).device
    for windows, places in _blocks(lengths, PIECES_AT_ONCE.get(device.type, PIECES_AT_ONCE["cuda"])):
        is_piece = places >= 0
        block, mask = (send(to_tensor(each), device) for each in (np.where(is_piece, ids[places], padding), is_piece))
        yield Block(windows, mask, np.flatnonzero(is_piece), places[is_piece], _states(model, block, mask, layers))


def _states(model: Any, ids: Tensor, mask: Tensor, layers: tuple[int, ...] | None) -> Tensor:
    """The mean state of some layers, ``(rows, longest, d)``, of windows of ``ids (rows, longest)``."""
    if layers in (None, (model.config.num_hidden_layers,)):
        last: Tensor = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return last
    hidden = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    return torch.stack([hidden[layer] for layer in layers or ()]).mean(dim=0)


def _blocks(lengths: Array, at_once: int) -> Iterator[tuple[Array, Array]]:
    """Blocks of windows of similar length.

    Each is the windows' numbers ``(rows,)``, and the indices of their pieces ``(rows, longest)``, -1 for padding.
    """
    order = stable_argsort(lengths.max(initial=0) - lengths)
    starts, done = starts_of(lengths), 0
    while done < len(order):
        longest = lengths[order[done]]
        rows = order[done : done + max(1, at_once // longest)]
        inside = np.arange(longest)
        yield rows, np.where(inside < lengths[rows, None], starts[rows, None] + inside, -1)
        done += len(rows)
