"""The sequence views: recurrent networks over the words in their order."""

import torch
from torch import nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import PackedSequence

from structviews.batching import Batch
from structviews.errors import InputError
from structviews.initialisation import xavier
from structviews.kernels import gru
from structviews.views.base import Encoded, View, register
from structviews.vocabulary import WordIds, Words


@register("seq", bidirectional=True)
@register("seq-uni", bidirectional=False)
class Sequence(View):
    """GRU; its vector is the final state, of each direction where there are two.

    ``seq`` has half of its dimension in each direction (structured views, quick-thoughts).
    """

    def __init__(self, words_dim: int, dim: int, bidirectional: bool):
        super().__init__()
        if bidirectional and dim % 2:
            raise InputError(f"dimension {dim} of the view 'seq' is odd: it has half of it in each direction")
        self.dim = dim
        self.words_dim = words_dim
        self.gru = nn.GRU(words_dim, dim // (1 + bidirectional), bidirectional=bidirectional)
        xavier(self, {name: 3 for name, _ in self.named_parameters()})

    def encode(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        packing = batch.packing
        vectors = words.rows(ids)
        if vectors.is_cuda:  # there cuDNN runs the whole sequence; elsewhere nn.GRU goes step by step, and wastefully
            inputs = embedding(ids.inverse[packing.order], vectors)
            (outputs, *_), final = self.gru(PackedSequence(inputs, packing.sizes))
        else:
            outputs, final = gru.run(self.gru, vectors, ids, packing)
        vector = torch.cat(final.unbind(0), dim=1)[packing.sentence]
        if not states:
            return Encoded(vector)
        in_text_order = torch.empty_like(outputs).index_copy(0, packing.order, outputs)
        return Encoded(vector, in_text_order.to(vector.dtype), batch.offsets)
