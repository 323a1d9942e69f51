"""Recall of the true neighbour: is the sentence that comes next found among 100?

For every sentence that has a next sentence in its document, the candidates are that next sentence
and 99 others drawn at random, from any document. Chance is 1 in 100.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structviews.errors import InputError
from structviews.evaluation.intervals import Proportion, proportion

CANDIDATES = 100
CHUNK = 512
"""Trials scored at once: the vectors of 512 x 100 candidates with 600 dimensions take 120 MB."""


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
    scores = np.empty(trials.candidates.shape)
    for rows in chunks(len(scores)):
        query = anchors[trials.anchors[rows]]
        # A stack of matrix products: einsum would do without BLAS.
        scores[rows] = (candidates[trials.candidates[rows]] @ query[:, :, None])[:, :, 0]
    return scores


def chunks(n: int) -> Iterator[slice]:
    """Cut ``n`` rows into slices of at most ``CHUNK``."""
    return (slice(start, start + CHUNK) for start in range(0, n, CHUNK))


def recall(scores: NDArray[np.floating], documents: NDArray[np.integer], *, k: int = 1, seed: int = 0) -> Proportion:
    """Recall at ``k``: how often column 0 is among the ``k`` highest of its row.

    A tie counts as what a random order of the tied would give, so vectors that are all alike score
    chance, not 1.

    Args:
        scores: (n, size) scores, the true candidate in column 0.
        documents: (n,) document of each anchor, for the interval (see
            :func:`structviews.evaluation.intervals.proportion`).
        k: how many of the highest scores count.
        seed: of the interval's resampling.

    Raises:
        InputError: if a score is not a finite number, or all anchors are of one document.
    """
    if not np.isfinite(scores).all():
        raise InputError("a retrieval score is not finite: the model has overflowed; train with a lower --lr")
    higher = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
    tied = (scores[:, 1:] == scores[:, :1]).sum(axis=1) + 1
    return proportion(np.clip((k - higher) / tied, 0, 1), documents, seed=seed)
