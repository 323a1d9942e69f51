"""The settings of an evaluation protocol."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from structviews.evaluation.senteval.classifier import Classifier
from structviews.evaluation.senteval.relatedness import (
    RelatednessTraining,
)
from structviews.evaluation.senteval.tasks.reading import Examples, Task

FOLDS = 10
Vectors = tuple[np.ndarray, np.ndarray]


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
        if task.kind == "similarity":
            return self.similarity
        if task.kind == "relatedness":
            return self.similarity or task.name == "SICK-R"
        return bool(self.grid(task))

    def grid(self, task: Task) -> tuple[float, ...]:
        """The strengths to choose from for a classification task, ascending; empty if it is not covered."""
        return self.grids.get(task.name) or self.grids.get("/".join(task.splits), ())

    def classifier_of(self, task: Task) -> Classifier:
        """What fits a classification task."""
        return self.own_classifiers.get(task.name, self.classifier)
