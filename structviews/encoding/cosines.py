"""Cosines of vectors, which sentence-transformers calls similarity.

Shapes: m and n vectors of d dimensions.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.errors import InputError

Vectors = np.ndarray | Tensor | Sequence[np.ndarray] | Sequence[Tensor]


def cosines(first: Vectors, second: Vectors) -> Tensor:
    """Cosines ``(m, n)`` of all vectors ``(m, d)`` with all vectors ``(n, d)``; one vector ``(d,)`` counts as a row.

    Raises:
        InputError: if they are not vectors, or their dimensions differ.
    """
    a, b = of_length_one(first, second)
    found: Tensor = torch.atleast_2d(a) @ torch.atleast_2d(b).T
    return found


def cosines_of_pairs(first: Vectors, second: Vectors) -> Tensor:
    """Cosines ``(n,)`` of the vectors ``(n, d)`` with those of the same place in ``(n, d)``; of two ``(d,)``, a number.

    Raises:
        InputError: if they are not vectors, or their shapes differ.
    """
    a, b = of_length_one(first, second)
    if a.shape != b.shape and min(a.ndim, b.ndim) > 1:
        raise InputError(f"vectors of shapes {tuple(a.shape)} and {tuple(b.shape)}: give as many of each")
    return (a * b).sum(dim=-1)


def of_length_one(first: Vectors, second: Vectors) -> tuple[Tensor, Tensor]:
    """Both, scaled to length 1, on the device of the first; zero vectors stay zero."""
    a, b = as_floats(first), as_floats(second)
    if a.shape[-1] != b.shape[-1]:
        raise InputError(f"vectors of {a.shape[-1]} and {b.shape[-1]} dimensions: give vectors of one run")
    return F.normalize(a, dim=-1), F.normalize(b.to(a.device), dim=-1)


def as_floats(vectors: Vectors) -> Tensor:
    """Vectors as a float32 tensor ``(d,)`` or ``(n, d)``.

    Raises:
        InputError: if they are something else.
    """
    try:
        if isinstance(vectors, Sequence) and not isinstance(vectors, str):
            vectors = torch.stack([torch.as_tensor(each) for each in vectors])
        found = torch.as_tensor(vectors).float()
    except (TypeError, ValueError, RuntimeError):
        raise InputError("not vectors: give what encode returns, an array or a tensor (n, d)") from None
    if found.ndim not in (1, 2):
        raise InputError(f"vectors of shape {tuple(found.shape)}: give (d,) or (n, d), as encode returns them")
    return found
