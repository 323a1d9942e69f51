"""The views without anything to learn: means of word vectors, plain and weighted."""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.batches.batch import Batch, WordIds
from structviews.settings import Settings, setting
from structviews.views import VIEWS
from structviews.views.view import Encoded, View
from structviews.views.word_tables import Words
from structviews.words.vocabulary import smooth_inverse


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
        kept, lengths = known[ids.inverse], counts[:, 0].long()
        kept[starts[lengths == 0]] = True  # an unknown word, which counts as zeros
        offsets = F.pad(lengths.clamp(min=1).cumsum(0), (1, 0))
        return Encoded(vector, F.embedding(ids.inverse[kept], weighted), offsets)

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
        rows = super().weighted(words, ids)
        rows = F.normalize(rows) if self.unit_words else rows
        return rows * smooth_inverse(words.shares(ids))[:, None]
