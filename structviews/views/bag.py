"""The views without structure: a sum of word vectors, and a projected mean."""

from typing import ClassVar

from torch import nn

from structviews.batching import Batch
from structviews.initialisation import xavier
from structviews.views.base import Encoded, View, register
from structviews.vocabulary import WordIds, Words


@register("bow")
class BagOfWords(View):
    """Sum of the word vectors (structured views 3.2, quick-thoughts appendix B).

    It has no parameters of its own: its word table is as wide as its vector.
    """

    adds_words: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def __init__(self, words_dim: int, dim: int):
        super().__init__()
        self.dim = dim
        self.words_dim = dim

    def encode(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        vector = words.bag(ids, batch.offsets[:-1], "sum")
        return Encoded(vector, words.lookup(ids), batch.offsets) if states else Encoded(vector)


@register("avg")
class ProjectedMean(View):
    """Mean of ``W x`` over the words, ``W`` learnt, without bias (multi-view 3.1)."""

    linear: ClassVar[bool] = True

    def __init__(self, words_dim: int, dim: int):
        super().__init__()
        self.dim = dim
        self.words_dim = words_dim
        self.project = nn.Linear(words_dim, dim, bias=False)
        xavier(self)

    def encode(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        # W is linear, so it can wait until the words are averaged.
        vector = self.project(words.bag(ids, batch.offsets[:-1], "mean"))
        return Encoded(vector, self.project(words.lookup(ids)), batch.offsets) if states else Encoded(vector)
