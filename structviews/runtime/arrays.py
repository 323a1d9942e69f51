"""Helpers for NumPy index arrays."""

from typing import NamedTuple

import numpy as np

Array = np.ndarray


def stable_argsort(keys: Array) -> Array:
    """Stable argsort ``(n,)``, int64, of non-negative keys; radix sort, hence linear, for keys below 2 ** 16."""
    return keys.astype(np.uint16 if keys.max(initial=0) < 2**16 else np.int64).argsort(kind="stable")


class Groups(NamedTuple):
    """n items grouped by equal value.

    Attributes:
        distinct: ``(U,)`` distinct values, ascending.
        inverse: ``(n,)`` index of each item's value in ``distinct``.
        places: ``(n,)`` indices of the items, stably sorted by value.
        starts: ``(U,)`` start of each value's group in ``places``.
    """

    distinct: Array
    inverse: Array
    places: Array
    starts: Array


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
    starts: Array = np.cumsum(lengths) - lengths
    return starts
