"""The states of an encoder as vectors of sentences, with gradients.

Shapes: B sentences, p pieces of all sentences, d dimension of a state.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from structviews.pretrained.alignment import SentencePieces
from structviews.pretrained.piece_blocks import Block, piece_blocks
from structviews.runtime.arrays import inverse_of
from structviews.runtime.device import send, to_tensor
from structviews.words.word_settings import FIRST


def sentence_states(
    model: Any, padding: int, pieces: SentencePieces, pooling: str, states: bool = False
) -> tuple[Tensor, Tensor | None]:
    """The vector of each sentence ``(B, d)``, and on request the states ``(p, d)`` of its pieces; no half precision.

    Args:
        model: the encoder, a ``PreTrainedModel``.
        padding: id of the padding piece.
        pieces: of the sentences.
        pooling: ``mean`` of a sentence's pieces, with those that the tokeniser adds, or its ``first``.
        states: whether to return the states.
    """
    vectors, of_pieces, order, places = [], [], [], []
    for block in piece_blocks(model, padding, pieces.ids, pieces.lengths):
        vectors.append(_pooled(block, pooling))
        order.append(block.windows)
        if states:
            of_pieces.append(_precise(block.piece_states))
            places.append(block.pieces)
    device = vectors[0].device
    back = send(to_tensor(inverse_of(np.concatenate(order))), device)
    found = torch.cat(vectors).index_select(0, back)
    if not states:
        return found, None
    return found, torch.cat(of_pieces).index_select(0, send(to_tensor(inverse_of(np.concatenate(places))), device))


def _pooled(block: Block, pooling: str) -> Tensor:
    """Vectors ``(rows, d)`` of the sentences of a block."""
    if pooling == FIRST:
        return _precise(block.states[:, 0])
    mask = block.mask[:, :, None]
    return (_precise(block.states) * mask).sum(dim=1) / mask.sum(dim=1)


def _precise(states: Tensor) -> Tensor:
    """States in single precision or better."""
    return states.float() if states.dtype in (torch.bfloat16, torch.float16) else states
