"""How close random sentences are: what a cosine is compared with.

A cosine has no scale of its own: under one run 0.3 is close, under another 0.8 is what any two sentences have.
"""

from typing import NamedTuple, Self

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import normalised
from structviews.evaluation.retrieval.candidates import Pool

SENTENCES = 128
"""Sentences of the sample; all their 8,128 pairs are compared, which fixes a share to about 0.02."""
SEED = 1


class Shares(NamedTuple):
    """Shares, from 0 to 1, of random pairs that are less similar than a pair: under each view, and joined."""

    views: list[float]
    joined: float


class RandomPairs(NamedTuple):
    """Cosines of all pairs in a sample of sentences.

    Attributes:
        cosines: ascending ``(pairs,)``, of each view and, last, of the joined vectors.
    """

    cosines: list[np.ndarray]

    @classmethod
    def of(cls, pool: Pool, embedder: Embedder) -> Self | None:
        """The pairs of a seeded sample of a pool; None if it has only one sentence.

        Raises:
            InputError: if a sentence cannot be encoded.
        """
        if len(pool) < 2:
            return None
        rows = np.random.default_rng(SEED).permutation(len(pool))[:SENTENCES]
        sentences = [sentence for row in rows for sentence in pool.sentences(row, row + 1)]
        with pool.naming(rows):
            views = embedder.encode_views(sentences)
        above = np.triu_indices(len(rows), k=1)
        directions = (normalised(vectors.astype(np.float64)) for vectors in [*views, embedder.joined(views)])
        return cls([np.sort((each @ each.T)[above]) for each in directions])

    def closer_than(self, views: list[float], joined: float) -> Shares:
        """The shares of pairs with lower cosines than these of each view, and of the joined vectors."""
        *shares, of_joined = (
            float(np.searchsorted(known, cosine) / len(known))
            for known, cosine in zip(self.cosines, [*views, joined], strict=True)
        )
        return Shares(shares, of_joined)
