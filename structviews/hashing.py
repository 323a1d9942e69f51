"""Hashes of words and sentences that are the same in every process and on every machine."""

import numpy as np
import pyarrow as pa

from structviews.arrays import Array


def mix(x: Array) -> Array:
    """The finaliser of splitmix64, on uint64: every input bit moves every output bit."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def word_hashes(words: pa.StringArray) -> Array:
    """A number ``(n,)``, uint64, for each word."""
    _, offsets, content = words.buffers()
    ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    characters = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    return row_hashes(characters.astype(np.uint64), ends - ends[0])


def row_hashes(values: Array, offsets: Array) -> Array:
    """A number ``(rows,)``, uint64, that depends on the values of a row and on their order.

    Different rows have the same one with a probability of about 2**-64.
    """
    return mix(row_sums(values, offsets))


def row_sums(values: Array, offsets: Array) -> Array:
    """The sum ``(rows,)``, modulo 2**64, of each row's ``placed`` values.

    What another value in one place changes follows from the two.
    """
    place = np.arange(len(values)) - np.repeat(offsets[:-1], np.diff(offsets))
    with np.errstate(over="ignore"):
        sums = np.concatenate([[np.uint64(0)], np.cumsum(placed(values, place))])
        return sums[offsets[1:]] - sums[offsets[:-1]]


def placed(values: Array, places: Array) -> Array:
    """A number ``(n,)``, uint64, for each value in its place of a row."""
    with np.errstate(over="ignore"):
        return mix(values + mix(places.astype(np.uint64)))
