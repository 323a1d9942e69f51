"""Views without structure: sums and means of word vectors, plain, projected and weighted."""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.batches.batch import Batch, WordIds
from structviews.kernels.cells import xavier
from structviews.settings import Settings, setting
from structviews.views import VIEWS
from structviews.views.view import Encoded, View, Words
from structviews.words.vocabulary import smooth_inverse


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


@dataclass(frozen=True)
class SifConfig(Settings):
    """What the view sif averages."""

    unit_words: bool = setting(False, "Scale word vectors to length 1 before the view sif averages them.", rare=True)


@VIEWS.register("average")
class WordAverage(View):
    """Mean of the vectors x_w of the known words.

    Its dimension is that of the word vectors. A sentence without known words gets the zero vector, and this as its only
    state.
    """

    linear: ClassVar[bool] = True
    learns: ClassVar[bool] = False

    def __init__(self, word_dim: int, dim: int, config: Settings) -> None:
        super().__init__()
        self.dim = word_dim
        self.word_dim = word_dim

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        known, starts = ids.distinct > 0, batch.offsets[:-1]
        weighted = self.weighted(words, ids) * known[:, None]
        counts = F.embedding_bag(ids.inverse, known[:, None].to(weighted.dtype), starts, mode="sum")
        vector = F.embedding_bag(ids.inverse, weighted, starts, mode="sum") / counts.clamp(min=1)
        if not states:
            return Encoded(vector)
        read, lengths = known[ids.inverse], counts[:, 0].long()
        read[starts[lengths == 0]] = True  # an unknown word, which counts as zeros
        offsets = F.pad(lengths.clamp(min=1).cumsum(0), (1, 0))
        return Encoded(vector, F.embedding(ids.inverse[read], weighted), offsets)

    def weighted(self, words: Words, ids: WordIds) -> Tensor:
        """What is averaged: a vector ``(U, dim)`` for each distinct word."""
        return words.rows(ids)


@VIEWS.register("sif")
class SmoothInverseFrequency(WordAverage):
    """Mean of a / (a + p(w)) x_w over the known words (Arora et al. 2017, algorithm 1, without its last step).

    x_w is the word's vector and p(w) its frequency in the training corpus, 0 if it is not there. With ``unit_words``,
    each x_w is scaled to length 1 first.
    """

    reads_frequencies: ClassVar[bool] = True
    Config: ClassVar[type[Settings]] = SifConfig

    def __init__(self, word_dim: int, dim: int, config: SifConfig) -> None:
        super().__init__(word_dim, dim, config)
        self.unit_words = config.unit_words

    def weighted(self, words: Words, ids: WordIds) -> Tensor:
        rows = F.normalize(words.rows(ids)) if self.unit_words else words.rows(ids)
        return rows * smooth_inverse(words.shares(ids))[:, None]
