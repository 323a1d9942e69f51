"""Hashes of words and sentences, the same in every process and on every machine."""

import numpy as np
import pyarrow as pa

from structviews.runtime.arrays import Array


def mix(x: Array) -> Array:
    """The splitmix64 finaliser on uint64: every input bit affects every output bit."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Array = x ^ (x >> np.uint64(31))
        return mixed


def word_hashes(words: pa.StringArray) -> Array:
    """A hash ``(n,)``, uint64, of each word."""
    _, offsets, content = words.buffers()
    ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    characters = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    return row_hashes(characters.astype(np.uint64), ends - ends[0])


def row_hashes(values: Array, offsets: Array) -> Array:
    """A hash ``(rows,)``, uint64, of the values of each row and their order.

    Two different rows collide with a probability of about 2**-64.
    """
    return mix(row_sums(values, offsets))


def row_sums(values: Array, offsets: Array) -> Array:
    """The sum ``(rows,)``, modulo 2**64, of each row's ``placed`` values.

    Replacing one value changes the sum by the difference of the two ``placed`` values.
    """
    place = np.arange(len(values)) - np.repeat(offsets[:-1], np.diff(offsets))
    with np.errstate(over="ignore"):
        sums = np.concatenate([[np.uint64(0)], np.cumsum(placed(values, place))])
        of_rows: Array = sums[offsets[1:]] - sums[offsets[:-1]]
        return of_rows


def placed(values: Array, places: Array) -> Array:
    """A hash ``(n,)``, uint64, of each value and its position in the row."""
    with np.errstate(over="ignore"):
        return mix(values + mix(places.astype(np.uint64)))
