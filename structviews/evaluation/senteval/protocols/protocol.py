"""What an evaluation protocol is: its settings, and its classifier."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from structviews.evaluation.senteval.relatedness import RelatednessTraining
from structviews.evaluation.senteval.tasks.reading import Examples, Task

FOLDS = 10
# Vectors of the first sentences and of the second ones; (training rows, held-out rows).
Vectors = tuple[np.ndarray, np.ndarray]
Fold = tuple[np.ndarray, np.ndarray]
# The features (n_i, d) of a task's splits; rows number the examples of all blocks, concatenated.
Blocks = Sequence[np.ndarray]
# Strengths, ascending.
Grid = Sequence[float]
# From the classes (S, t) that S strengths predict for each inner split's held-out rows, choice by choice, to each
# choice's strength, by its position in the grid.
Select = Callable[[list[np.ndarray]], Sequence[int]]
# For each choice the log-probabilities (t, K), float64, of its test rows; and how many fits ran out of steps.
Fitted = tuple[list[np.ndarray], int]


@dataclass(frozen=True)
class Choice:
    """One train/test split of rows, with the inner splits that select the regularisation strength."""

    train: np.ndarray  # in the protocol's order
    test: np.ndarray
    inner: list[Fold]  # a single one has ``train`` itself


Plan = Sequence[Choice]


class Classifier(ABC):
    """A linear classifier with a regularisation strength."""

    @abstractmethod
    def fit(self, features: Blocks, labels: np.ndarray, planned: Plan, grid: Grid, select: Select) -> Fitted:
        """Fit a classifier for each strength to each inner training part, and with the selected ones to the whole.

        Of a task, ``features`` have all examples, ``labels`` (n,) their classes 0..K-1, and ``planned`` the train/test
        splits. ``select`` is called once, with what the inner classifiers predict by the strengths of ``grid`` (S,).
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What ``results.json`` says of it."""


@dataclass(frozen=True)
class Protocol:
    """The settings of an evaluation protocol."""

    name: str  # as in ``eval --protocol``
    seed: int  # of the folds and the relatedness model
    order: Callable[[Examples], np.ndarray]  # rows (n,) of a split in the order in which they are divided into folds
    splitter: KFold | StratifiedKFold  # makes the outer and inner folds
    classifier: Classifier  # fits the classification tasks, but those in ``own_classifiers``
    grids: dict[str, tuple[float, ...]]  # ascending, by a task or a combination of splits; others: not covered
    decimals: int | None  # to which the scores that select a strength are rounded, so that near-ties tie
    f1_chooses: bool  # select the strength by F1 for tasks scored by F1
    relatedness: RelatednessTraining
    similarity: bool  # whether the protocol covers unsupervised similarity tasks
    normalise: bool  # whether each encoder's vectors are scaled to length 1, before they are joined
    own_classifiers: dict[str, Classifier] = field(default_factory=dict)  # by the name of a task
    correlations: tuple[str, ...] = ()  # scores of cosines with gold scores; all if empty
    learns: bool = True  # whether tasks are learnt at all; otherwise relatedness is that of the test pairs' cosines

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
            "similarity": ", ".join(("cosine", *self.correlations)) if self.similarity else None,
            "vectors": "each encoder's scaled to length 1" if self.normalise else "as they are",
        }

    def covers(self, task: Task) -> bool:
        """Whether the protocol defines how to score the task."""
        if task.kind == "classification":
            return self.learns and bool(self.grid(task))
        return self.similarity or (task.kind == "relatedness" and task.name == "SICK-R")

    def seen(self, task: Task) -> Task:
        """The task as it is scored: of a relatedness that is not learnt, the test part as one of similarity."""
        if self.learns or task.kind != "relatedness":
            return task
        return replace(task, kind="similarity", splits={"test": task.splits["test"]})

    def grid(self, task: Task) -> tuple[float, ...]:
        """The strengths to choose from for a classification task, ascending; empty if it is not covered."""
        return self.grids.get(task.name) or self.grids.get("/".join(task.splits), ())
