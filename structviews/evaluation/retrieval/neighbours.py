"""Exact search by cosine over vectors that need not fit in memory, and what several runs find side by side.

Shapes: q queries, n vectors, d dimensions.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.text import Text

from structviews.encoding.representation import normalised
from structviews.evaluation.retrieval.ranking import Ranks
from structviews.runtime.terminal import Table as RichTable

FIRST_BLOCK = 256
BLOCK_BYTES = 2**26
QUERIES = 512
"""Queries scored at once."""


class Found(NamedTuple):
    """The nearest vectors of each query, nearest first; ties are ordered by row.

    Attributes:
        scores: (q, k) cosines; -inf where there are fewer than k.
        rows: (q, k) rows of the vectors; -1 where there are fewer than k.
    """

    scores: np.ndarray
    rows: np.ndarray

    def of(self, query: int) -> list[tuple[float, int]]:
        """Cosines and rows of a query's nearest vectors."""
        pairs = zip(self.scores[query].tolist(), self.rows[query].tolist(), strict=True)
        return [(score, row) for score, row in pairs if row >= 0]


def blocks(n: int, d: int) -> Iterator[slice]:
    """Cut n rows of d float32 numbers into slices; each slice and its scores take at most ``BLOCK_BYTES``.

    Slices start small and double in size, so that few scores of a block beat those found before it.
    """
    most = max(BLOCK_BYTES // (4 * max(d, QUERIES)), 1)
    start, size = 0, min(FIRST_BLOCK, most)
    while start < n:
        yield slice(start, min(start + size, n))
        start, size = start + size, min(2 * size, most)


def scored(queries: np.ndarray, vectors: np.ndarray, hidden: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Cosines of queries ``(q, d)`` with vectors ``(n, d)``; the vectors are read once, block by block.

    Args:
        queries: float32.
        vectors: float32, such as a memory-mapped array.
        hidden: (h,) rows of vectors to exclude, ascending: they score -inf.

    Yields:
        The slice of queries, the slice of vectors, and their cosines; 0 for zero vectors.
    """
    unit = normalised(queries)
    for block in blocks(*vectors.shape):
        candidates = normalised(np.asarray(vectors[block]))
        unwanted = hidden[np.searchsorted(hidden, block.start) : np.searchsorted(hidden, block.stop)] - block.start
        for start in range(0, len(unit), QUERIES):
            some = slice(start, min(start + QUERIES, len(unit)))
            scores = unit[some] @ candidates.T
            scores[:, unwanted] = -np.inf
            yield some, block, scores


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int, itself: np.ndarray | None = None) -> Found:
    """Exact search for the k vectors with the highest cosine to each query.

    Args:
        queries: (q, d) float32.
        vectors: (n, d) float32, such as a memory-mapped array.
        k: number of neighbours, at least 1.
        itself: (q,) row of the query itself, which is excluded; -1 for none.
    """
    found = Found(np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1))
    own = np.full(len(queries), -1) if itself is None else itself
    for some, block, scores in scored(queries, vectors, np.empty(0, np.int64)):
        rows = np.arange(block.start, block.stop)
        # On a tie with the last one found, the earlier row stays.
        query, position = np.nonzero((scores > found.scores[some, -1:]) & (rows != own[some, None]))
        _merge(found, some, query, rows[position], scores[query, position])
    return found


def _merge(found: Found, some: slice, query: np.ndarray, row: np.ndarray, score: np.ndarray) -> None:
    """Merge rows with their scores into ``found``; ``query`` is the index of each within ``some``."""
    k = found.rows.shape[1]
    if not len(query):
        return
    n = len(found.rows[some])
    queries = np.concatenate([np.repeat(np.arange(n), k), query])
    values = np.concatenate([found.scores[some].ravel(), score])
    rows = np.concatenate([found.rows[some].ravel(), row])
    order = np.lexsort((rows, -values, queries))
    counts = np.bincount(queries, minlength=n)
    position = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    best = order[position < k].reshape(n, k)
    found.scores[some], found.rows[some] = values[best], rows[best]


def count_rivals(queries: np.ndarray, vectors: np.ndarray, scores: np.ndarray, hidden: np.ndarray) -> Ranks:
    """Count the vectors that score higher than, and equal to, a given score for each query.

    Args:
        queries: (q, d) float32.
        vectors: (n, d) float32, such as a memory-mapped array.
        scores: (q,) float32 cosines.
        hidden: (h,) rows of vectors to exclude, ascending.
    """
    higher, tied = np.zeros((2, len(queries)), np.int64)
    for some, _, rivals in scored(queries, vectors, hidden):
        higher[some] += (rivals > scores[some, None]).sum(axis=1)
        tied[some] += (rivals == scores[some, None]).sum(axis=1)
    return Ranks(higher, tied)


def as_rich(
    queries: Sequence[str], found: Sequence[tuple[str, Found]], describe: Callable[[int], str]
) -> list[RichTable]:
    """Terminal output: one table per query, one column per run.

    Args:
        queries: the q query sentences.
        found: each run's name, and what it found.
        describe: gives the sentence of a row.
    """
    tables = []
    for number, query in enumerate(queries):
        table = RichTable(title=Text(query), title_justify="left", show_lines=True)
        for name, _ in found:
            table.add_column(Text(name), ratio=1, overflow="fold")
        columns = [[f"{score:.3f}  {describe(row)}" for score, row in each.of(number)] for _, each in found]
        for rank in range(max(map(len, columns), default=0)):
            table.add_row(*(Text(column[rank]) if rank < len(column) else "" for column in columns))
        tables.append(table)
    return tables
