"""Ranks of captions among those of other images, and of images among others, and what is scored by them.

Shapes: n images, p = 5 n captions.
"""

from collections.abc import Sequence

import numpy as np

from structviews.evaluation.retrieval.ranking import Ranks
from structviews.evaluation.scores.intervals import proportion

CAPTIONS = 5
FOLD = 1000
AMONG = (1, 5, 10)
MEDIAN = "median rank"
DIRECTIONS = ("image to text", "text to image")


def image_ranks(scores: np.ndarray) -> Ranks:
    """Rank of each image's best own caption among all captions.

    Args:
        scores: (n, p) scores of images with captions, five per image, grouped by image.
    """
    n = len(scores)
    own = scores.reshape(n, n, CAPTIONS)[np.arange(n), np.arange(n)]
    best = own.max(axis=1, keepdims=True)
    level = (scores == best).sum(axis=1) - (own == best).sum(axis=1)
    return Ranks((scores > best).sum(axis=1), level + 1)


def caption_ranks(scores: np.ndarray) -> Ranks:
    """Rank of each caption's own image among all images; ``scores`` as in :func:`image_ranks`."""
    captions = np.arange(scores.shape[1])
    own = scores[captions // CAPTIONS, captions]
    return Ranks((scores > own).sum(axis=0), (scores == own).sum(axis=0))


def retrieval_scores(ranks: Ranks) -> dict[str, float]:
    """R@k in per cent, and the median rank, rounded down as SentEval does."""
    shares = {f"R@{k}": 100 * float(ranks.recalled(k).mean()) for k in AMONG}
    return shares | {MEDIAN: float(np.floor(ranks.median()))}


def folds(n: int) -> list[slice]:
    """Folds of 1,000 images, without the remainder; a single fold if there are fewer."""
    return [slice(start, start + FOLD) for start in range(0, n - FOLD + 1, FOLD)] or [slice(0, n)]


def fold_means(ranks: Sequence[dict[str, Ranks]]) -> dict[str, float]:
    """Scores in both directions, averaged over folds."""
    found = [{f"{way} {name}": v for way in fold for name, v in retrieval_scores(fold[way]).items()} for fold in ranks]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def recall_intervals(ranks: Sequence[dict[str, Ranks]]) -> dict[str, list[float]]:
    """95 % intervals of the recalls in per cent; the bootstrap draws images, each with its captions."""
    found = {}
    for way in DIRECTIONS:
        for k in AMONG:
            hits = np.concatenate([fold[way].recalled(k) for fold in ranks])
            share = proportion(hits, np.arange(len(hits)) // (1 if way == DIRECTIONS[0] else CAPTIONS))
            found[f"{way} R@{k}"] = [100 * share.low, 100 * share.high]
    return found
