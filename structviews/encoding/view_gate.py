"""A gate: weights of a run's views for each sentence, which depend on its vectors.

The encoders are frozen; ``structviews.evaluation.gating`` fits the gate. Shapes: n sentences, k views, d dimensions of
a view's vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.runs.folder import GATE
from structviews.runtime.documents import checked
from structviews.runtime.files import digest
from structviews.runtime.seals import damaged, read_arrays, read_head, write_arrays

# Characters of the digest that names a gate.
SHOWN = 8
REMEDY = "delete it and fit it again with structviews gate"


class Purpose(TypedDict):
    """What a gate was fitted for: unique names of the views, and what ``JoinedViews.view_vectors`` says of them."""

    views: list[str]
    vectors: str


@dataclass(frozen=True)
class Gate:
    """Weighs the views of a sentence by ``w = softmax(A [u_1; ...; u_k] + b)``, u being their unit-length vectors.

    The sentence's vector is the sum of ``w_i u_i``. With A = 0 and b = 0 this is the join ``average``.

    Attributes:
        matrix: A, ``(k, k d)``.
        bias: b, ``(k,)``.
        purpose: what it was fitted for.
    """

    matrix: np.ndarray
    bias: np.ndarray
    purpose: Purpose

    @property
    def digest(self) -> str:
        """The first digits of a digest of its numbers."""
        return digest(self.matrix.tobytes(), self.bias.tobytes())[:SHOWN]

    def weights(self, units: Sequence[np.ndarray]) -> np.ndarray:
        """Weights ``(n, k)`` of the views, from their unit-length vectors ``(n, d)``; each row has the sum 1."""
        scores = np.concatenate(units, axis=1) @ self.matrix.T + self.bias
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights: np.ndarray = exponentials / exponentials.sum(axis=1, keepdims=True)
        return weights

    def join(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """Join the vectors ``(n, d)`` of each view into one per sentence ``(n, d)``."""
        units = [normalised(view) for view in views]
        joined: np.ndarray = np.einsum("nk,knd->nd", self.weights(units), np.stack(units))
        return joined

    def check(self, views: Sequence[str], vectors: str, widths: Sequence[int], place: str, remedy: str) -> None:
        """Raise InputError unless it was fitted for these views, and vectors of these dimensions."""
        for what, own, other in (
            ("views", ", ".join(self.purpose["views"]), ", ".join(views)),
            ("vectors", self.purpose["vectors"], vectors),
            ("dimensions", str(self.matrix.shape[1]), str(sum(widths))),
        ):
            if own != other:
                raise InputError(f"{place}: was fitted for the {what} {own}, not {other}: {remedy}, or join otherwise")


def gated(units: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """What ``Gate.join`` returns, in torch and with gradients.

    Args:
        units: unit-length vectors ``(n, k, d)`` of the views.
        matrix, bias: see ``Gate``.
    """
    weights = F.linear(units.flatten(1), matrix, bias).softmax(dim=1)
    return torch.einsum("nk,nkd->nd", weights, units)


def save_gate(run: Path, gate: Gate) -> None:
    """Write ``gate.safetensors``."""
    write_arrays(run / GATE, {"matrix": gate.matrix, "bias": gate.bias}, gate.purpose)


def load_gate(run: Path) -> Gate | None:
    """Read ``gate.safetensors``; None if it does not exist.

    Raises:
        InputError: if the file is damaged.
    """
    path = run / GATE
    if not path.exists():
        return None
    purpose: Purpose = checked(read_head(path, REMEDY).notes, Purpose, path, REMEDY)
    arrays = read_arrays(path, REMEDY)
    k = len(purpose["views"])
    matrix, bias = (arrays.get(name, np.empty(0)).astype(np.float32) for name in ("matrix", "bias"))
    finite = np.isfinite(matrix).all() and np.isfinite(bias).all()
    if bias.shape != (k,) or matrix.ndim != 2 or len(matrix) != k or not finite:
        raise damaged(path, "it is not a gate", REMEDY)
    return Gate(matrix, bias, purpose)
