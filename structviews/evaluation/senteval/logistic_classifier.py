"""Logistic regression as a protocol's classifier, fitted by the solver of ``logistic.py``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit, log_softmax

from structviews.evaluation.senteval.classifier import Choice, Classifier, Fitted
from structviews.evaluation.senteval.design import Design
from structviews.evaluation.senteval.logistic import TOLERANCE, fit_logistic


@dataclass(frozen=True)
class LogisticClassifier(Classifier):
    """Logistic regression; strengths are inverse penalties C.

    Attributes:
        one_vs_rest: as in liblinear, fit one classifier per class and penalise the intercept.
    """

    one_vs_rest: bool

    def fit(
        self, features: Sequence[np.ndarray], labels: np.ndarray, planned: Sequence[Choice], grid: Sequence[float]
    ) -> Fitted:
        """Fit all parts and strengths at once, the final ones too; see ``Classifier.fit``."""
        parts = [choice.train for choice in planned]
        inner = [fold for choice in planned for fold in choice.inner]
        if len(inner) > 1:  # a single inner part is the training part itself
            parts += [train for train, _ in inner]
        masks = _masks(parts, len(labels))
        design = Design(features, np.any(masks, axis=0), centred=not self.one_vs_rest)
        fits = fit_logistic(design, labels, masks, grid, self.one_vs_rest)
        predictions = fits.predictions[-len(inner) :]

        def final(chosen: Sequence[int]) -> list[np.ndarray]:
            return [
                log_probabilities(fits.logits[i, best, choice.test], self.one_vs_rest)
                for i, (best, choice) in enumerate(zip(chosen, planned, strict=True))
            ]

        held_out = [predicted[:, test] for predicted, (_, test) in zip(predictions, inner, strict=True)]
        return Fitted(held_out, final, int((~fits.converged).sum()))

    def describe(self) -> dict[str, Any]:
        """See ``Classifier.describe``."""
        many, intercept = (
            ("one against the rest for", "on the weights and the intercept")
            if self.one_vs_rest
            else ("softmax for", "on the weights, none on the intercept")
        )
        return {
            "classifier": f"logistic regression, {many} more than two classes",
            "penalty": f"L2 {intercept}; the grid is its inverse strength C",
            "solver": "L-BFGS, preconditioned by the Hessian of all folds together, float32 products",
            "tolerance": TOLERANCE,
        }


def log_probabilities(logits: np.ndarray, one_vs_rest: bool) -> np.ndarray:
    """Logits, (n, 1) for two classes else (n, K), to log-probabilities (n, K); one-vs-rest ones are normalised."""
    logits = logits.astype(np.float64)
    if logits.shape[1] == 1:
        return np.concatenate([log_expit(-logits), log_expit(logits)], axis=1)
    logs: np.ndarray = log_expit(logits) if one_vs_rest else log_softmax(logits, axis=1)
    if one_vs_rest:
        logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
    return logs


def _masks(parts: Sequence[np.ndarray], n: int) -> np.ndarray:
    masks = np.zeros((len(parts), n), dtype=bool)
    for mask, part in zip(masks, parts, strict=True):
        mask[part] = True
    return masks
