"""Sample the sentences for a plot or page, and encode them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.representation import check_finite
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool
from structviews.runtime.files import text_lines
from structviews.runtime.terminal import OnProgress


class Sample(NamedTuple):
    """A sample of a pool's sentences.

    Attributes:
        rows: ``(n,)`` rows in the pool, ascending.
        texts: the sentences as text.
        sentences: the sentences as encoder input.
    """

    rows: np.ndarray
    texts: list[str]
    sentences: list[Sentence]

    @classmethod
    def of(cls, pool: Pool, most: int) -> "Sample":
        """All distinct sentences of a pool, or at most ``most`` evenly spaced ones."""
        rows = np.unique(np.linspace(0, len(pool) - 1, min(most, len(pool))).round().astype(np.int64))
        sentences = [sentence for row in rows for sentence in pool.sentences(row, row + 1)]
        return cls(rows, [pool.texts[row] for row in rows], sentences)


def read_labels(path: Path, pool: Pool, rows: np.ndarray) -> list[str]:
    """Read the labels of some rows of a pool from a file with one label per line of the source text.

    Raises:
        InputError: if the file cannot be read, is too short, is longer than a text with one sentence per line, or lacks
            a label for one of the sentences.
    """
    lines = text_lines(path)
    found = pool.lines[rows]
    if pool.path.is_file() and len(lines) > (n := len(text_lines(pool.path))):
        raise InputError(f"{path}: {len(lines)} lines, but {pool.path} has {n}: give one label per line of that text")
    if found.max() > len(lines):
        raise InputError(
            f"{path}: {len(lines)} lines, but a sentence of {pool.path} is from line {found.max()} of its text: "
            "give one label per line of that text"
        )
    labels = [lines[line - 1].strip() for line in found]
    if "" in labels:
        raise InputError(f"{path}:{found[labels.index('')]}: no label, but {pool.path} has a sentence from that line")
    return labels


def prepared(sentences: Sequence[Sentence], embedders: Sequence[Embedder]) -> Sequence[Sentence]:
    """Parse the sentences once if all runs share an installed parser; otherwise return them unchanged.

    In that case each run parses them itself, or reports why it cannot.
    """
    reading = [embedder for embedder in embedders if embedder.parsers]
    if len({repr(parser) for embedder in reading for parser in embedder.parsers}) != 1:
        return sentences
    try:
        return reading[0].preparer.prepare(sentences, frozenset().union(*(embedder.needs for embedder in reading)))
    except InputError:
        return sentences


def sample_vectors(embedder: Embedder, pool: Pool, sample: Sample, progress: OnProgress | None = None) -> np.ndarray:
    """Vectors ``(n, d)`` of a sample.

    Raises:
        InputError: if a sentence cannot be encoded or its vector is not finite; names the sentence's place.
    """
    with pool.naming(sample.rows):
        vectors = embedder.encode(sample.sentences, show_progress_bar=progress)
        check_finite(vectors)
    return vectors
