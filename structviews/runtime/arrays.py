"""Helpers for NumPy index arrays, and hashes that are the same in every process and on every machine."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray


def stable_argsort(keys: Array) -> Array:
    """Stable argsort ``(n,)``, int64, of non-negative keys; radix sort, hence linear, for keys below 2 ** 16."""
    return keys.astype(np.uint16 if keys.max(initial=0) < 2**16 else np.int64).argsort(kind="stable")


class Groups(NamedTuple):
    """n items grouped by equal value."""

    distinct: Array  # ``(U,)`` values, ascending
    inverse: Array  # ``(n,)`` index of each item's value in ``distinct``
    places: Array  # ``(n,)`` indices of the items, stably sorted by value
    starts: Array  # ``(U,)`` start of each value's group in ``places``


def group(values: Array, limit: int) -> Groups:
    """Group items by ``values (n,)``, int64, in ``[0, limit)``; linear in n and ``limit``."""
    occurs = np.zeros(limit, dtype=bool)
    occurs[values] = True
    distinct = np.flatnonzero(occurs)
    rank = np.empty(limit, dtype=np.int64)
    rank[distinct] = np.arange(len(distinct))
    inverse = rank[values]
    counts = np.bincount(inverse, minlength=len(distinct))
    return Groups(distinct, inverse, stable_argsort(inverse), starts_of(counts))


def inverse_of(order: Array) -> Array:
    """The inverse of a permutation."""
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse


def starts_of(lengths: Array) -> Array:
    """Start offset of each row when rows of these lengths are concatenated."""
    return np.cumsum(lengths) - lengths


def mix(x: Array) -> Array:
    """The splitmix64 finaliser on uint64: every input bit affects every output bit."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def word_hashes(words: "pa.StringArray") -> Array:
    """A hash ``(n,)``, uint64, of each word."""
    _, offsets, content = words.buffers()
    ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    characters = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    return row_hashes(characters.astype(np.uint64), ends - ends[0])


def row_hashes(values: Array, offsets: Array) -> Array:
    """A hash ``(rows,)``, uint64, of the values of each row in order; two collide with a probability of 2**-64."""
    positions = np.arange(len(values)) - np.repeat(offsets[:-1], np.diff(offsets))
    with np.errstate(over="ignore"):
        hashes = mix(values + mix(positions.astype(np.uint64)))
        sums = np.concatenate([[np.uint64(0)], np.cumsum(hashes)])
        return mix(sums[offsets[1:]] - sums[offsets[:-1]])
