"""Small tools for NumPy arrays of indices."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray


def stable_argsort(keys: Array) -> Array:
    """Order ``(n,)``, int64, of keys that are not negative; those below 2 ** 16 in linear time, by radix."""
    return keys.astype(np.uint16 if keys.max(initial=0) < 2**16 else np.int64).argsort(kind="stable")


class Groups(NamedTuple):
    """What is equal, of n things.

    Attributes:
        distinct: ``(U,)`` the values that occur, ascending.
        inverse: ``(n,)`` for each thing the place of its value among them.
        places: ``(n,)`` the things sorted by value, those of one value in their own order.
        starts: ``(U,)`` where those of each value begin in ``places``.
    """

    distinct: Array
    inverse: Array
    places: Array
    starts: Array


def group(values: Array, limit: int) -> Groups:
    """Group things by values ``(n,)``, int64, from 0 to below ``limit``; linear in both."""
    occurs = np.zeros(limit, dtype=bool)
    occurs[values] = True
    distinct = np.flatnonzero(occurs)
    rank = np.empty(limit, dtype=np.int64)
    rank[distinct] = np.arange(len(distinct))
    inverse = rank[values]
    counts = np.bincount(inverse, minlength=len(distinct))
    return Groups(distinct, inverse, stable_argsort(inverse), starts_of(counts))


def inverse_of(order: Array) -> Array:
    """For each element of a permutation's domain the place where the permutation has it."""
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse


def starts_of(lengths: Array) -> Array:
    """Where each of several rows begins when they stand one behind the other."""
    return np.cumsum(lengths) - lengths


def to_tensor(array: Array) -> Tensor:
    """A tensor over the array's memory, or over that of a copy where it has gaps."""
    return torch.from_numpy(np.ascontiguousarray(array))
