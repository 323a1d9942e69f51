"""Bootstrap intervals of scores, and paired tests between two systems, from the same draws.

Test examples are drawn with replacement, 2,000 times. How often each was drawn is a row of weights, and every
score is a function of weights, so that all draws are scored together. B draws, n examples.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from structviews.errors import InputError

RESAMPLES = 2_000
LEVELS = (2.5, 97.5)
# Draws that are scored together; bounds the memory.
BLOCK = 250

# One data set's predictions (n,) and its gold classes or scores (n,).
Tested = tuple[np.ndarray, np.ndarray]


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


@dataclass(frozen=True, slots=True)
class Difference:
    """What one system's score has over another's.

    Attributes:
        first, second: the scores, over all test examples together.
        low, high: 95 % interval of ``first - second``.
        p: probability of a difference as far from 0, were there none; two-sided.
    """

    first: float
    second: float
    low: float
    high: float
    p: float


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
    blocks = _draws([np.ones(len(names), dtype=np.int64)], seed)
    low, high = np.percentile(np.concatenate([(w @ hits_of) / (w @ count_of) for (w,) in blocks]), LEVELS)
    return Proportion(float(hits.mean()), float(low), float(high), len(hits))


def score_intervals(scores: Sequence[str], tested: Mapping[str, Tested], *, seed: int = 0) -> dict[str, list[float]]:
    """95 % intervals ``[low, high]`` of a task's scores over its test examples.

    Percentiles of the bootstrap (Efron and Tibshirani, 1993, ch. 13). The examples of each data set are drawn
    apart. What was learnt stays as it is: the intervals do not contain the choice of training examples or the
    seed of training. Draws in which a correlation is undefined are left out.

    Args:
        scores: names as in ``results.json``: ``accuracy``, ``f1``, ``pearson``, ``spearman``, ``mse``; a
            correlation over several data sets with its aggregate, ``pearson weighted mean``.
        tested: predictions and gold of each data set, or of the one test part.
        seed: of the resampling.
    """
    found = _bootstrap(scores, [_Outcomes.of([predicted], gold) for predicted, gold in tested.values()], seed)
    return {name: [float(end) for end in np.nanpercentile(values[0, 1:], LEVELS)] for name, values in found.items()}


def paired_differences(
    scores: Sequence[str], first: Mapping[str, Tested], second: Mapping[str, Tested], *, seed: int = 0
) -> dict[str, Difference]:
    """Paired bootstrap test of two systems on the same test examples, for each score.

    Both are scored on the same draws; the interval is that of their difference, and p is twice the share of
    draws in which it is not on its own side of 0, so p < 0.05 where the interval leaves 0 out (Efron and
    Tibshirani, 1993, ch. 13 and 15; Koehn, 2004, for scores of systems). With 2,000 draws the least p is 0.001.

    Args:
        scores: as for :func:`score_intervals`.
        first, second: predictions and gold of the same data sets in the same order.
        seed: of the resampling.
    """
    outcomes = [_Outcomes.of([first[name][0], second[name][0]], gold) for name, (_, gold) in first.items()]
    return {name: _difference(*values) for name, values in _bootstrap(scores, outcomes, seed).items()}


def _difference(first: np.ndarray, second: np.ndarray) -> Difference:
    drawn = (first - second)[1:]
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, LEVELS)
    # The observed data are one more draw, so that p is never 0 (Davison and Hinkley, 1997, ch. 4).
    tail = (1 + min(np.sum(drawn <= 0), np.sum(drawn >= 0))) / (1 + len(drawn))
    return Difference(float(first[0]), float(second[0]), float(low), float(high), float(min(1, 2 * tail)))


def holm(ps: Sequence[float]) -> list[float]:
    """P-values adjusted for their number, so that any below 0.05 is wrong in 5 % of cases at most (Holm, 1979)."""
    order = np.argsort(ps, kind="stable")
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.asarray(ps)[order] * np.arange(len(ps), 0, -1)))
    return adjusted.tolist()


@dataclass(frozen=True)
class _Outcomes:
    """What a data set's examples come to, each distinct outcome once: a task of classes has few.

    Attributes:
        systems: (k, u) predictions of each system.
        gold: (u,).
        counts: (u,) how many examples have this outcome.
    """

    systems: np.ndarray
    gold: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, systems: Sequence[np.ndarray], gold: np.ndarray) -> "_Outcomes":
        rows, counts = np.unique(np.array([*systems, gold], dtype=np.float64), axis=1, return_counts=True)
        return cls(rows[:-1], rows[-1], counts)


def _draws(counts: Sequence[np.ndarray], seed: int) -> Iterator[list[np.ndarray]]:
    """Weights (block, u) for each data set, of whose ``counts.sum()`` examples as many are drawn."""
    generator = np.random.default_rng(seed)
    for start in range(0, RESAMPLES, BLOCK):
        size = min(BLOCK, RESAMPLES - start)
        yield [generator.multinomial(c.sum(), c / c.sum(), size=size).astype(np.float64) for c in counts]


def _bootstrap(scores: Sequence[str], outcomes: Sequence[_Outcomes], seed: int) -> dict[str, np.ndarray]:
    """For each score (k, 1 + B): of each system on all examples, then on each draw."""
    counts = [each.counts for each in outcomes]
    values: dict[str, list[list[np.ndarray]]] = {name: [] for name in scores}
    for weights in chain([[each[None].astype(np.float64) for each in counts]], _draws(counts, seed)):
        for name, blocks in values.items():
            blocks.append([_scored(name, outcomes, weights, k) for k in range(len(outcomes[0].systems))])
    return {name: np.concatenate(blocks, axis=1) for name, blocks in values.items()}


def _scored(name: str, outcomes: Sequence[_Outcomes], weights: Sequence[np.ndarray], system: int) -> np.ndarray:
    """A score (B,) of one system on weighted examples; over several data sets by its aggregate."""
    kind, _, aggregate = name.partition(" ")
    metric = _METRICS[kind]
    if aggregate == "all":
        predicted, gold = (
            np.concatenate(p) for p in zip(*((o.systems[system], o.gold) for o in outcomes), strict=True)
        )
        return metric(np.hstack(weights), predicted, gold)
    each = [metric(w, o.systems[system], o.gold) for w, o in zip(weights, outcomes, strict=True)]
    sizes = [o.counts.sum() for o in outcomes] if aggregate == "weighted mean" else None
    return np.average(each, axis=0, weights=sizes)


def _accuracy(weights: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return 100 * (weights @ (predicted == gold)) / weights.sum(1)


def _f1(weights: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    named = weights @ predicted + weights @ gold
    return 200 * np.divide(weights @ (predicted * gold), named, out=np.zeros_like(named), where=named > 0)


def _mse(weights: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return (weights @ (predicted - gold) ** 2) / weights.sum(1)


def _pearson(weights: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    # About the means of all examples, so that the sums below do not cancel.
    x, y = predicted - predicted.mean(), gold - gold.mean()
    sums = weights @ np.stack([x, y, x * x, y * y, x * y], axis=1) / weights.sum(1, keepdims=True)
    mx, my, xx, yy, xy = sums.T
    return _ratio(xy - mx * my, xx - mx**2, yy - my**2)


def _spearman(weights: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    middle = (weights.sum(1, keepdims=True) + 1) / 2
    x, y = (_ranks(weights, values) - middle for values in (predicted, gold))
    return _ratio(*(np.einsum("bn,bn,bn->b", weights, left, right) for left, right in ((x, y), (x, x), (y, y))))


def _ranks(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Ranks (B, n) in each draw; equal values share the mean of theirs."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    return ranks[:, np.searchsorted(values[order][starts], values)]


def _ratio(covariance: np.ndarray, *variances: np.ndarray) -> np.ndarray:
    """The correlation; nan where one side does not vary, but for rounding."""
    scale = np.sqrt(np.prod(np.maximum(variances, 0), axis=0))
    return np.divide(covariance, scale, out=np.full_like(covariance, np.nan), where=scale > 1e-12 * scale.max())


_METRICS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "pearson": _pearson,
    "spearman": _spearman,
    "mse": _mse,
}
