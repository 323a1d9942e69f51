"""Recall of the true neighbour: is the sentence that comes next found among 100, or 1,000?

For every sentence that has a next sentence in its document, the candidates are that next sentence
and others drawn at random, from any document. Chance of the first place is 1 in their number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structviews.errors import InputError
from structviews.evaluation.intervals import Proportion, proportion

CANDIDATES = 100
CHUNK_BYTES = 2**27
"""Candidates' vectors that are gathered at once."""


@dataclass(frozen=True, slots=True)
class Trials:
    """Anchors and the candidates to rank, as row numbers of the sentences.

    Attributes:
        anchors: (n,) row of each anchor.
        candidates: (n, size) rows; column 0 is the true next sentence.
        documents: (n,) document of each anchor.
    """

    anchors: NDArray[np.int64]
    candidates: NDArray[np.int64]
    documents: NDArray[np.int64]


def neighbour_trials(
    documents: NDArray[np.integer],
    positions: NDArray[np.integer],
    texts: Sequence[Sequence[str]],
    *,
    size: int = CANDIDATES,
    seed: int = 0,
) -> Trials:
    """Draw the candidates of every sentence whose next sentence is there.

    The others are drawn without replacement from all sentences but the anchor, its neighbours and
    whatever has the same words as the anchor or its next sentence. An anchor with the same words as
    its next sentence is left out.

    Args:
        documents: (m,) document of each sentence, in the order of the corpus.
        positions: (m,) position of each sentence in its document.
        texts: the ``m`` sentences' words.
        size: number of candidates, the true one included.
        seed: of the drawing.

    Raises:
        InputError: if no sentence has its next one, or there are too few sentences to draw from.
    """
    m = len(texts)
    next_to = (documents[1:] == documents[:-1]) & (positions[1:] == positions[:-1] + 1)
    ids: dict[tuple[str, ...], int] = {}
    text = np.array([ids.setdefault(tuple(words), len(ids)) for words in texts])
    anchors = np.flatnonzero(next_to & (text[1:] != text[:-1]))
    if not len(anchors):
        raise InputError(f"none of the {m} held-out sentences is followed by its next one: hold out more documents")
    previous = np.where(np.r_[False, next_to][anchors], anchors - 1, -1)
    same = np.bincount(text)[text]
    eligible = m - (same[anchors] + same[anchors + 1] + (previous >= 0)).max()
    if eligible < size - 1:
        raise InputError(f"{m} held-out sentences are too few to draw {size - 1} candidates: hold out more documents")

    candidates = np.column_stack([anchors + 1, np.full((len(anchors), size - 1), -1)])
    rng = np.random.default_rng(seed)
    while (missing := candidates < 0).any():
        candidates[missing] = rng.integers(m, size=missing.sum())
        drawn = candidates[:, 1:]
        drawn[repeated(drawn) | (drawn == previous[:, None])] = -1
        drawn[(text[drawn] == text[anchors, None]) | (text[drawn] == text[anchors + 1, None])] = -1
    return Trials(anchors, candidates, np.asarray(documents)[anchors])


def repeated(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark, in each row of an (n, k) array, the entries equal to one on their left."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    marks = np.zeros(rows.shape, dtype=bool)
    np.put_along_axis(marks, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return marks


def cosine_scores(vectors: NDArray[np.floating], trials: Trials) -> NDArray[np.float64]:
    """Score candidates by the cosine of (m, d) vectors with the anchor's; (n, size), 0 for a zero vector."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, 1)
    return inner_products(unit, unit, trials)


def inner_products(
    anchors: NDArray[np.floating], candidates: NDArray[np.floating], trials: Trials
) -> NDArray[np.float64]:
    """Inner products of (m, d) anchor vectors with (m, d) candidate vectors; (n, size)."""
    n, size = trials.candidates.shape
    scores = np.empty((n, size))
    for rows in chunks(n, size * candidates[:1].nbytes):
        query = anchors[trials.anchors[rows]]
        # A stack of matrix products: einsum would do without BLAS.
        scores[rows] = (candidates[trials.candidates[rows]] @ query[:, :, None])[:, :, 0]
    return scores


def chunks(n: int, row_bytes: int) -> Iterator[slice]:
    """Cut ``n`` rows of so many bytes into slices of at most ``CHUNK_BYTES``, or of one row."""
    size = max(CHUNK_BYTES // row_bytes, 1)
    return (slice(start, start + size) for start in range(0, n, size))


class Ranks(NamedTuple):
    """Where each of n true candidates stands among its rivals.

    A tie counts as what a random order of the tied would give, so vectors that are all alike score
    chance, not 1.

    Attributes:
        higher: (n,) how many rivals score higher.
        tied: (n,) how many candidates have its very score, itself included.
    """

    higher: NDArray[np.integer]
    tied: NDArray[np.integer]

    def recalled(self, k: int) -> NDArray[np.float64]:
        """(n,) how often it is among the first ``k``, from 0 to 1."""
        return np.clip((k - self.higher) / self.tied, 0, 1)

    def reciprocal(self) -> NDArray[np.float64]:
        """(n,) mean of 1 / rank."""
        harmonic = np.concatenate([[0], np.cumsum(1 / np.arange(1, (self.higher + self.tied).max(initial=0) + 1))])
        return (harmonic[self.higher + self.tied] - harmonic[self.higher]) / self.tied

    def median(self) -> float:
        """Median rank, from 1."""
        return float(np.median(self.higher + (self.tied + 1) / 2))


def ranks_of_first(scores: NDArray[np.floating]) -> Ranks:
    """Ranks of column 0 in each row of (n, size) scores.

    Raises:
        InputError: if a score is not a finite number.
    """
    if not np.isfinite(scores).all():
        raise InputError("a retrieval score is not finite: the model has overflowed; train with a lower --lr")
    higher = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
    return Ranks(higher, (scores[:, 1:] == scores[:, :1]).sum(axis=1) + 1)


def recall(scores: NDArray[np.floating], documents: NDArray[np.integer], *, k: int = 1, seed: int = 0) -> Proportion:
    """Recall at ``k``: how often column 0 is among the ``k`` highest of its row, see :class:`Ranks`.

    Args:
        scores: (n, size) scores, the true candidate in column 0.
        documents: (n,) document of each anchor, for the interval (see
            :func:`structviews.evaluation.intervals.proportion`).
        k: how many of the highest scores count.
        seed: of the interval's resampling.

    Raises:
        InputError: if a score is not a finite number, or all anchors are of one document.
    """
    return proportion(ranks_of_first(scores).recalled(k), documents, seed=seed)
