"""Bootstrap intervals of scores, and paired bootstrap tests of two systems.

Test examples are drawn with replacement, 2,000 times. Each draw is a row of weights: how often each example was drawn.
Every score is a function of weights, so many draws are scored at once. B draws, n examples.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike
from rich.text import Text

from structviews.errors import InputError

RESAMPLES, SEED = 2_000, 0
LEVELS = (2.5, 97.5)
# Draws scored at once; limits memory.
RESAMPLES_AT_ONCE = 250

FIXED_MODELS = "the intervals are for these two trained models; they do not include the variance between training seeds"
# One data set's predictions (n,) and its gold classes or scores (n,); and those of a task's data sets.
Tested = tuple[np.ndarray, np.ndarray]
Parts = Mapping[str, Tested]


@dataclass(frozen=True, slots=True)
class Proportion:
    """A mean over ``count`` trials with a 95 % interval."""

    value: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        """In per cent, as ``41.2 [38.0, 44.5]``."""
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class Difference:
    """Scores of two systems, the 95 % interval of ``first - second``, and p (two-sided) if they do not differ."""

    first: float
    second: float
    low: float
    high: float
    p: float

    def cells(self, factor: int, adjusted: float) -> tuple[str | Text, ...]:
        """Table cells, in units of ``1 / factor``: the difference, its interval, p, and p adjusted by Holm's method."""
        difference, low, high = (factor * value for value in (self.first - self.second, self.low, self.high))
        bold = "bold" if adjusted < 0.05 else ""
        return f"{difference:+.1f}", f"[{low:+.1f}, {high:+.1f}]", f"{self.p:.3f}", Text(f"{adjusted:.3f}", style=bold)


def proportion(hits: ArrayLike, documents: ArrayLike) -> Proportion:
    """Mean of ``hits`` (n,), from 0 to 1, with a bootstrap interval over the documents (n,) that the trials are of.

    Sentences of a document are not independent, so whole documents are drawn with replacement, 2,000 times; the
    interval is from the 2.5th to the 97.5th percentile of the means (Efron and Tibshirani, 1993, ch. 13).
    InputError if there are fewer than two documents.
    """
    ((value, *drawn),) = _means_of_documents([hits], documents)
    low, high = np.percentile(drawn, LEVELS)
    return Proportion(float(value), float(low), float(high), len(np.asarray(hits)))


def mean_difference(first: ArrayLike, second: ArrayLike, documents: ArrayLike) -> Difference:
    """Paired bootstrap test of the means of two systems' outcomes (n,) of the same trials; see :func:`proportion`."""
    return _difference(*_means_of_documents([first, second], documents))


def _means_of_documents(values: Sequence[ArrayLike], documents: ArrayLike) -> np.ndarray:
    """Means (k, 1 + B) of each system's values (n,): of all trials, then of documents drawn with replacement."""
    names, index = np.unique(np.asarray(documents), return_inverse=True)
    if len(names) < 2:
        raise InputError(f"an interval needs at least 2 documents, not {len(names)}: hold out more documents")
    trials = [np.asarray(each, dtype=np.float64) for each in values]
    sums = np.stack([np.bincount(index, weights=each) for each in trials], axis=1)
    counts = np.bincount(index)
    blocks = _draws([np.ones(len(names), dtype=np.int64)])
    drawn = [(weights @ sums) / (weights @ counts)[:, None] for (weights,) in blocks]
    return np.concatenate([np.stack([each.mean() for each in trials])[None], *drawn]).T


def score_intervals(scores: Sequence[str], tested: Parts) -> dict[str, list[float]]:
    """95 % intervals ``[low, high]`` of a task's scores, named as in ``results.json``, over its test examples.

    Percentiles of the bootstrap (Efron and Tibshirani, 1993, ch. 13); examples of each data set are drawn separately.
    The trained classifier is fixed: variance from training examples or seeds is not included. Draws with an undefined
    correlation are skipped.
    """
    found = _bootstrap(scores, [_Outcomes([predicted], gold) for predicted, gold in tested.values()])
    return {name: [float(end) for end in np.nanpercentile(values[0, 1:], LEVELS)] for name, values in found.items()}


def paired_differences(scores: Sequence[str], first: Parts, second: Parts) -> dict[str, Difference]:
    """Paired bootstrap test of two systems on the same test examples, in the same order, for each score.

    Both systems are scored on the same draws; p is twice the share of draws in which the difference is 0 or has the
    opposite sign, so p < 0.05 if the interval excludes 0 (Efron and Tibshirani, 1993, ch. 13 and 15; Koehn, 2004, for
    systems' scores). With 2,000 draws, p is at least 0.001.
    """
    outcomes = [_Outcomes([first[name][0], second[name][0]], gold) for name, (_, gold) in first.items()]
    return {name: _difference(*values) for name, values in _bootstrap(scores, outcomes).items()}


def _difference(first: np.ndarray, second: np.ndarray) -> Difference:
    drawn = (first - second)[1:]
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, LEVELS)
    # The observed data count as one more draw, so that p is never 0 (Davison and Hinkley, 1997, ch. 4).
    tail = (1 + min(np.sum(drawn <= 0), np.sum(drawn >= 0))) / (1 + len(drawn))
    return Difference(float(first[0]), float(second[0]), float(low), float(high), float(min(1, 2 * tail)))


def holm(ps: Sequence[float]) -> list[float]:
    """P-values adjusted for multiple tests by Holm's (1979) method, which controls the family-wise error rate."""
    order = np.argsort(ps, kind="stable")
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.asarray(ps)[order] * np.arange(len(ps), 0, -1)))
    return adjusted.tolist()


class _Outcomes:
    """The distinct combinations of predictions and gold target in a data set; classification tasks have few.

    Predictions ``systems`` (k, u) of each system, ``gold`` (u,), and ``counts`` (u,), the examples with each.
    """

    def __init__(self, systems: Sequence[np.ndarray], gold: np.ndarray) -> None:
        rows, self.counts = np.unique(np.array([*systems, gold], dtype=np.float64), axis=1, return_counts=True)
        self.systems, self.gold = rows[:-1], rows[-1]


def _draws(counts: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Blocks of draws: weights (block, u) for each data set; each draw has ``counts.sum()`` examples."""
    generator = np.random.default_rng(SEED)
    for start in range(0, RESAMPLES, RESAMPLES_AT_ONCE):
        size = min(RESAMPLES_AT_ONCE, RESAMPLES - start)
        yield [generator.multinomial(c.sum(), c / c.sum(), size=size).astype(np.float64) for c in counts]


def _bootstrap(scores: Sequence[str], outcomes: Sequence[_Outcomes]) -> dict[str, np.ndarray]:
    """Values (k, 1 + B) of each score for each system: on all examples, then on each draw."""
    counts = [each.counts for each in outcomes]
    blocks = []
    for weights in chain([[each[None].astype(np.float64) for each in counts]], _draws(counts)):
        blocks.append([_scored(scores, outcomes, weights, k) for k in range(len(outcomes[0].systems))])
    return dict(zip(scores, np.concatenate(blocks, axis=2).swapaxes(0, 1), strict=True))


def _scored(
    scores: Sequence[str], outcomes: Sequence[_Outcomes], weights: Sequence[np.ndarray], system: int
) -> np.ndarray:
    """Scores (s, B) of one system on weighted examples, each aggregated over data sets as its name says."""
    sets = [(w, o.systems[system], o.gold) for w, o in zip(weights, outcomes, strict=True)]
    sizes = [o.counts.sum() for o in outcomes]

    @cache  # the aggregates share it
    def of_each(kind: str) -> list[np.ndarray]:
        return [_metric(kind, *each) for each in sets]

    def scored(name: str) -> np.ndarray:
        kind, _, aggregate = name.partition(" ")
        if aggregate == "all" and len(sets) > 1:
            return _metric(kind, *(np.concatenate(parts, axis=-1) for parts in zip(*sets, strict=True)))
        return np.average(of_each(kind), axis=0, weights=sizes if aggregate == "weighted mean" else None)

    return np.stack([scored(name) for name in scores])


def _metric(kind: str, weights: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Scores (B,) of predictions (n,) on examples with weights (B, n)."""
    score: np.ndarray
    if kind == "accuracy":
        score = 100 * (weights @ (predicted == gold)) / weights.sum(1)
    elif kind == "f1":
        named = weights @ predicted + weights @ gold
        score = 200 * np.divide(weights @ (predicted * gold), named, out=np.zeros_like(named), where=named > 0)
    elif kind == "ap":
        # At each distinct prediction, from the highest on: those predicted so far, and the true ones among them.
        order = np.argsort(-predicted, kind="stable")
        ends = np.flatnonzero(np.diff(predicted[order], append=np.nan) != 0)
        named, true = (np.cumsum(each[:, order], axis=1)[:, ends] for each in (weights, weights * gold))
        precision = np.divide(true, named, out=np.zeros_like(named), where=named > 0)
        score = 100 * (np.diff(true, prepend=0) * precision).sum(1) / true[:, -1]
    elif kind == "mse":
        score = (weights @ (predicted - gold) ** 2) / weights.sum(1)
    elif kind == "pearson":
        # Centred on the means of all examples, to avoid cancellation in the sums below.
        x, y = predicted - predicted.mean(), gold - gold.mean()
        sums = weights @ np.stack([x, y, x * x, y * y, x * y], axis=1) / weights.sum(1, keepdims=True)
        mx, my, xx, yy, xy = sums.T
        score = _ratio(xy - mx * my, xx - mx**2, yy - my**2)
    else:
        middle = (weights.sum(1, keepdims=True) + 1) / 2
        x, y = (_ranks(weights, values) - middle for values in (predicted, gold))
        score = _ratio(*(np.einsum("bn,bn,bn->b", weights, left, right) for left, right in ((x, y), (x, x), (y, y))))
    return score


def _ranks(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Ranks (B, n) in each draw; ties get their mean rank."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    return ranks[:, np.searchsorted(values[order][starts], values)]


def _ratio(covariance: np.ndarray, *variances: np.ndarray) -> np.ndarray:
    """The correlation; NaN if one side is constant up to rounding."""
    scale = np.sqrt(np.prod(np.maximum(variances, 0), axis=0))
    return np.divide(covariance, scale, out=np.full_like(covariance, np.nan), where=scale > 1e-12 * scale.max())
