"""The states of an encoder as vectors of words; with gradients, unless the encoder is frozen.

Shapes: n words, d dimension of a state.
"""

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.pretrained.alignment import Pieces
from structviews.pretrained.loading import Loaded
from structviews.pretrained.piece_blocks import piece_blocks
from structviews.runtime.arrays import inverse_of
from structviews.runtime.device import send, to_tensor
from structviews.words.word_settings import FIRST


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
    for block in piece_blocks(encoder.model, encoder.pad, pieces.ids, pieces.lengths, layers):
        states.append(block.piece_states)
        order.append(block.pieces)
    places = inverse_of(np.concatenate(order))[pieces.places]
    read = torch.cat(states)
    if pooling == FIRST:
        return read.index_select(0, send(to_tensor(places[pieces.starts]), device))
    chosen, starts = (send(to_tensor(each), device) for each in (places, pieces.starts))
    return F.embedding_bag(chosen, read, starts, mode="mean")
