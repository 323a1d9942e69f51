"""Word-vector files: converted once, block by block, and memory-mapped from then on.

Shapes: V words in the file, n words looked up, dim dimension of a vector.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from structviews.errors import InputError
from structviews.runtime.files import write_whole
from structviews.runtime.progress import OnProgress
from structviews.words.vector_formats import LINES_AT_ONCE, Block, VectorSource, warn_of_file

STAMP_KEY = b"structviews.vectors"
STAMP_VERSION = 1
FINGERPRINT_ROWS = 1000
# Size of the vectors in one record batch of the Arrow file.
PART_BYTES = 2**25


class WordVectors:
    """The words of a vector file and their vectors, which stay on disk until they are read.

    Attributes:
        path: the file.
        dim: dimension of a vector.
        words: ``(V,)`` the distinct words in file order.
    """

    def __init__(self, path: Path, table: pa.Table):
        self.path = path
        self.dim: int = table.schema.field("vector").type.list_size
        self.words: pa.Array = table["word"].combine_chunks()
        self._vectors = [_matrix(chunk, self.dim) for chunk in table["vector"].chunks]
        self._starts = np.cumsum([0, *map(len, self._vectors)])

    @classmethod
    def open(cls, path: str | Path, progress: OnProgress | None = None) -> Self:
        """Open a vector file: GloVe text, word2vec text or binary, fastText ``.vec``; gzipped or not.

        The format is detected from the content. The first call converts the file to a
        memory-mapped Arrow file, ``NAME.arrow`` in the same folder or, if that is not writable, in
        the user's cache folder; it is converted again if its size or modification time changes.
        Only the words are held in memory, not the vectors. If a word occurs twice, its first
        vector is kept, with a warning.

        Args:
            path: the file.
            progress: called with the number of bytes read and their total during conversion.

        Raises:
            InputError: if the file cannot be read, has none of these formats, is truncated, or has
                vectors of different dimensions or with values that are NaN or infinite.
        """
        path = Path(path)
        try:
            table = _mapped(path) or _converted(path, progress)
        except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
            raise InputError(f"{error.filename or path}: {error.strerror}: give a file of word vectors") from None
        return cls(path, table)

    def __reduce__(self) -> Any:
        return type(self).open, (self.path.absolute(),)  # pickled by its path: another process maps the file itself

    def __len__(self) -> int:
        """The number V of words."""
        return len(self.words)

    def find(self, words: pa.Array | Sequence[str]) -> np.ndarray:
        """Indices of words in the file: ``(n,)`` int64, -1 for words it does not have."""
        if not isinstance(words, pa.Array):
            words = pa.array(words, pa.string())
        encoded = words.dictionary_encode()
        places = np.fromiter((self._places.get(word, -1) for word in encoded.dictionary.to_pylist()), np.int64)
        found: np.ndarray = places[encoded.indices.to_numpy()]
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words.to_pylist())}

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Vectors ``(n, dim)``, float32, of the words at ``indices (n,)``; zeros for -1.

        Only these are read from disk, in file order.

        Raises:
            IndexError: if an index is out of range.
        """
        if len(indices) and not -1 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"indices {indices.min()} to {indices.max()}: the file has {len(self)} words")
        vectors = np.zeros((len(indices), self.dim), dtype=np.float32)
        order = np.argsort(indices, kind="stable")
        bounds = np.searchsorted(indices[order], self._starts)
        for matrix, start, begin, end in zip(self._vectors, self._starts, bounds[:-1], bounds[1:], strict=False):
            own = order[begin:end]
            vectors[own] = matrix[indices[own] - start]
        return vectors

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the words and of about a thousand evenly spaced vectors; identifies the content."""
        digest = hashlib.sha256(f"{len(self)} {self.dim}\n".encode())
        for buffer in self.words.buffers()[1:]:
            digest.update(buffer)
        digest.update(self.rows(np.arange(0, len(self), max(1, len(self) // FINGERPRINT_ROWS))).tobytes())
        return digest.hexdigest()


def save_vectors(path: Path, words: Sequence[str], vectors: np.ndarray) -> None:
    """Write a word2vec file atomically: binary if its name ends in ``.bin``, else text.

    Args:
        path: the file.
        words: ``(V,)``.
        vectors: ``(V, dim)`` float32; the text format preserves them exactly.
    """
    encode = _binary_lines if path.suffix == ".bin" else _text_lines

    def write(file: BinaryIO) -> None:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for start in range(0, len(words), LINES_AT_ONCE):
            file.write(encode(words[start : start + LINES_AT_ONCE], vectors[start : start + LINES_AT_ONCE]))

    write_whole(path, write)


def _text_lines(words: Sequence[str], vectors: np.ndarray) -> bytes:
    numbers = pa.array(vectors.reshape(-1)).cast(pa.string())
    offsets = pa.array(np.arange(len(words) + 1) * vectors.shape[1], pa.int32())
    rows = pc.binary_join(pa.ListArray.from_arrays(offsets, numbers), " ")
    return "".join(f"{word} {row}\n" for word, row in zip(words, rows.to_pylist(), strict=True)).encode()


def _binary_lines(words: Sequence[str], vectors: np.ndarray) -> bytes:
    rows = vectors.astype("<f4")
    return b"".join(word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(words, rows, strict=True))


def _matrix(vectors: pa.FixedSizeListArray, dim: int) -> np.ndarray:
    """``(rows, dim)`` without a copy."""
    matrix: np.ndarray = vectors.flatten().to_numpy().reshape(-1, dim)
    return matrix


def _stamp(path: Path) -> bytes:
    """Size and modification time of ``path``; an Arrow file with another stamp is out of date."""
    about = path.stat()
    return json.dumps({"version": STAMP_VERSION, "bytes": about.st_size, "modified": about.st_mtime_ns}).encode()


def _arrow_files(path: Path) -> tuple[Path, Path]:
    """Possible locations of the Arrow file: next to ``path``, or in the user's cache folder (XDG base directories)."""
    name = f"{path.name}.arrow"
    key = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return path.with_name(name), cache / "structviews" / f"{key}-{name}"


def _mapped(path: Path) -> pa.Table | None:
    """The memory-mapped Arrow file of ``path``; None if there is none that is up to date."""
    stamp = _stamp(path)
    for arrow in _arrow_files(path):
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(arrow)))
        except (OSError, pa.ArrowInvalid):
            continue
        if (reader.schema.metadata or {}).get(STAMP_KEY) == stamp:
            return reader.read_all()
    return None


def _converted(path: Path, progress: OnProgress | None) -> pa.Table:
    """Convert ``path`` to an Arrow file and map it."""
    with path.open("rb") as raw:
        # Several processes of a job may get here at once; on a file system without locks each of them converts.
        with suppress(OSError):
            fcntl.flock(raw, fcntl.LOCK_EX)
        table = _mapped(path)
        if table is None:
            beside, cached = _arrow_files(path)
            arrow, stamp = beside if os.access(path.parent, os.W_OK) else cached, _stamp(path)
            arrow.parent.mkdir(parents=True, exist_ok=True)
            write_whole(arrow, lambda file: _convert(path, raw, stamp, file, progress))
            table = _mapped(path)
    if table is None:
        raise InputError(f"{path}: changed while it was being read: run the command again")
    return table


def _convert(path: Path, raw: BinaryIO, stamp: bytes, file: BinaryIO, progress: OnProgress | None) -> None:
    """Write the Arrow file of the vector file ``path``, open as ``raw``."""
    seen: set[str] = set()
    n_read = 0
    source = VectorSource.of(path, raw)
    fields = [("word", pa.string()), ("vector", pa.list_(pa.float32(), source.dim))]
    schema = pa.schema(fields, metadata={STAMP_KEY: stamp})
    total = path.stat().st_size
    with pa.ipc.new_file(file, schema) as writer:
        for block in _joined(source.read()):
            n_read += len(block[0])
            words, vectors = _new_ones(*block, seen)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), source.dim)
            writer.write_batch(pa.record_batch([words, lists], schema=schema))
            if progress:
                progress(raw.tell(), total)
    if len(seen) < n_read:
        twice = n_read - len(seen)
        warn_of_file(f"{path}: {twice:,} of {n_read:,} words are duplicates: the first vector of each word is kept")


def _joined(blocks: Iterator[Block]) -> Iterator[Block]:
    """Merge blocks into larger ones, since ``rows`` loops over them."""
    words: list[pa.Array] = []
    vectors: list[np.ndarray] = []
    for block in blocks:
        words.append(block[0])
        vectors.append(block[1])
        if sum(each.nbytes for each in vectors) >= PART_BYTES:
            yield pa.concat_arrays(words), np.concatenate(vectors)
            words, vectors = [], []
    if words:
        yield pa.concat_arrays(words), np.concatenate(vectors)


def _new_ones(words: pa.Array, vectors: np.ndarray, seen: set[str]) -> tuple[pa.Array, np.ndarray]:
    """Drop words already in ``seen``, and add the others to it."""
    new = []
    for i, word in enumerate(words.to_pylist()):
        if word not in seen:
            seen.add(word)
            new.append(i)
    return (words, vectors) if len(new) == len(words) else (words.take(pa.array(new, pa.int64())), vectors[new])
