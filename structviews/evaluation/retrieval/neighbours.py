"""Exact search by cosine over vectors that need not fit in memory, and what several runs find side by side.

Shapes: q queries, n vectors, d dimensions.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.text import Text

from structviews.encoding.representation import normalised
from structviews.evaluation.retrieval.ranking import Ranks
from structviews.runtime.arrays import starts_of
from structviews.runtime.terminal import Table

FIRST_BLOCK, BLOCK_BYTES = 256, 2**26
QUERIES = 512  # scored at once


class Found(NamedTuple):
    """The nearest vectors of each query, nearest first: cosines (q, k) and rows (q, k); ties are ordered by row.

    Where there are fewer than k, the cosine is -inf and the row -1.
    """

    scores: np.ndarray
    rows: np.ndarray

    def of(self, query: int) -> list[tuple[float, int]]:
        """Cosines and rows of a query's nearest vectors."""
        pairs = zip(self.scores[query].tolist(), self.rows[query].tolist(), strict=True)
        return [(score, row) for score, row in pairs if row >= 0]


def scored(queries: np.ndarray, vectors: np.ndarray, hidden: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Cosines of queries ``(q, d)`` with vectors ``(n, d)``, which are read once, block by block.

    A block and its scores take at most ``BLOCK_BYTES``. Blocks start small and double in size, so that few scores of
    a block beat those found before it. The ``hidden`` rows, ascending, score -inf.

    Yields:
        The slice of queries, the slice of vectors, and their cosines; 0 for zero vectors.
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


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int, itself: np.ndarray | None = None) -> Found:
    """Exact search for the k vectors (n, d), which may be memory-mapped, with the highest cosine to each query (q, d).

    ``itself`` (q,) is the row of the query itself, which is excluded; -1 for none.
    """
    found = Found(np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1))
    own = np.full(len(queries), -1) if itself is None else itself
    for some, block, cosines in scored(queries, vectors, np.empty(0, np.int64)):
        candidates = np.arange(block.start, block.stop)
        # On a tie with the last one found, the earlier row stays.
        query, position = np.nonzero((cosines > found.scores[some, -1:]) & (candidates != own[some, None]))
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


def count_rivals(queries: np.ndarray, vectors: np.ndarray, scores: np.ndarray, hidden: np.ndarray) -> Ranks:
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
        for rank in range(max(map(len, columns), default=0)):
            table.add_row(*(Text(column[rank]) if rank < len(column) else "" for column in columns))
        tables.append(table)
    return tables
