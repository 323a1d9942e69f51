"""Ranks by cosine: of the next sentence among drawn candidates, and of all vectors, which need not fit in memory.

Shapes: q queries, n vectors, d dimensions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from rich.text import Text

from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.runtime.arrays import Array, starts_of
from structviews.runtime.terminal import Table

CHUNK_BYTES = 2**27  # of candidate vectors gathered at once


@dataclass(frozen=True, slots=True)
class Trials:
    """Which sentence of several comes next, asked n times; sentences are named by their rows."""

    anchors: Array  # (n,)
    candidates: Array  # (n, size), of which column 0 is the true next sentence
    documents: Array  # (n,) of the anchors


def neighbour_trials(
    documents: Array, positions: Array, texts: Sequence[Sequence[str]], *, size: int | Sequence[int], seed: int
) -> Trials:
    """Draw ``size`` candidates, the true one among them, for every sentence whose next one is among the given ones.

    The other candidates are drawn without replacement from all sentences except the anchor, its neighbours and any
    with the same words as the anchor or its next sentence. Anchors with the same words as their next sentence are
    skipped. Of several sizes, the first that leaves a sixth undrawn counts. The m sentences are in corpus order:
    their tokens ``texts``, and their documents and positions ``(m,)``. InputError if there are too few to draw from, or
    none is followed by its next one.
    """
    m = len(texts)
    next_to = (documents[1:] == documents[:-1]) & (positions[1:] == positions[:-1] + 1)
    ids: dict[tuple[str, ...], int] = {}
    text = np.array([ids.setdefault(tuple(words), len(ids)) for words in texts])
    anchors = np.flatnonzero(next_to & (text[1:] != text[:-1]))
    remedy = "hold out more documents, or give another --corpus"
    if not len(anchors):
        raise InputError(f"none of the {m} held-out sentences is followed by its next one: {remedy}")
    previous = np.where(np.r_[False, next_to][anchors], anchors - 1, -1)
    same = np.bincount(text)[text]
    eligible = m - (same[anchors] + same[anchors + 1] + (previous >= 0)).max()
    if not isinstance(size, int):
        size = next((n for n in size if 6 * n <= 5 * eligible), size[-1])
    if eligible < size - 1:
        few = f"{m} held-out sentences are too few to draw {size - 1} candidates"
        raise InputError(f"{few}: {remedy}, or fewer --candidates")
    candidates = np.column_stack([anchors + 1, np.full((len(anchors), size - 1), -1)])
    rng = np.random.default_rng(seed)
    while len(rows := np.flatnonzero((candidates < 0).any(axis=1))):
        drawn, here = candidates[rows, 1:], anchors[rows, None]
        missing = drawn < 0
        drawn[missing] = rng.integers(m, size=missing.sum())
        drawn[repeated(drawn) | (drawn == previous[rows, None])] = -1
        drawn[(text[drawn] == text[here]) | (text[drawn] == text[here + 1])] = -1
        candidates[rows, 1:] = drawn
    return Trials(anchors, candidates, np.asarray(documents)[anchors])


def repeated(rows: Array) -> Array:
    """Mark, in each row of an (n, k) array, the entries equal to an earlier one."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    marks = np.zeros(rows.shape, dtype=bool)
    np.put_along_axis(marks, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return marks


def cosine_scores(anchors: Array, candidates: Array, trials: Trials) -> Array:
    """Cosines of the candidates with their anchors, (n, size), from vectors (m, d) of both; 0 for zero vectors."""
    asking, asked = normalised(anchors), normalised(candidates)
    n, size = trials.candidates.shape
    scores, step = np.empty((n, size)), max(CHUNK_BYTES // (size * asked[:1].nbytes), 1)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        query = asking[trials.anchors[rows]]
        # Batched matrix products: einsum would not use BLAS.
        scores[rows] = (asked[trials.candidates[rows]] @ query[:, :, None])[:, :, 0]
    return scores


class Ranks(NamedTuple):
    """Ranks of n true candidates among their rivals.

    Ties count as the expectation over a random order, so identical vectors score at chance level, not 1.
    """

    higher: Array  # (n,) number of rivals that score higher
    tied: Array  # (n,) number of candidates with the same score, including itself

    @classmethod
    def among(cls, scores: Array, right: Array) -> "Ranks":
        """Ranks of candidates that score ``right`` (n, 1) among ``scores`` (n, k), which include their own."""
        return cls((scores > right).sum(axis=1), (scores == right).sum(axis=1))

    def recalled(self, k: int) -> Array:
        """(n,) probability of a rank of at most ``k``."""
        return np.clip((k - self.higher) / self.tied, 0, 1)

    def reciprocal(self) -> Array:
        """(n,) expected reciprocal rank."""
        harmonic = np.concatenate([[0], np.cumsum(1 / np.arange(1, (self.higher + self.tied).max(initial=0) + 1))])
        return (harmonic[self.higher + self.tied] - harmonic[self.higher]) / self.tied

    def median(self) -> float:
        """Median rank, counted from 1."""
        return float(np.median(self.higher + (self.tied + 1) / 2))


def ranks_of_first(scores: Array) -> Ranks:
    """Ranks of column 0 in each row of (n, size) scores; InputError if a score is NaN or infinite."""
    if not np.isfinite(scores).all():
        raise InputError("a retrieval score is NaN or infinite: train with a lower --lr")
    return Ranks.among(scores, scores[:, :1])


FIRST_BLOCK, BLOCK_BYTES = 256, 2**26
QUERIES = 512  # scored at once


class Found(NamedTuple):
    """The nearest vectors of each query, nearest first; ties are ordered by row."""

    scores: Array  # (q, k) cosines; -inf where there are fewer than k
    rows: Array  # (q, k); -1 where there are fewer

    def of(self, query: int) -> list[tuple[float, int]]:
        """Cosines and rows of a query's nearest vectors."""
        pairs = zip(self.scores[query].tolist(), self.rows[query].tolist(), strict=True)
        return [(score, row) for score, row in pairs if row >= 0]


def scored(queries: Array, vectors: Array, hidden: Array) -> Iterator[tuple[slice, slice, Array]]:
    """Slices of queries (q, d), slices of vectors (n, d), which are read once, block by block, and their cosines.

    A block and its scores take at most ``BLOCK_BYTES``. Blocks start small and double in size, so that few scores of
    a block beat those found before it. Zero vectors score 0; the ``hidden`` rows, ascending, score -inf.
    """
    unit = normalised(queries)
    n, d = vectors.shape
    most = max(BLOCK_BYTES // (4 * max(d, QUERIES)), 1)
    start, size = 0, min(FIRST_BLOCK, most)
    while start < n:
        block = slice(start, min(start + size, n))
        candidates = normalised(np.asarray(vectors[block]))
        unwanted = hidden[np.searchsorted(hidden, block.start) : np.searchsorted(hidden, block.stop)] - block.start
        for first in range(0, len(unit), QUERIES):
            some = slice(first, min(first + QUERIES, len(unit)))
            scores = unit[some] @ candidates.T
            scores[:, unwanted] = -np.inf
            yield some, block, scores
        start, size = block.stop, min(2 * size, most)


def nearest(queries: Array, vectors: Array, k: int, itself: Array) -> Found:
    """Exact search for the k vectors (n, d), which may be memory-mapped, with the highest cosine to each query (q, d).

    ``itself`` (q,) is the row of the query itself, which is excluded; -1 for none.
    """
    found = Found(np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1))
    for some, block, cosines in scored(queries, vectors, np.empty(0, np.int64)):
        candidates = np.arange(block.start, block.stop)
        # On a tie with the last one found, the earlier row stays.
        query, position = np.nonzero((cosines > found.scores[some, -1:]) & (candidates != itself[some, None]))
        if not len(query):
            continue
        n = len(cosines)
        queried = np.concatenate([np.repeat(np.arange(n), k), query])
        scores = np.concatenate([found.scores[some].ravel(), cosines[query, position]])
        rows = np.concatenate([found.rows[some].ravel(), candidates[position]])
        order = np.lexsort((rows, -scores, queried))
        counts = np.bincount(queried, minlength=n)
        rank = np.arange(len(order)) - np.repeat(starts_of(counts), counts)
        best = order[rank < k].reshape(n, k)
        found.scores[some], found.rows[some] = scores[best], rows[best]
    return found


def count_rivals(queries: Array, vectors: Array, scores: Array, hidden: Array) -> Ranks:
    """Count the vectors (n, d) that score higher than, and equal to, a given score (q,) for each query (q, d).

    The ``hidden`` rows of the vectors, ascending, do not count.
    """
    counts = np.zeros((2, len(queries)), np.int64)
    for some, _, rivals in scored(queries, vectors, hidden):
        counts[:, some] += Ranks.among(rivals, scores[some, None])
    return Ranks(*counts)


def as_rich(queries: Sequence[str], found: Sequence[tuple[str, Found]], describe: Callable[[int], str]) -> list[Table]:
    """Tables for the terminal, one per query, with a column for each run's name and what it found.

    ``describe`` gives the sentence of a row.
    """
    tables = []
    for number, query in enumerate(queries):
        table = Table(title=Text(query), title_justify="left", show_lines=True)
        for name, _ in found:
            table.add_column(Text(name), ratio=1, overflow="fold")
        columns = [[f"{score:.3f}  {describe(row)}" for score, row in each.of(number)] for _, each in found]
        for cells in zip_longest(*columns, fillvalue=""):
            table.add_row(*map(Text, cells))
        tables.append(table)
    return tables
