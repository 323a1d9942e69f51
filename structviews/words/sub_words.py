"""Vectors of character n-grams, of which unknown words are composed (Bojanowski et al. 2017, section 3.2).

As in fastText, the n-grams are those of the word between ``<`` and ``>``, counted in UTF-8 characters, and share a
fixed number of rows: an n-gram's row is its hash.

A packed run stores rows in 8 bits a number with one scale a row: a row's largest magnitude becomes 127, and each number
is rounded to the nearest step of ``largest / 127``.

Shapes: n words, m n-grams of all words, dim dimension of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# FNV-1a with 32 bits. fastText reads characters as signed.
OFFSET, PRIME = np.uint32(2166136261), np.uint32(16777619)
FOLLOWS, LEAD_BITS = 0x80, 0xC0
LONGEST_NGRAM = 255
# How many rows are read at once: what fits into a core's cache takes half the time.
ROWS_AT_ONCE = 2**11
LARGEST_BYTE = 127


def quantise(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round finite rows ``(n, d)`` to 8 bits a number, between -127 and 127, with scales ``(n,)``; zeros stay zero."""
    rows = rows.astype(np.float32, copy=False)
    scales = np.abs(rows).max(axis=1, initial=0) / np.float32(LARGEST_BYTE)
    # A row whose scale underflows to 0 is zero too.
    steps = np.divide(rows, scales[:, None], out=np.zeros_like(rows), where=scales[:, None] > 0)
    return np.rint(steps).clip(-LARGEST_BYTE, LARGEST_BYTE).astype(np.int8), scales


def hashed_ngrams(words: Sequence[bytes], shortest: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """The hashes ``(m,)`` of the character n-grams of words in UTF-8, as fastText computes them.

    They are uint32, word by word, from left to right; the second array is how many each word has ``(n,)``. Neither
    ``<`` nor ``>`` alone is an n-gram.
    """
    text = np.frombuffer(b"".join(b"<%b>" % word for word in words), np.uint8)
    octets = text.view(np.int8).astype(np.int32).view(np.uint32)
    starts = np.flatnonzero((text & LEAD_BITS) != FOLLOWS)
    sizes = np.diff(starts, append=len(text))
    ends = np.searchsorted(starts, np.cumsum([len(word) + 2 for word in words]))
    lengths = np.diff(ends, prepend=0)
    left = np.repeat(ends, lengths) - np.arange(len(starts))  # characters from here to the end of the word
    # All n-grams that begin at a character, one a column.
    found = np.empty((len(starts), max(0, longest - shortest + 1)), np.uint32)
    is_one = np.zeros(found.shape, bool)
    hashes, going = np.full(len(starts), OFFSET), np.arange(len(starts))
    for length in range(1, longest + 1):
        going = going[left[going] >= length]
        last = going + length - 1
        for octet in range(sizes.max(initial=0)):
            has = sizes[last] > octet
            grown = going[has]
            hashes[grown] = (hashes[grown] ^ octets[starts[last[has]] + octet]) * PRIME
        if length >= shortest:
            found[going, length - shortest] = hashes[going]
            is_one[going, length - shortest] = True
    if shortest <= 1 <= longest:
        is_one[np.concatenate([ends - lengths, ends - 1]), 1 - shortest] = False
    counts = np.add.reduceat(is_one.sum(axis=1), ends - lengths) if len(words) else np.empty(0, np.int64)
    return found[is_one], counts


@dataclass(frozen=True)
class SubWords:
    """The vectors of n-grams of ``shortest`` to ``longest`` characters.

    They are rows ``(buckets, dim)``, float32, which may be memory-mapped; or int8 with scales ``(buckets,)``.
    """

    rows: np.ndarray
    scales: np.ndarray | None
    shortest: int
    longest: int

    def read(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Which words have n-grams with finite vectors, ``(n,)``, and the means of these ``(found, dim)``, float32."""
        sums, counts = self.sums([word.encode(errors="replace") for word in words])
        has_vector = (counts > 0) & np.isfinite(sums).all(axis=1)
        return has_vector, sums[has_vector] / counts[has_vector, None].astype(np.float32)

    def sums(self, words: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Sum of the vectors of the n-grams of each word, ``(n, dim)``, float32, and their number ``(n,)``."""
        hashes, counts = hashed_ngrams(words, self.shortest, self.longest)
        indices, ends = (hashes % max(1, len(self.rows))).astype(np.int64), np.cumsum(counts)
        sums = np.zeros((len(words), self.rows.shape[1]), np.float32)
        first = 0
        while first < len(words):
            begin = ends[first] - counts[first]
            last = max(first + 1, int(np.searchsorted(ends, begin + ROWS_AT_ONCE, "right")))
            some = np.flatnonzero(counts[first:last])
            if len(some):
                chosen = indices[begin : ends[last - 1]]
                read = self.rows[chosen] if self.scales is None else self.rows[chosen] * self.scales[chosen, None]
                sums[first + some] = np.add.reduceat(read, (ends - counts)[first + some] - begin)
            first = last
        return sums, counts

    def quantised(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows ``(buckets, dim)`` in int8, and their scales ``(buckets,)``; of rows that are float32."""
        rows, scales = np.empty(self.rows.shape, np.int8), np.empty(len(self.rows), np.float32)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            rows[part], scales[part] = quantise(self.rows[part])
        return rows, scales
