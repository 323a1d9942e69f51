"""SentEval's protocol (Conneau and Kiela, 2018): who learns from what, and how it is scored.

Folds, seeds and grids are those of ``senteval/tools/validation.py`` with its scikit-learn classifier
(``usepytorch`` False); ``docs/evaluation.md`` tells where this differs.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from structviews.errors import InputError
from structviews.evaluation.solvers import TOLERANCE, correlation, fit_logistic, fit_relatedness, rotated_design
from structviews.evaluation.tasks import Examples, Task

FOLDS = 10
SEED = 1111
NESTED_GRID = tuple(2.0**t for t in range(-2, 4))
CROSS_VALIDATION_GRID = tuple(2.0**t for t in range(-1, 6))
# For SNLI, whose classifier is to have no penalty ("noreg").
UNREGULARISED = (1e9,)

SENTEVAL: dict[str, Any] = {
    "name": "senteval",
    "folds": FOLDS,
    "seed": SEED,
    "grids": {
        "all": list(NESTED_GRID),
        "train/test": list(CROSS_VALIDATION_GRID),
        "train/dev/test": list(NESTED_GRID),
        "SNLI": list(UNREGULARISED),
    },
    "classifier": "logistic regression, softmax for more than two classes, float64",
    "penalty": "L2 on the weights, none on the intercept; the grid is its inverse strength C",
    "solver": "preconditioned L-BFGS over all folds and strengths at once",
    "tolerance": TOLERANCE,
    "relatedness": "softmax of 5 classes, squared error on soft labels, Adam, stopped by dev Pearson",
    "similarity": "cosine",
}

Vectors = tuple[np.ndarray, np.ndarray]
Fold = tuple[np.ndarray, np.ndarray]


def senteval_order(examples: Examples) -> np.ndarray:
    """Rows (n,) of the examples as SentEval sorts them, by length and then target, which fixes the folds."""
    lengths = [[len(s) for s in sentences] for sentences in (examples.first, examples.second) if sentences]
    keys: list[Any] = [examples.targets, *reversed(lengths)]  # the last is the first to sort by
    return np.lexsort(keys)


def score_task(task: Task, vectors: dict[str, Vectors]) -> dict[str, Any]:
    """Score one task by SentEval's protocol.

    Args:
        task: as it was read.
        vectors: for each split the vectors (n, d) of the first sentences and of the second ones, which
            are empty where an example is a single sentence.

    Returns:
        ``scores`` (accuracy and F1 in percent; correlations from -1 to 1); ``predictions``, for each split
        that is tested an array (n,) in the order of the task's examples, of classes (int64) or of scores
        (float64; the cosines of similarity tasks); and what was chosen on the way.

    Raises:
        InputError: where the protocol cannot be followed: too few examples of a class for the folds, or an
            undefined correlation.
    """
    targets = {split: examples.targets for split, examples in task.splits.items()}
    if task.kind == "similarity":
        return similarity(vectors, targets)
    orders = {split: senteval_order(examples) for split, examples in task.splits.items()}
    features = {
        split: pair_features(*pair, task.inference) if len(pair[1]) else pair[0] for split, pair in vectors.items()
    }
    if task.kind == "relatedness":
        return relatedness(features, targets, orders)
    if "all" in targets:
        return nested_cross_validation(features["all"], targets["all"], orders["all"])
    if "dev" in targets:
        return development_set(features, targets, UNREGULARISED if task.inference else NESTED_GRID)
    return cross_validation(features, targets, orders, task.metrics)


def pair_features(u: np.ndarray, v: np.ndarray, inference: bool = False) -> np.ndarray:
    """Vectors (n, d) of both sentences to (n, 2d): ``|u - v|`` beside ``u * v``; for inference after both, (n, 4d)."""
    return np.concatenate([*((u, v) if inference else ()), np.abs(u - v), u * v], axis=1)


def nested_cross_validation(features: np.ndarray, labels: np.ndarray, order: np.ndarray) -> dict[str, Any]:
    """Mean accuracy over outer folds, each with the strength that inner folds of its training part choose."""
    design = rotated_design(features)
    outer = list(_folds(order, labels))
    inner = [fold for train, _ in outer for fold in _folds(train, labels)]
    accuracies, unconverged = _grid_accuracies(design, labels, inner, NESTED_GRID)
    by_fold = accuracies.reshape(len(outer), FOLDS, len(NESTED_GRID)).mean(1)
    chosen, dev = zip(*(_best(scores, NESTED_GRID) for scores in by_fold), strict=True)
    fits = fit_logistic(design, labels, _masks([train for train, _ in outer], len(labels)), chosen)
    predictions = np.empty_like(labels)
    for fold, (_, test) in enumerate(outer):
        predictions[test] = fits.predictions[fold, test]
    tests = [np.mean(predictions[test] == labels[test]) for _, test in outer]
    return {
        "scores": {"accuracy": 100 * float(np.mean(tests))},
        "predictions": {"all": predictions},
        "dev": {"accuracy": float(np.mean(dev))},
        "strengths": list(chosen),
        "unconverged": unconverged + int((~fits.converged).sum()),
    }


def cross_validation(
    features: dict[str, np.ndarray],
    labels: dict[str, np.ndarray],
    orders: dict[str, np.ndarray],
    metrics: tuple[str, ...] = ("accuracy",),
) -> dict[str, Any]:
    """Scores on ``test`` with the strength that folds of ``train`` choose."""
    joined = _join(features, labels)
    folds = list(_folds(joined.parts["train"][orders["train"]], joined.labels))
    return _choose_and_test(joined, folds, CROSS_VALIDATION_GRID, metrics)


def development_set(
    features: dict[str, np.ndarray], labels: dict[str, np.ndarray], grid: tuple[float, ...] = NESTED_GRID
) -> dict[str, Any]:
    """Accuracy on ``test`` with the strength that ``dev`` chooses, learning from ``train``."""
    joined = _join(features, labels)
    return _choose_and_test(joined, [(joined.parts["train"], joined.parts["dev"])], grid, ("accuracy",))


def relatedness(
    features: dict[str, np.ndarray], scores: dict[str, np.ndarray], orders: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Pearson, Spearman and squared error on ``test`` of SentEval's supervised relatedness model."""
    dev, predicted = fit_relatedness(features, scores, orders["train"], SEED)
    return {
        "scores": {
            "pearson": correlation("pearson", predicted, scores["test"]),
            "spearman": correlation("spearman", predicted, scores["test"]),
            "mse": float(np.mean((predicted - scores["test"]) ** 2)),
        },
        "predictions": {"test": predicted},
        "dev": {"pearson": dev},
    }


def similarity(vectors: dict[str, Vectors], scores: dict[str, np.ndarray]) -> dict[str, Any]:
    """Correlation of cosines with gold scores: per data set, and its three aggregates.

    ``mean`` is over the data sets, ``weighted mean`` by their numbers of pairs, and ``all`` is the
    correlation over all pairs put together.
    """
    cosines = {name: cosine(*pair) for name, pair in vectors.items()}
    sizes = [len(values) for values in scores.values()]
    result: dict[str, Any] = {
        "scores": {},
        "predictions": cosines,
        "sets": {name: {"pairs": len(values)} for name, values in scores.items()},
    }
    for kind in ("pearson", "spearman"):
        each = [correlation(kind, cosines[name], scores[name]) for name in scores]
        for name, value in zip(scores, each, strict=True):
            result["sets"][name][kind] = value
        together = [np.concatenate([values[name] for name in scores]) for values in (cosines, scores)]
        result["scores"] |= {
            f"{kind} mean": float(np.mean(each)),
            f"{kind} weighted mean": float(np.average(each, weights=sizes)),
            f"{kind} all": correlation(kind, *together),
        }
    return result


def cosine(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Cosines (n,) of the rows of two (n, d) arrays; 0 with a zero vector, as SentEval has it."""
    u, v = u.astype(np.float64), v.astype(np.float64)
    norms = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    return np.divide(np.sum(u * v, axis=1), norms, out=np.zeros_like(norms), where=norms > 0)


def _folds(rows: np.ndarray, labels: np.ndarray) -> Iterator[Fold]:
    """Stratified training and held-out parts of ``rows``."""
    rarest = int(np.bincount(labels[rows]).min())
    if rarest < FOLDS:
        raise InputError(f"a class has {rarest} examples, too few for {FOLDS} folds; give the whole task")
    splitter = StratifiedKFold(n_splits=FOLDS, shuffle=True, random_state=SEED)
    for train, test in splitter.split(np.zeros(len(rows)), labels[rows]):
        yield rows[train], rows[test]


def _masks(parts: list[np.ndarray], n: int) -> np.ndarray:
    masks = np.zeros((len(parts), n), dtype=bool)
    for mask, part in zip(masks, parts, strict=True):
        mask[part] = True
    return masks


def _grid_accuracies(
    design: torch.Tensor, labels: np.ndarray, folds: list[Fold], grid: tuple[float, ...]
) -> tuple[np.ndarray, int]:
    """Held-out accuracy (folds, strengths) in percent, and how many fits did not reach the tolerance."""
    masks = _masks([train for train, _ in folds], len(labels))
    fits = fit_logistic(design, labels, np.repeat(masks, len(grid), axis=0), np.tile(grid, len(folds)))
    right = (fits.predictions == labels).reshape(len(folds), len(grid), -1)
    accuracies = np.stack([100 * right[i, :, held_out].mean(0) for i, (_, held_out) in enumerate(folds)])
    return accuracies, int((~fits.converged).sum())


def _best(scores: np.ndarray, grid: tuple[float, ...]) -> tuple[float, float]:
    """The chosen strength and its score. Equal at two decimals: the smaller one, as SentEval rounds."""
    rounded = np.round(scores, 2)
    return grid[int(np.argmax(rounded))], float(rounded.max())


class _Joined(NamedTuple):
    """All splits as one design (n, r), their labels (n,), and the rows of each split."""

    design: torch.Tensor
    labels: np.ndarray
    parts: dict[str, np.ndarray]


def _join(features: dict[str, np.ndarray], labels: dict[str, np.ndarray]) -> _Joined:
    rows = np.split(np.arange(sum(map(len, labels.values()))), np.cumsum([len(part) for part in labels.values()])[:-1])
    design = rotated_design(np.concatenate([features[split] for split in labels]))
    return _Joined(design, np.concatenate(list(labels.values())), dict(zip(labels, rows, strict=True)))


def _choose_and_test(
    joined: _Joined, folds: list[Fold], grid: tuple[float, ...], metrics: tuple[str, ...]
) -> dict[str, Any]:
    accuracies, unconverged = _grid_accuracies(joined.design, joined.labels, folds, grid)
    strength, dev = _best(accuracies.mean(0), grid)
    train, test = joined.parts["train"], joined.parts["test"]
    fits = fit_logistic(joined.design, joined.labels, _masks([train], len(joined.labels)), [strength])
    gold, predicted = joined.labels[test], fits.predictions[0, test]
    scores = {"accuracy": 100 * float(np.mean(predicted == gold))}
    if "f1" in metrics:
        scores["f1"] = 100 * float(f1_score(gold, predicted))
    return {
        "scores": scores,
        "predictions": {"test": predicted},
        "dev": {"accuracy": dev},
        "strengths": [strength],
        "unconverged": unconverged + int((~fits.converged).sum()),
    }
