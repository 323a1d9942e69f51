"""Small tools for NumPy arrays of indices."""

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray


def stable_argsort(keys: Array) -> Array:
    """Order ``(n,)``, int64, of keys that are not negative; those below 2 ** 16 in linear time, by radix."""
    return keys.astype(np.uint16 if keys.max(initial=0) < 2**16 else np.int64).argsort(kind="stable")


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
