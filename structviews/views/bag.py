"""Views without structure: a sum of word vectors, and a projected mean."""

from typing import ClassVar

from torch import nn

from structviews.batches.batch import Batch, WordIds
from structviews.kernels.initialisation import xavier
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.view import Encoded, View
from structviews.views.word_tables import Words


@VIEWS.register("bow")
class BagOfWords(View):
    """Sum of the word vectors (structured views 3.2, quick-thoughts appendix B).

    It has no parameters of its own; its word vectors have the dimension of the view.
    """

    adds_words: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def __init__(self, word_dim: int, dim: int, config: Settings) -> None:
        super().__init__()
        self.dim = dim
        self.word_dim = dim

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        vector = words.bag(ids, batch.offsets[:-1], "sum")
        return Encoded(vector, words.lookup(ids), batch.offsets) if states else Encoded(vector)


@VIEWS.register("avg")
class ProjectedMean(View):
    """Mean of ``W x + b`` over the words, with ``W`` and ``b`` learnt (multi-view 3.1; supplement 4 has the bias)."""

    linear: ClassVar[bool] = True

    def __init__(self, word_dim: int, dim: int, config: Settings) -> None:
        super().__init__()
        self.dim = dim
        self.word_dim = word_dim
        self.project = nn.Linear(word_dim, dim)
        xavier(self)

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        # The mean of the projections is the projection of the mean: average first and project once.
        vector = self.project(words.bag(ids, batch.offsets[:-1], "mean"))
        return Encoded(vector, self.project(words.lookup(ids)), batch.offsets) if states else Encoded(vector)
