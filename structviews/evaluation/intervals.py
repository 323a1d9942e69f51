"""A proportion with its interval when the trials come in documents."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from structviews.errors import InputError

RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Proportion:
    """A mean over ``count`` trials, with a 95 % interval."""

    value: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        """Write in per cent, as ``41.2 [38.0, 44.5]``."""
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def proportion(hits: ArrayLike, documents: ArrayLike, *, seed: int = 0) -> Proportion:
    """Mean of ``hits`` with a bootstrap interval over documents.

    Sentences of a document share its topic and its words, so they are not independent, and an
    interval that counts them as such (Wilson's) is too narrow. Here whole documents are drawn with
    replacement, 2,000 times, and the interval runs between the 2.5th and 97.5th percentile of the
    means (Efron and Tibshirani, 1993, ch. 13). It has no width where all trials agree.

    Args:
        hits: (n,) outcomes between 0 and 1.
        documents: (n,) the document of each trial.
        seed: of the resampling.

    Raises:
        InputError: if the trials are of fewer than two documents.
    """
    hits = np.asarray(hits, dtype=np.float64)
    names, index = np.unique(np.asarray(documents), return_inverse=True)
    if len(names) < 2:
        raise InputError(f"an interval needs trials of at least 2 documents, not {len(names)}: hold out more documents")
    hits_of = np.bincount(index, weights=hits)
    count_of = np.bincount(index)
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=RESAMPLES)
    low, high = np.percentile((drawn @ hits_of) / (drawn @ count_of), [2.5, 97.5])
    return Proportion(float(hits.mean()), float(low), float(high), len(hits))
