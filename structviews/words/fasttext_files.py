"""fastText's own files, ``.bin``: words and character n-grams, of which the words' vectors are composed.

A file holds a magic number and a version, the settings, the words, the input vectors (one a word, then the n-grams'
buckets) and the output vectors, each matrix after a flag and its shape, in the byte order of x86.

Shapes: V words, dim dimension of a vector.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import pyarrow as pa

from structviews.errors import InputError
from structviews.words.sub_words import LONGEST_NGRAM, SubWords
from structviews.words.vector_formats import BLOCK_BYTES, LONGEST_WORD, Block

MAGIC = struct.pack("<i", 793712314)
# Magic number, version, twelve settings and a probability; how many entries, words, labels, tokens and pruned ones.
HEADER, ENTRIES = struct.Struct("<14id"), struct.Struct("<3i2q")
# Flag of quantised vectors, rows, columns.
MATRIX = struct.Struct("<?2q")
# After a word: the byte 0, its frequency and its type.
AFTER_WORD = 1 + 8 + 1
NEWEST_VERSION, SUPERVISED = 12, 3
# fastText's end of a line has no n-grams.
END_OF_LINE = b"</s>"
WORDS_AT_ONCE = 4096


class FastTextFile(NamedTuple):
    """An unsupervised model in fastText's format.

    Attributes:
        path: for messages.
        file: the open file.
        dim: dimension of a vector.
        n_words: number V of words.
        words_end: where the words end in the file.
        own: ``(V, dim)`` the words' own vectors, memory-mapped.
        sub_words: the n-grams, memory-mapped.
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
        """From the start of a file, whose sizes are checked; None if it is not in this format.

        Raises:
            InputError: if it is supervised, quantised or truncated.
        """
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
        place = output - 4 * (n_words + buckets) * dim
        shapes = [_shape(file, at) for at in (place - MATRIX.size, output)]
        if shapes != [(False, n_words + buckets, dim), (False, n_words, dim)]:
            raise InputError(
                f"{path}: quantised (.ftz), truncated or damaged: its size is not that of {n_words:,} words and "
                f"{buckets:,} n-grams in {dim} dimensions: give the .bin file, copied again"
            )
        matrix = np.memmap(path, "<f4", "r", place, (n_words + buckets, dim))
        sub_words = SubWords(matrix[n_words:], None, shortest, longest if buckets else 0)
        return cls(path, file, dim, n_words, place - MATRIX.size, matrix[:n_words], sub_words)

    def read(self) -> Iterator[Block]:
        """Words and their vectors ``(words, dim)``, block by block: the mean of a word's own and its n-grams'."""
        done = 0
        for words in self._words():
            own = self.own[done : done + len(words)]
            sums, counts = self.sub_words.sums(words)
            if END_OF_LINE in words:
                sums[words.index(END_OF_LINE)] = counts[words.index(END_OF_LINE)] = 0
            vectors = (own + sums) / (1 + counts[:, None]).astype(np.float32)
            bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
            if len(bad):
                place = f"{self.path}: word {done + bad[0] + 1}, {words[bad[0]].decode(errors='replace')!r}"
                raise InputError(f"{place}: its vector has a value that is NaN or infinite: copy the file again")
            done += len(words)
            yield pa.array([word.decode(errors="replace") for word in words], pa.string()), vectors

    def _words(self) -> Iterator[list[bytes]]:
        """The words, block by block."""
        self.file.seek(HEADER.size + ENTRIES.size)
        rest, words, n_read, place = b"", list[bytes](), 0, self.file.tell()
        while n_read < self.n_words:
            more = self.file.read(BLOCK_BYTES)
            rest, at = rest + more, 0
            while n_read < self.n_words:
                end = rest.find(b"\0", at, at + LONGEST_WORD)
                if end < 0 or end + AFTER_WORD > len(rest):
                    break
                words.append(rest[at:end])
                at, n_read = end + AFTER_WORD, n_read + 1
                if len(words) == WORDS_AT_ONCE:
                    yield words
                    words = []
            rest, place = rest[at:], place + at
            if not more or (n_read < self.n_words and len(rest) > LONGEST_WORD + AFTER_WORD):
                raise InputError(f"{self.path}: word {n_read + 1} does not end: damaged: copy it again")
        if place != self.words_end:
            raise InputError(f"{self.path}: its words do not end where its vectors begin: damaged: copy it again")
        if words:
            yield words


def _shape(file: BinaryIO, at: int) -> tuple[object, ...]:
    """The flag and the shape of a matrix that are at a place in a file; empty if there is none."""
    file.seek(max(0, at))
    found = file.read(MATRIX.size)
    return MATRIX.unpack(found) if at >= 0 and len(found) == MATRIX.size else ()
