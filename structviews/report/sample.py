"""Which sentences a picture or a page shows, and how runs encode them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structviews.embedder import Embedder, Progress, check_finite
from structviews.errors import InputError
from structviews.evaluation.pool import Pool
from structviews.lines import text_lines
from structviews.preparation import Sentence


class Sample(NamedTuple):
    """Some sentences of a pool.

    Attributes:
        rows: ``(n,)`` which, ascending.
        texts: the sentences as text.
        sentences: to encode.
    """

    rows: np.ndarray
    texts: list[str]
    sentences: list[Sentence]

    @classmethod
    def of(cls, pool: Pool, most: int) -> "Sample":
        """All distinct sentences of a pool, or ``most`` of them, evenly spread."""
        rows = np.unique(np.linspace(0, len(pool) - 1, min(most, len(pool))).round().astype(np.int64))
        sentences = [sentence for row in rows for sentence in pool.sentences(row, row + 1)]
        return cls(rows, [pool.texts[row] for row in rows], sentences)


def read_labels(path: Path, pool: Pool, rows: np.ndarray) -> list[str]:
    """The labels of some rows of a pool, from a file with a label for each line of the text that it is from.

    Raises:
        InputError: if the file cannot be read, is too short, or has nothing for one of the sentences.
    """
    lines = text_lines(path)
    found = pool.lines[rows]
    if found.max() > len(lines):
        raise InputError(
            f"{path}: {len(lines)} lines, but a sentence of {pool.path} is from line {found.max()} of its text: "
            "give a label for each line of that text"
        )
    labels = [lines[line - 1].strip() for line in found]
    if "" in labels:
        raise InputError(f"{path}:{found[labels.index('')]}: no label, but {pool.path} has a sentence from that line")
    return labels


def prepared(sentences: Sequence[Sentence], embedders: Sequence[Embedder]) -> Sequence[Sentence]:
    """The sentences with the trees that runs need, if all their trees are by one parser that can be had; else as given.

    Then each run has them parsed, or says why it cannot.
    """
    reading = [embedder for embedder in embedders if embedder.parsers]
    if len({repr(parser) for embedder in reading for parser in embedder.parsers}) != 1:
        return sentences
    try:
        return reading[0].preparer.prepare(sentences, frozenset().union(*(embedder.needs for embedder in reading)))
    except InputError:
        return sentences


def sample_vectors(embedder: Embedder, pool: Pool, sample: Sample, progress: Progress | None = None) -> np.ndarray:
    """Vectors ``(n, d)`` of a sample.

    Raises:
        InputError: if a sentence cannot be encoded, with its place, or its vector is not finite.
    """
    with pool.naming(sample.rows):
        vectors = embedder.encode(sample.sentences, progress=progress)
        check_finite(vectors)
    return vectors
