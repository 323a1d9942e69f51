"""Readers for the word-vector formats, block by block: GloVe, word2vec and fastText's text and binary files.

Shapes: V words in the file, dim dimension of a vector.
"""

import gzip
import os
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.errors import InputError
from structviews.settings import MOST_DIMENSIONS
from structviews.words.sub_words import LONGEST_NGRAM, SubWords

FORMATS = "GloVe text, word2vec text or binary or fastText .vec, plain or gzipped, or an unpacked fastText .bin"
# Bytes read to detect the format; also the longest first line accepted.
SAMPLE_BYTES = 2**20
BLOCK_BYTES = 2**22
# Of words alone, whose n-grams take far more memory.
WORD_BYTES = 2**16
LONGEST_WORD = 2**16
# Digits of a header's number, and bytes of a vector's.
LONGEST_NUMBER = 18
NUMBER_BYTES = 64
SPACE, NEWLINE, RETURN = b" \n\r"
TEXT_CONTROLS = b"\t\n\v\f\r"
# fastText's files begin with it.
MAGIC = struct.pack("<i", 793712314)
# Magic number, version, twelve settings and a probability; how many entries, words, labels, tokens and pruned ones.
HEADER, ENTRIES = struct.Struct("<14id"), struct.Struct("<3i2q")
# Flag of quantised vectors, rows, columns.
MATRIX = struct.Struct("<?2q")
# After a word and the byte 0: its frequency and its type.
AFTER_WORD = 8 + 1
NEWEST_VERSION, SUPERVISED = 12, 3
# fastText's end of a line has no n-grams.
END_OF_LINE = b"</s>"
Block = tuple[pa.Array, np.ndarray]


class VectorSource(NamedTuple):
    """A vector file of a known format: its uncompressed content from the first word on.

    ``n_words`` is that of the header, None without one; ``binary`` says whether the vectors are.
    """

    path: Path
    stream: BinaryIO
    dim: int
    n_words: int | None
    binary: bool

    @classmethod
    def of(cls, path: Path, raw: BinaryIO) -> Self:
        """Detect the format from the content; InputError if it is unknown."""
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream: Any = _Unpacked(path, raw) if packed else raw
        sample = stream.read(SAMPLE_BYTES)
        first, newline, rest = sample.partition(b"\n")
        if not sample:
            raise InputError(f"{path}: empty: give {FORMATS}")
        header = first.split()
        controls = any(byte < SPACE and byte not in TEXT_CONTROLS for byte in set(rest))
        if len(header) == 2 and all(number.isdigit() for number in header) and newline:
            if max(map(len, header)) > LONGEST_NUMBER or int(header[1]) > MOST_DIMENSIONS:
                words, size = map(_shown, header)
                raise InputError(f"{path}:1: {words} words of dimension {size}, more than any file has: copy it again")
            n_words, dim = map(int, header)
            if not n_words or not dim:
                raise InputError(f"{path}:1: {n_words} words of dimension {dim}: give a file that is not empty")
            stream.seek(len(first) + 1)
            return cls(path, stream, dim, n_words, controls)
        if controls or not newline:
            raise InputError(f"{path}: not word vectors: give {FORMATS}")
        # A single bad line does not matter here; reading it later raises an error with its number.
        lines = sample[: sample.rindex(b"\n")].split(b"\n")
        ((spaces, _),) = Counter(line.rstrip().count(b" ") for line in lines).most_common(1)
        if not spaces:
            raise InputError(f"{path}:1: no numbers after {_shown(first)}: give {FORMATS}")
        stream.seek(0)
        return cls(path, stream, spaces, None, False)

    def read(self) -> Iterator[Block]:
        """Words and their vectors ``(words, dim)``, block by block."""
        if self.binary:
            yield from self._read_binary()
            return
        line = first = 1 if self.n_words is None else 2
        for block in self._whole_lines():
            words, vectors = _parse(block, self.dim) or self._parse_slowly(block, line)
            line += len(words)
            if self.n_words is not None and line - first > self.n_words:
                where = f"{self.path}:{first + self.n_words}"
                raise InputError(f"{where}: more words than the {self.n_words} in the header: correct line 1")
            yield words, vectors
        if self.n_words is not None and line - first < self.n_words:
            raise InputError(f"{self.path}: truncated after {line - first} of {self.n_words} words: copy it again")

    def _whole_lines(self) -> Iterator[bytes]:
        rest, line = b"", 1 if self.n_words is None else 2
        longest = LONGEST_WORD + NUMBER_BYTES * self.dim
        while more := self.stream.read(BLOCK_BYTES):
            block = rest + more
            end = block.rfind(b"\n") + 1
            rest = block[end:]
            line += block.count(b"\n")
            if end:
                yield block[:end]
            if len(rest) > max(longest, BLOCK_BYTES):
                fault = f"longer than a word and {self.dim} numbers, {longest:,} bytes"
                raise InputError(f"{self.path}:{line}: {fault}: correct or delete the line")
        if rest:
            if self.n_words is None:
                message = "no newline at the end: if the file was truncated, the last vector is wrong"
                warnings.warn(f"{self.path}: {message}", stacklevel=4)
            yield rest + b"\n"

    def _parse_slowly(self, block: bytes, line: int) -> Block:
        """What ``_parse`` refuses, line by line: unusual words and numbers; InputError for a line that is invalid."""
        words, vectors = [], []
        for number, text in enumerate(block.split(b"\n")[:-1], line):
            # From the right, as words may contain spaces, as some of GloVe's do.
            word, *values = text.rstrip(b" \r").rsplit(b" ", self.dim)
            # But one that ends in a number means that the line has too many of them.
            surplus = [*map(_number, reversed(word.split(b" ")[1:])), None].index(None)
            if len(values) != self.dim or not word or surplus:
                found = max(0, len(values) + surplus - (not word))
                expected = "the header says" if self.n_words is not None else "most lines have"
                raise InputError(
                    f"{self.path}:{number}: {found} numbers after the word, but {expected} {self.dim}: correct or "
                    "delete the line; if it is the last one, the file was truncated: copy it again"
                )
            with np.errstate(over="ignore"):
                vector = np.array([*map(_number, values)], np.float64).astype(np.float32)
            for i in np.flatnonzero(~np.isfinite(vector))[:1]:
                where = f"{self.path}:{number}"
                raise InputError(f"{where}: {_shown(values[i])} is not a finite number: correct or delete the line")
            words.append(word.decode(errors="replace"))
            vectors.append(vector)
        return pa.array(words, pa.string()), np.stack(vectors)

    def _read_binary(self) -> Iterator[Block]:
        done, size = 0, 4 * self.dim
        for records in _records(self.path, self.stream, b" ", size, self.n_words or 0, BLOCK_BYTES, is_all=True):
            words = [word.lstrip(b"\n").decode(errors="replace") for word, _ in records]
            vectors = np.frombuffer(b"".join(vector for _, vector in records), "<f4").reshape(-1, self.dim)
            _check_finite(self.path, vectors, words, done)
            done += len(words)
            yield pa.array(words, pa.string()), vectors


def _records(
    path: Path, stream: BinaryIO, end: bytes, size: int, count: int, at_once: int, is_all: bool = False
) -> Iterator[list[tuple[bytes, bytes]]]:
    """``count`` words, each before the byte ``end`` and ``size`` bytes that belong to it, block by block.

    Raises InputError if there are fewer, a word does not end, or, if these are ``all`` of the file, something follows.
    """
    buffer, done = b"", 0
    while done < count:
        more = stream.read(max(at_once, 2 * size))
        if not more:
            raise InputError(f"{path}: truncated after {done} of {count} words: copy it again")
        buffer += more
        records, at = list[tuple[bytes, bytes]](), 0
        # The end of a word is only known once the previous one has been read.
        while done + len(records) < count:
            stop = buffer.find(end, at, at + LONGEST_WORD)
            if stop < 0 and len(buffer) - at >= LONGEST_WORD:
                where = f"{path}: word {done + len(records) + 1}"
                raise InputError(f"{where} does not end: damaged, or not a file of word vectors: copy it again")
            if stop < 0 or stop + 1 + size > len(buffer):
                break
            records.append((buffer[at:stop], buffer[stop + 1 : stop + 1 + size]))
            at = stop + 1 + size
        buffer = buffer[at:]
        done += len(records)
        if records:
            yield records
    if is_all and (buffer + stream.read(1)).strip(b"\n"):
        raise InputError(f"{path}: has data after the {count} words of its header: copy it again")


def _check_finite(path: Path, vectors: np.ndarray, words: Sequence[str], done: int) -> None:
    """Raise InputError for the first vector with a value that is not finite, after ``done`` words before these."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        where = f"{path}: word {done + bad[0] + 1}, {words[bad[0]]!r}"
        raise InputError(f"{where}: its vector has a value that is NaN or infinite: copy the file again")


def _parse(block: bytes, dim: int) -> Block | None:
    """Words and vectors ``(lines, dim)`` of complete lines; None if one is not split by single spaces into these.

    Lines are split from the right, since words may contain spaces, as some of GloVe's do.
    """
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(text == NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    # fastText ends its lines with a space.
    while (loose := (ends > starts) & np.isin(text[ends - 1], (SPACE, RETURN))).any():
        ends = ends - loose
    spaces = np.flatnonzero(text == SPACE)
    firsts = np.searchsorted(spaces, ends) - dim
    if (firsts < 0).any() or (spaces[firsts] <= starts).any():
        return None
    number_starts = spaces[firsts[:, None] + np.arange(dim)] + 1
    number_ends = np.concatenate([number_starts[:, 1:] - 1, ends[:, None]], axis=1)
    lengths = spaces[firsts] - starts
    in_words = np.arange(lengths.sum()) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    numbers = text.copy()
    numbers[in_words] = SPACE
    words = _strings(text[in_words], lengths)
    try:
        words.validate(full=True)
        found = _strings(numbers.tobytes().translate(None, b" \n\r"), (number_ends - number_starts).ravel())
        vectors = found.cast(pa.float32()).to_numpy()
    except pa.ArrowInvalid:
        return None
    spaced = words.filter(pc.match_substring(words, " ")).to_pylist()
    if not np.isfinite(vectors).all() or any(_number(word.split(" ")[-1]) is not None for word in spaced):
        return None
    return words, vectors.reshape(-1, dim)


def _strings(text: np.ndarray | bytes, lengths: np.ndarray) -> pa.StringArray:
    """A text cut into pieces of the given lengths, which must add up to its own, else ``pa.ArrowInvalid``."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if offsets[-1] != len(text):
        raise pa.ArrowInvalid(f"{offsets[-1]} bytes of {len(text)}")
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text))


def _number(text: bytes | str) -> float | None:
    """The number that a text stands for, which may be NaN or infinite; None if it stands for none."""
    try:
        return float(text)
    except ValueError:
        return None


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="replace"))


class _Unpacked(gzip.GzipFile):
    """The uncompressed content of a gzipped file."""

    def __init__(self, path: Path, raw: BinaryIO):
        super().__init__(fileobj=raw)
        self._path = path

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self._path}: damaged or truncated ({error}): copy it again") from None


class FastTextFile(NamedTuple):
    """An unsupervised model in fastText's own format: words and character n-grams, of which words are composed.

    After a magic number and a version, a file holds the settings, the words, the input vectors (one a word, then the
    n-grams' buckets) and the output vectors, each matrix after a flag and its shape, in the byte order of x86.

    The words end at ``words_end`` in the file. Their own vectors ``own (V, dim)`` and the n-grams are memory-mapped.
    """

    path: Path
    file: BinaryIO
    dim: int
    n_words: int
    words_end: int
    own: np.ndarray
    sub_words: SubWords

    @classmethod
    def of(cls, path: Path, file: BinaryIO) -> Self | None:
        """From the start of a file; None if it is not in this format, InputError if it cannot be read or is damaged."""
        head = file.read(HEADER.size + ENTRIES.size)
        file.seek(0)
        if not head.startswith(MAGIC):
            return None
        if len(head) < HEADER.size + ENTRIES.size:
            raise InputError(f"{path}: truncated after {len(head)} bytes: copy it again")
        _, version, dim, *_, model, buckets, shortest, longest, _, _ = HEADER.unpack_from(head)
        _, n_words, n_labels, _, _ = ENTRIES.unpack_from(head, HEADER.size)
        if version > NEWEST_VERSION:
            raise InputError(f"{path}: fastText's format {version}, newer than {NEWEST_VERSION}: give its .vec file")
        if model == SUPERVISED or n_labels:
            raise InputError(f"{path}: a supervised fastText model, a classifier: give one of skipgram or cbow")
        if min(dim, n_words) < 1 or min(buckets, shortest) < 0 or longest > LONGEST_NGRAM:
            raise InputError(f"{path}: {n_words} words of dimension {dim}: not word vectors, or damaged: copy it again")
        # From the end, so that the words need not be read: output vectors of the words, input vectors, their shapes.
        output = os.path.getsize(path) - MATRIX.size - 4 * n_words * dim
        begin = output - 4 * (n_words + buckets) * dim
        shapes = list[tuple[object, ...]]()
        for at in (begin - MATRIX.size, output):
            file.seek(max(0, at))
            found = file.read(MATRIX.size)
            shapes.append(MATRIX.unpack(found) if at >= 0 and len(found) == MATRIX.size else ())
        if shapes != [(False, n_words + buckets, dim), (False, n_words, dim)]:
            fault = f"its size is not that of {n_words:,} words and {buckets:,} n-grams in {dim} dimensions"
            what = "quantised (.ftz), truncated or damaged"
            raise InputError(f"{path}: {what}: {fault}: give the .bin file, copied again")
        matrix = np.memmap(path, "<f4", "r", begin, (n_words + buckets, dim))
        sub_words = SubWords(matrix[n_words:], None, shortest, longest if buckets else 0)
        return cls(path, file, dim, n_words, begin - MATRIX.size, matrix[:n_words], sub_words)

    def read(self) -> Iterator[Block]:
        """Words and their vectors ``(words, dim)``, block by block: the mean of a word's own and its n-grams'."""
        done, position = 0, HEADER.size + ENTRIES.size
        self.file.seek(position)
        for records in _records(self.path, self.file, b"\0", AFTER_WORD, self.n_words, WORD_BYTES):
            words = [word for word, _ in records]
            own = self.own[done : done + len(words)]
            sums, counts = self.sub_words.sums(words)
            if END_OF_LINE in words:
                sums[words.index(END_OF_LINE)] = counts[words.index(END_OF_LINE)] = 0
            vectors = (own + sums) / (1 + counts[:, None]).astype(np.float32)
            spelt = [word.decode(errors="replace") for word in words]
            _check_finite(self.path, vectors, spelt, done)
            done += len(words)
            position += sum(map(len, words)) + (1 + AFTER_WORD) * len(words)
            yield pa.array(spelt, pa.string()), vectors
        if position != self.words_end:
            raise InputError(f"{self.path}: its words do not end where its vectors begin: damaged: copy it again")
