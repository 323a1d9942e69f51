"""What an evaluation protocol is: its settings, and its classifier."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from structviews.evaluation.senteval.relatedness import RelatednessTraining
from structviews.evaluation.senteval.tasks.reading import Examples, Task

FOLDS = 10
# Vectors of the first sentences and of the second ones; (training rows, held-out rows).
Vectors = tuple[np.ndarray, np.ndarray]
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


@dataclass(frozen=True)
class Protocol:
    """The settings of an evaluation protocol.

    Attributes:
        name: as in ``eval --protocol``.
        seed: seed of the folds and the relatedness model.
        order: returns the rows (n,) of a split's examples in the order in which they are divided into folds.
        splitter: makes the outer and inner folds.
        classifier: fits the classification tasks, but those in ``own_classifiers``.
        grids: its regularisation strengths, ascending, by the name of a task or by a combination of splits; other tasks
            are not covered.
        decimals: round the scores that select a strength to this many decimals, which makes near-ties ties; None: no
            rounding.
        f1_chooses: select the strength by F1 for tasks scored by F1.
        relatedness: training settings of the relatedness model.
        similarity: whether the protocol covers unsupervised similarity tasks.
        normalise: whether each encoder's vectors are scaled to length 1, before they are joined.
        own_classifiers: by the name of a task.
    """

    name: str
    seed: int
    order: Callable[[Examples], np.ndarray]
    splitter: KFold | StratifiedKFold
    classifier: Classifier
    grids: dict[str, tuple[float, ...]]
    decimals: int | None
    f1_chooses: bool
    relatedness: RelatednessTraining
    similarity: bool
    normalise: bool
    own_classifiers: dict[str, Classifier] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """The ``protocol`` entry of ``results.json``."""
        return {
            "name": self.name,
            "folds": FOLDS,
            "seed": self.seed,
            "splitter": str(self.splitter),
            "grids": {splits: list(grid) for splits, grid in self.grids.items()},
            **self.classifier.describe(),
            **{name: classifier.describe() for name, classifier in self.own_classifiers.items()},
            "relatedness": str(self.relatedness),
            "similarity": "cosine" if self.similarity else None,
            "vectors": "each encoder's scaled to length 1" if self.normalise else "as they are",
        }

    def covers(self, task: Task) -> bool:
        """Whether the protocol defines how to score the task."""
        if task.kind == "classification":
            return bool(self.grid(task))
        return self.similarity or (task.kind == "relatedness" and task.name == "SICK-R")

    def grid(self, task: Task) -> tuple[float, ...]:
        """The strengths to choose from for a classification task, ascending; empty if it is not covered."""
        return self.grids.get(task.name) or self.grids.get("/".join(task.splits), ())
