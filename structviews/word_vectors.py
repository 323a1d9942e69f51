"""Files of word vectors: read once, block by block, and memory-mapped from then on.

Shapes: V words of a file, n words asked for, dim length of a vector.
"""

import fcntl
import gzip
import hashlib
import json
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from structviews.cache import write_whole
from structviews.errors import InputError

FORMATS = "GloVe text, word2vec text or binary, or fastText .vec, as it is or gzipped"
STAMP_KEY = b"structviews.vectors"
STAMP_VERSION = 1
# What is recognised by, and so the longest line of the first words.
SAMPLE_BYTES = 2**20
BLOCK_BYTES = 2**22
LINES_AT_ONCE = 4096
LONGEST_WORD = 2**16
FINGERPRINT_ROWS = 1000
SPACE, NEWLINE, RETURN = b" \n\r"
TEXT_CONTROLS = b"\t\n\v\f\r"
# Vectors of a record batch of the Arrow file.
PART_BYTES = 2**25
Progress = Callable[[int, int], None]
Block = tuple[pa.Array, np.ndarray]


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class WordVectors:
    """The words of a vector file with their vectors, which stay on disk until they are asked for.

    Attributes:
        path: the file.
        dim: length of a vector.
        words: ``(V,)`` the words in the file's order, none of them twice.
    """

    def __init__(self, path: Path, table: pa.Table):
        self.path = path
        self.dim: int = table.schema.field("vector").type.list_size
        self.words: pa.Array = table["word"].combine_chunks()
        self._vectors = [_matrix(chunk, self.dim) for chunk in table["vector"].chunks]
        self._starts = np.cumsum([0, *map(len, self._vectors)])

    @classmethod
    def open(cls, path: str | Path, progress: Progress | None = None) -> Self:
        """Open a vector file: GloVe text, word2vec text or binary, fastText ``.vec``; gzipped or not.

        What it is shows in its content. It is copied to a memory-mapped Arrow file at the first
        reading, and again when its size or time of change is another: beside it as
        ``NAME.arrow``, or in the user's cache folder where that may not be written. Memory use is
        that of the words, not of the vectors. Of a word that stands twice the first vector is
        kept, with a warning.

        Args:
            path: the file.
            progress: called with the number of bytes read and their total, at a first reading.

        Raises:
            InputError: if it cannot be read, is none of these formats, has vectors of different
                lengths or what is no finite number, or is cut short.
        """
        path = Path(path)
        try:
            table = _mapped(path) or _converted(path, progress)
        except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
            raise InputError(f"{error.filename or path}: {error.strerror}: give a file of word vectors") from None
        return cls(path, table)

    def __len__(self) -> int:
        """The number V of words."""
        return len(self.words)

    def find(self, words: pa.Array | Sequence[str]) -> np.ndarray:
        """Where words stand in the file: ``(n,)`` int64, -1 for those that it lacks."""
        if not isinstance(words, pa.Array):
            words = pa.array(words, pa.string())
        encoded = words.dictionary_encode()
        places = np.fromiter((self._places.get(word, -1) for word in encoded.dictionary.to_pylist()), np.int64)
        return places[encoded.indices.to_numpy()]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words.to_pylist())}

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Vectors ``(n, dim)``, float32, of the words at some places ``(n,)``; zeros at -1.

        Only these are read from disk, in the file's order.

        Raises:
            IndexError: for a place that the file does not have.
        """
        if len(indices) and not -1 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"places from {indices.min()} to {indices.max()} in a file of {len(self)} words")
        vectors = np.zeros((len(indices), self.dim), dtype=np.float32)
        order = np.argsort(indices, kind="stable")
        bounds = np.searchsorted(indices[order], self._starts)
        for matrix, start, begin, end in zip(self._vectors, self._starts, bounds[:-1], bounds[1:], strict=False):
            own = order[begin:end]
            vectors[own] = matrix[indices[own] - start]
        return vectors

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the words and of a thousand vectors spread evenly: whether two files are the same."""
        digest = hashlib.sha256(f"{len(self)} {self.dim}\n".encode())
        for buffer in self.words.buffers()[1:]:
            digest.update(buffer)
        digest.update(self.rows(np.arange(0, len(self), max(1, len(self) // FINGERPRINT_ROWS))).tobytes())
        return digest.hexdigest()


def save_vectors(path: Path, words: Sequence[str], vectors: np.ndarray) -> None:
    """Write a word2vec file, whole or not at all: binary where its name ends with ``.bin``, else text.

    Args:
        path: the file.
        words: ``(V,)``.
        vectors: ``(V, dim)`` float32; the text gives them back to the bit.
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
    return vectors.flatten().to_numpy().reshape(-1, dim)


def _stamp(path: Path) -> bytes:
    """What must be as it was for the Arrow file to be that of ``path``."""
    about = path.stat()
    return json.dumps({"version": STAMP_VERSION, "bytes": about.st_size, "modified": about.st_mtime_ns}).encode()


def _arrow_files(path: Path) -> tuple[Path, Path]:
    """Where the Arrow file of ``path`` may be: beside it, or in the user's cache folder (XDG base directories)."""
    name = f"{path.name}.arrow"
    key = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return path.with_name(name), cache / "structviews" / f"{key}-{name}"


def _mapped(path: Path) -> pa.Table | None:
    """The memory-mapped Arrow file of ``path`` as it is now; None if there is none."""
    stamp = _stamp(path)
    for arrow in _arrow_files(path):
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(arrow)))
        except (OSError, pa.ArrowInvalid):
            continue
        if (reader.schema.metadata or {}).get(STAMP_KEY) == stamp:
            return reader.read_all()
    return None


def _converted(path: Path, progress: Progress | None) -> pa.Table:
    """Make the Arrow file of ``path`` and map it."""
    with path.open("rb") as raw:
        # The processes of a job may all come here first; where a file system has no locks, each converts.
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
        raise InputError(f"{path}: changed while it was read: repeat the command")
    return table


def _convert(path: Path, raw: BinaryIO, stamp: bytes, file: BinaryIO, progress: Progress | None) -> None:
    """Write the Arrow file of a vector file, which is open as ``raw``."""
    seen: set[str] = set()
    n_read = 0
    source = _Source.of(path, raw)
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
        _warn(f"{path}: {twice:,} of {n_read:,} words stand there a second time: the first vector of each is kept")


def _joined(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same words in larger blocks: reading rows goes from one to the next."""
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
    """Those whose word was not seen before, and from now on is."""
    new = []
    for i, word in enumerate(words.to_pylist()):
        if word not in seen:
            seen.add(word)
            new.append(i)
    return (words, vectors) if len(new) == len(words) else (words.take(pa.array(new, pa.int64())), vectors[new])


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=5)


class _Source(NamedTuple):
    """A vector file that was recognised.

    Attributes:
        path: for messages.
        stream: its content, unpacked, from its first word on.
        dim: length of a vector.
        n_words: how many its header announces; None without a header.
        binary: whether the numbers are.
    """

    path: Path
    stream: _Stream
    dim: int
    n_words: int | None
    binary: bool

    @classmethod
    def of(cls, path: Path, raw: BinaryIO) -> Self:
        """Recognise the format by the content.

        Raises:
            InputError: if it is none that is known.
        """
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream: _Stream = _Unpacked(path, raw) if packed else raw
        sample = _fill(stream, SAMPLE_BYTES)
        first, newline, rest = sample.partition(b"\n")
        if not sample:
            raise InputError(f"{path}: empty: give {FORMATS}")
        header = first.split()
        controls = any(byte < SPACE and byte not in TEXT_CONTROLS for byte in set(rest))
        if len(header) == 2 and all(number.isdigit() for number in header) and newline:
            n_words, dim = map(int, header)
            if not n_words or not dim:
                raise InputError(f"{path}:1: {n_words} words of {dim} numbers: give a file with some")
            return cls(path, _Rewound(rest, stream), dim, n_words, controls)
        if controls or not newline:
            raise InputError(f"{path}: not word vectors: give {FORMATS}")
        # One line may be a bad one, and name its own place later.
        lines = sample[: sample.rindex(b"\n")].split(b"\n")
        ((spaces, _),) = Counter(line.rstrip().count(b" ") for line in lines).most_common(1)
        if not spaces:
            raise InputError(f"{path}:1: no numbers after {_shown(first)}: give {FORMATS}")
        return cls(path, _Rewound(sample, stream), spaces, None, False)

    def read(self) -> Iterator[Block]:
        """Words and their vectors ``(words, dim)``, block by block."""
        return self._read_binary() if self.binary else self._read_text()

    def _read_text(self) -> Iterator[Block]:
        line = first = 1 if self.n_words is None else 2
        for block in self._whole_lines():
            words, vectors = _parse(block, self.dim) or self._parse_slowly(block, line)
            self._check_words(words, line)
            line += len(words)
            if self.n_words is not None and line - first > self.n_words:
                place = f"{self.path}:{first + self.n_words}"
                raise InputError(f"{place}: more than the {self.n_words} words of line 1: correct line 1")
            yield words, vectors
        if self.n_words is not None and line - first < self.n_words:
            raise self._cut_short(line - first)

    def _whole_lines(self) -> Iterator[bytes]:
        rest = b""
        while more := self.stream.read(BLOCK_BYTES):
            block = rest + more
            end = block.rfind(b"\n") + 1
            rest = block[end:]
            if end:
                yield block[:end]
        if rest:
            if self.n_words is None:
                _warn(f"{self.path}: no line end after the last word: if the file was cut short, its vector is wrong")
            yield rest + b"\n"

    def _parse_slowly(self, block: bytes, line: int) -> tuple[pa.Array, np.ndarray]:
        """Line by line, so that the bad one can be named."""
        words, vectors = [], []
        for number, text in enumerate(block.split(b"\n")[:-1], line):
            word, *numbers = text.rstrip(b" \r").rsplit(b" ", self.dim)
            if len(numbers) != self.dim or not word:
                raise self._wrong_length(number, max(0, len(numbers) - (not word)))
            words.append(word.decode(errors="replace"))
            vectors.append([self._number(value, number) for value in numbers])
        return pa.array(words, pa.string()), np.array(vectors, dtype=np.float32)

    def _number(self, text: bytes, line: int) -> np.float32:
        try:
            with np.errstate(over="ignore"):
                value = np.float32(text)
        except ValueError:
            value = np.float32("nan")
        if not np.isfinite(value):
            raise InputError(f"{self.path}:{line}: {_shown(text)} is not a finite number: correct or delete the line")
        return value

    def _check_words(self, words: pa.Array, line: int) -> None:
        """A word may have spaces in it; one that ends with a number is a line with too many."""
        for i in np.flatnonzero(pc.match_substring(words, " ")):
            word = words[i].as_py()
            surplus = 0
            for piece in reversed(word.split(" ")[1:]):
                if not _is_number(piece):
                    break
                surplus += 1
            if surplus:
                raise self._wrong_length(line + int(i), self.dim + surplus)

    def _wrong_length(self, line: int, found: int) -> InputError:
        wanted = "line 1 says" if self.n_words is not None else "most lines have"
        return InputError(
            f"{self.path}:{line}: {found} numbers after the word where {wanted} {self.dim}: correct or delete the "
            "line; if it is the last one, the file was cut short: copy it again"
        )

    def _cut_short(self, n_words: int) -> InputError:
        return InputError(f"{self.path}: cut short after {n_words} of {self.n_words} words: copy it again")

    def _read_binary(self) -> Iterator[Block]:
        size, n_words, buffer, done = 4 * self.dim, self.n_words or 0, b"", 0
        while done < n_words:
            more = self.stream.read(max(BLOCK_BYTES, 2 * size))
            if not more:
                raise self._cut_short(done)
            buffer += more
            words: list[str] = []
            vectors: list[bytes] = []
            at = 0
            # Where a word ends is known only when the one before it is.
            while done + len(words) < n_words:
                space = buffer.find(b" ", at, at + LONGEST_WORD)
                if space < 0 and len(buffer) - at >= LONGEST_WORD:
                    place = f"{self.path}: word {done + len(words) + 1}"
                    raise InputError(f"{place} has no end: not a word2vec file, or damaged: copy it again")
                end = space + 1 + size
                if space < 0 or end > len(buffer):
                    break
                words.append(buffer[at:space].lstrip(b"\n").decode(errors="replace"))
                vectors.append(buffer[space + 1 : end])
                at = end
            buffer = buffer[at:]
            if words:
                matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, self.dim)
                self._check_finite(matrix, words, done)
                done += len(words)
                yield pa.array(words, pa.string()), matrix
        if (buffer + self.stream.read(1)).strip(b"\n"):
            raise InputError(f"{self.path}: goes on after the {n_words} words that line 1 says: copy it again")

    def _check_finite(self, matrix: np.ndarray, words: Sequence[str], done: int) -> None:
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(bad):
            place = f"{self.path}: word {done + bad[0] + 1}, {words[bad[0]]!r}"
            raise InputError(f"{place}: its vector has what is not a finite number: copy the file again")


def _parse(block: bytes, dim: int) -> tuple[pa.Array, np.ndarray] | None:
    """Words and vectors ``(lines, dim)`` of whole lines; None if not all are well made.

    From the right: a word may have spaces in it, as some of GloVe's have.
    """
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(text == NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    # fastText ends lines with a space.
    while (loose := (ends > starts) & np.isin(text[ends - 1], (SPACE, RETURN))).any():
        ends = ends - loose
    spaces = np.flatnonzero(text == SPACE)
    firsts = np.searchsorted(spaces, ends) - dim
    if (firsts < 0).any() or (spaces[firsts] <= starts).any():
        return None
    number_starts = spaces[firsts[:, None] + np.arange(dim)] + 1
    number_ends = np.concatenate([number_starts[:, 1:] - 1, ends[:, None]], axis=1)
    in_words = _ranges(starts, spaces[firsts])
    numbers = text.copy()
    numbers[in_words] = SPACE
    words = _strings(text[in_words], spaces[firsts] - starts)
    try:
        words.validate(full=True)
        found = _strings(numbers.tobytes().translate(None, b" \n\r"), (number_ends - number_starts).ravel())
        vectors = found.cast(pa.float32()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return (words, vectors.reshape(-1, dim)) if np.isfinite(vectors).all() else None


def _ranges(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """``start, start + 1, ..., end - 1`` of each pair, end to end."""
    lengths = ends - starts
    return np.arange(lengths.sum()) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)


def _strings(text: np.ndarray | bytes, lengths: np.ndarray) -> pa.StringArray:
    """A text cut into pieces of the given lengths.

    Raises:
        pa.ArrowInvalid: if they are not as long as the text together.
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if offsets[-1] != len(text):
        raise pa.ArrowInvalid(f"{offsets[-1]} bytes of {len(text)}")
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="replace"))


def _fill(stream: _Stream, size: int) -> bytes:
    """``size`` bytes, or all there are; one reading may give fewer."""
    parts = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Rewound:
    """A stream with what was read of it put back."""

    def __init__(self, head: bytes, stream: _Stream):
        self._head = head
        self._stream = stream

    def read(self, size: int) -> bytes:
        head, self._head = self._head, b""
        return head or self._stream.read(size)


class _Unpacked:
    """What a gzipped file holds."""

    def __init__(self, path: Path, raw: BinaryIO):
        self._path = path
        self._stream = gzip.GzipFile(fileobj=raw)

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self._path}: damaged or cut short ({error}): copy it again") from None
