"""What a protocol asks of its classifier: fits for every strength of the grid, and one fit for the strength chosen."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Choice:
    """One train/test split, with the inner splits that select the regularisation strength.

    Attributes:
        train: rows that the final classifier is trained on, in the protocol's order.
        test: rows that it is tested on.
        inner: (training rows, held-out rows) pairs that select the strength; a single one has ``train`` itself.
    """

    train: np.ndarray
    test: np.ndarray
    inner: list[Fold]


@dataclass(frozen=True)
class Fitted:
    """Classifiers with every strength, fitted to all that the choices train on; S strengths, K classes.

    Attributes:
        held_out: for each inner split, choice by choice, the predicted classes (S, t) of its held-out rows.
        final: given the place of each choice's strength in the grid, returns the log-probabilities (t, K) of each
            choice's test rows, float64.
        unconverged: fits that ran out of steps.
    """

    held_out: list[np.ndarray]
    final: Callable[[Sequence[int]], list[np.ndarray]]
    unconverged: int


class Classifier(ABC):
    """A linear classifier with a regularisation strength."""

    @abstractmethod
    def fit(
        self, features: Sequence[np.ndarray], labels: np.ndarray, planned: Sequence[Choice], grid: Sequence[float]
    ) -> Fitted:
        """Fit a classifier for each strength of the grid to each inner training part.

        Args:
            features: blocks (n_i, d), a task's splits; rows number the examples of all blocks, concatenated.
            labels: (n,) classes 0..K-1.
            planned: the task's train/test splits.
            grid: (S,) strengths, ascending.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What ``results.json`` says of it."""
