"""Vectors of sentences in files: row i of ``X.npy`` is the vector of line i of ``X.txt``.

A line is a sentence, its words apart with spaces; no sentence stands twice. ``X.npy`` is numpy's format, two
dimensions of floating-point numbers.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO

import numpy as np

from structviews.cache import write_whole
from structviews.errors import InputError

Tokens = tuple[str, ...]
Encode = Callable[[list[Tokens]], np.ndarray]
# Rows whose numbers are looked at together: some hundred MB at most.
BLOCK = 10_000


def write_sentences(file: Path, sentences: Iterable[Tokens]) -> None:
    """Write sentences, one a line."""
    content = "".join(" ".join(tokens) + "\n" for tokens in sentences).encode()
    write_whole(file, lambda stream: stream.write(content))


def read_sentences(file: Path) -> dict[Tokens, int]:
    """Sentences and their lines, from 0.

    Raises:
        InputError: if the file cannot be read, is not UTF-8, or has a blank line or a sentence twice.
    """
    try:
        lines = file.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(
            f"{file}: {(error.strerror or 'cannot be read').lower()}; it has the sentences, one a line"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{file}:{line}: byte {error.start} is not UTF-8; convert the file") from None
    sentences: dict[Tokens, int] = {}
    for number, text in enumerate(lines if lines[-1] else lines[:-1]):
        tokens = tuple(text.split())
        if not tokens:
            raise InputError(f"{file}:{number + 1}: a blank line; each line is a sentence and has a vector")
        if sentences.setdefault(tokens, number) != number:
            raise InputError(f"{file}:{number + 1}: the sentence of line {sentences[tokens] + 1} again; give it once")
    return sentences


def read_vectors(file: Path) -> tuple[dict[Tokens, int], np.ndarray]:
    """The sentences of ``X.txt`` and their rows, and ``X.npy`` ``(n, d)``, mapped from disk.

    Args:
        file: ``X.npy``. Nothing in it is executed: pickled objects are refused.

    Raises:
        InputError: if it is no array of finite floating-point numbers with a row for each sentence.
    """
    if file.suffix != ".npy":
        raise InputError(f"{file}: not a .npy file; save the vectors with numpy.save")
    try:
        vectors = np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{file}: {(error.strerror or 'cannot be read').lower()}; give a .npy file") from None
    except (ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: not an array of numbers ({reason}); save one with numpy.save") from None
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating) or not vectors.size:
        raise InputError(
            f"{file}: an array of {vectors.dtype} and shape {vectors.shape}; give floating-point numbers (n, d)"
        )
    sentences = read_sentences(file.with_suffix(".txt"))
    if len(sentences) != len(vectors):
        raise InputError(
            f"{file}: {len(vectors)} vectors for the {len(sentences)} lines of {file.stem}.txt; give one each"
        )
    for start in range(0, len(vectors), BLOCK):
        bad = np.flatnonzero(~np.isfinite(vectors[start : start + BLOCK].astype(np.float32)).all(axis=1))
        if len(bad):
            line = start + bad[0] + 1
            raise InputError(
                f"{file}: the vector of {file.stem}.txt:{line} has numbers that are not finite; encode again"
            )
    return sentences, vectors


@contextmanager
def saved(encode: Encode, file: Path) -> Iterator[Encode]:
    """The same encoder; the sentences and vectors that it is asked for in the block go to ``X.txt`` and ``X.npy``.

    The files appear when the block ends well; no sentence may be asked for twice.

    Args:
        encode: from ``n`` sentences to vectors (n, d).
        file: ``X.npy``, in a folder that is there.
    """
    sentences: list[Tokens] = []
    with tempfile.TemporaryFile(dir=file.parent) as rows:

        def encode_and_keep(given: list[Tokens]) -> np.ndarray:
            vectors = np.ascontiguousarray(encode(given), dtype="<f4")
            sentences.extend(given)
            rows.write(vectors.data)
            return vectors

        yield encode_and_keep
        if sentences:
            size = rows.tell() // 4
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(sentences), size // len(sentences))}

            def write(stream: BinaryIO) -> None:
                np.lib.format.write_array_header_1_0(stream, header)
                rows.seek(0)
                copyfileobj(rows, stream)

            write_sentences(file.with_suffix(".txt"), sentences)
            write_whole(file, write)


def check_known(sentences: Sequence[Tokens], known: dict[Tokens, int], task: str, where: Path, remedy: str) -> None:
    """Raise InputError unless each of a task's sentences is known."""
    absent = [sentence for sentence in sentences if sentence not in known]
    if absent:
        raise InputError(
            f"{where}: {len(absent):,} of {len(sentences):,} sentences of {task} are not in it, such as "
            f"{' '.join(absent[0])[:60]!r}: {remedy}"
        )
