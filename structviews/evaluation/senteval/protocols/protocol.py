"""The settings of an evaluation protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from structviews.evaluation.senteval.logistic import TOLERANCE
from structviews.evaluation.senteval.relatedness import (
    RelatednessTraining,
)
from structviews.evaluation.senteval.tasks.reading import Examples, Task

FOLDS = 10
# For SNLI, whose classifier is not regularised ("noreg").
UNREGULARISED = (1e9,)

Vectors = tuple[np.ndarray, np.ndarray]
Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Protocol:
    """The settings of an evaluation protocol.

    Attributes:
        name: as in ``eval --protocol``.
        seed: seed of the folds and the relatedness model.
        order: returns the rows (n,) of a split's examples in the order in which they are divided into folds.
        splitter: makes the outer and inner folds.
        grids: inverse regularisation strengths C, ascending, for each combination of splits; tasks with other splits
            are not covered.
        one_vs_rest: as in liblinear, fit one classifier per class and penalise the intercept.
        decimals: round the scores that select C to this many decimals, which makes near-ties ties; None: no rounding.
        f1_chooses: select C by F1 for tasks scored by F1.
        relatedness: training settings of the relatedness model.
        similarity: whether the protocol covers unsupervised similarity tasks.
    """

    name: str
    seed: int
    order: Callable[[Examples], np.ndarray]
    splitter: KFold | StratifiedKFold
    grids: dict[str, tuple[float, ...]]
    one_vs_rest: bool
    decimals: int | None
    f1_chooses: bool
    relatedness: RelatednessTraining
    similarity: bool

    def describe(self) -> dict[str, Any]:
        """The ``protocol`` entry of ``results.json``."""
        many, intercept = (
            ("one against the rest for", "on the weights and the intercept")
            if self.one_vs_rest
            else ("softmax for", "on the weights, none on the intercept")
        )
        return {
            "name": self.name,
            "folds": FOLDS,
            "seed": self.seed,
            "splitter": str(self.splitter),
            "grids": {splits: list(grid) for splits, grid in self.grids.items()},
            "classifier": f"logistic regression, {many} more than two classes",
            "penalty": f"L2 {intercept}; the grid is its inverse strength C",
            "solver": "L-BFGS, preconditioned by the Hessian of all folds together, float32 products",
            "tolerance": TOLERANCE,
            "relatedness": str(self.relatedness),
            "similarity": "cosine" if self.similarity else None,
        }

    def covers(self, task: Task) -> bool:
        """Whether the protocol defines how to score the task."""
        if task.kind == "similarity":
            return self.similarity
        if task.kind == "relatedness":
            return self.similarity or task.name == "SICK-R"
        return grid_name(task) in self.grids


def grid_name(task: Task) -> str:
    """Key of the task's grid in ``Protocol.grids``: its splits, or ``SNLI`` for inference."""
    return "SNLI" if task.inference else "/".join(task.splits)
