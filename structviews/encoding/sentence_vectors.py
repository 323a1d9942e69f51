"""Sentence vectors in files: row i of ``X.npy`` is the vector of line i of ``X.txt``.

Each line is a tokenised sentence (separated by spaces), without duplicates. ``X.npy`` is a two-dimensional
floating-point array in numpy's format.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import tee
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO

import numpy as np

from structviews.errors import InputError
from structviews.runtime.array_files import map_array
from structviews.runtime.files import text_lines, write_whole
from structviews.runtime.wording import counted

Tokens = tuple[str, ...]
EncodeBlocks = Callable[[Iterator[list[Tokens]]], Iterator[np.ndarray]]
# Rows checked at a time: a few hundred MB at most.
ROWS_AT_ONCE = 10_000


def write_sentences(file: Path, sentences: Iterable[Tokens]) -> None:
    """Write sentences, one per line."""
    write_whole(file, "".join(" ".join(tokens) + "\n" for tokens in sentences).encode())


def read_sentences(file: Path) -> dict[Tokens, int]:
    """Read distinct sentences with their line numbers, from 0; InputError for a file that is not of that."""
    sentences: dict[Tokens, int] = {}
    for number, text in enumerate(text_lines(file)):
        tokens = tuple(text.split())
        if not tokens:
            raise InputError(f"{file}:{number + 1}: blank line: put one sentence on each line")
        if sentences.setdefault(tokens, number) != number:
            raise InputError(f"{file}:{number + 1}: repeats the sentence of line {sentences[tokens] + 1}: remove one")
    return sentences


def read_vectors(file: Path) -> tuple[dict[Tokens, int], np.ndarray]:
    """Read the sentences of ``X.txt`` with their rows, and memory-map ``X.npy`` ``(n, d)``; no pickles.

    Raises InputError if it is not an array of finite floating-point numbers with one row per sentence.
    """
    if file.suffix != ".npy":
        raise InputError(f"{file}: not a .npy file: save the vectors with numpy.save")
    vectors = map_array(file)
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating) or not vectors.size:
        raise InputError(
            f"{file}: an array of {vectors.dtype} and shape {vectors.shape}: give floating-point numbers (n, d)"
        )
    sentences = read_sentences(file.with_suffix(".txt"))
    if len(sentences) != len(vectors):
        found, lines = counted(len(vectors), "vector"), counted(len(sentences), "line")
        raise InputError(f"{file}: {found} for the {lines} of {file.stem}.txt: give one per line")
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        with np.errstate(over="ignore"):  # infinite in single precision
            rows = vectors[start : start + ROWS_AT_ONCE].astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            line = start + bad[0] + 1
            raise InputError(f"{file}: the vector of {file.stem}.txt:{line} is not finite: encode again")
    return sentences, vectors


@contextmanager
def saved(encode: EncodeBlocks, file: Path) -> Iterator[EncodeBlocks]:
    """Wrap an encoder so that all sentences and vectors of the block are saved to ``X.npy``, the file, and ``X.txt``.

    The files are written if the block ends without an error. No sentence may be encoded twice.
    """
    sentences: list[Tokens] = []
    with tempfile.TemporaryFile(dir=file.parent) as rows:

        def encode_and_save(blocks: Iterator[list[Tokens]]) -> Iterator[np.ndarray]:
            ahead, encoded = tee(blocks)
            for vectors, block in zip(encode(ahead), encoded, strict=False):
                sentences.extend(block)
                rows.write(np.ascontiguousarray(vectors, dtype="<f4").data)
                yield vectors

        yield encode_and_save
        if sentences:
            size = rows.tell() // 4
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(sentences), size // len(sentences))}

            def write(stream: BinaryIO) -> None:
                np.lib.format.write_array_header_1_0(stream, header)
                rows.seek(0)
                copyfileobj(rows, stream)

            write_sentences(file.with_suffix(".txt"), sentences)
            write_whole(file, write)


def check_known(sentences: Sequence[Tokens], rows: dict[Tokens, int], task: str, where: Path, remedy: str) -> None:
    """Raise InputError unless all sentences of a task have a row in the file ``where``."""
    absent = [sentence for sentence in sentences if sentence not in rows]
    if absent:
        raise InputError(
            f"{where}: {len(absent):,} of {len(sentences):,} sentences of {task} are missing, such as "
            f"{' '.join(absent[0])[:60]!r}: {remedy}"
        )
