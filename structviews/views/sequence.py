"""Sequence views: recurrent networks over the words in text order."""

from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import PackedSequence

from structviews.batches.batch import Batch
from structviews.batches.word_ids import WordIds
from structviews.errors import InputError
from structviews.kernels import gru, gru_inference
from structviews.kernels.initialisation import xavier
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.view import Encoded, View
from structviews.views.word_tables import Words


@VIEWS.register("seq")
class Sequence(View):
    """Bidirectional GRU, half of the dimension per direction (structured views, quick-thoughts).

    Its vector is the concatenation of the final states of both directions.
    """

    bidirectional: ClassVar[bool] = True

    def __init__(self, word_dim: int, dim: int, config: Settings) -> None:
        super().__init__()
        if self.bidirectional and dim % 2:
            raise InputError(f"dimension {dim} of the view 'seq' is odd: give an even one (half per direction)")
        self.dim = dim
        self.word_dim = word_dim
        self.gru = nn.GRU(word_dim, dim // (1 + self.bidirectional), bidirectional=self.bidirectional)
        xavier(self, {name: 3 for name, _ in self.named_parameters()})

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        vectors = words.rows(ids)
        if batch.inference:
            vector, kept = gru_inference.run(self.gru, vectors, ids, batch.lengths, states, batch.inference)
            return Encoded(vector, kept, batch.offsets if states else None)
        packing = batch.packing
        if vectors.is_cuda:  # cuDNN runs the whole sequence; on the CPU nn.GRU is slow
            inputs = embedding(ids.inverse[packing.order], vectors)
            (outputs, *_), final = self.gru(PackedSequence(inputs, packing.sizes))
        else:
            outputs, final = gru.run(self.gru, vectors, ids, packing)
        vector = torch.cat(final.unbind(0), dim=1)[packing.sentence]
        if not states:
            return Encoded(vector)
        in_text_order = torch.empty_like(outputs).index_copy(0, packing.order, outputs)
        return Encoded(vector, in_text_order.to(vector.dtype), batch.offsets)


@VIEWS.register("seq-uni")
class ForwardSequence(Sequence):
    """Forward GRU; its vector is the final state."""

    bidirectional: ClassVar[bool] = False
