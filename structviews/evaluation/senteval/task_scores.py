"""Score a task by a protocol: folds, regularisation strengths, classifiers and correlations."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.metrics import average_precision_score, f1_score

from structviews.errors import InputError
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.protocols.protocol import FOLDS, Choice, Fold, Protocol, Vectors
from structviews.evaluation.senteval.relatedness import correlation, expected_class, fit_relatedness
from structviews.evaluation.senteval.tasks.reading import Task
from structviews.runtime.wording import counted


def score_task(
    task: Task, vectors: dict[str, Vectors] | Sequence[dict[str, Vectors]], protocol: Protocol = SENTEVAL
) -> dict[str, Any]:
    """Score one task by a protocol, from each split's vectors (n, d) of the first sentences and of the second ones.

    The latter are empty for single-sentence tasks. A sequence of such vectors is scored as an ensemble. InputError if
    the protocol does not cover the task, a class has too few examples for the folds, or a correlation is undefined.

    Returns ``scores`` (accuracy and F1 in percent; correlations from -1 to 1); ``predictions``, an array (n,) for each
    test split in the order of the task's examples: classes (int64) or scores (float64; cosines for similarity tasks);
    and the selected hyperparameters and dev scores.
    """
    members, task = [vectors] if isinstance(vectors, dict) else list(vectors), protocol.seen(task)
    if not protocol.covers(task):
        raise InputError(f"the {protocol.name} protocol does not cover this task; use --protocol senteval")
    scorers = {"relatedness": relatedness, "similarity": similarity, "structure": structure}
    return scorers.get(task.kind, classification)(task, members, protocol)


def task_features(task: Task, vectors: dict[str, Vectors]) -> dict[str, np.ndarray]:
    """Classifier features for each split: vectors (n, d), or pair features."""
    return {split: pair_features(*pair, task.inference) if len(pair[1]) else pair[0] for split, pair in vectors.items()}


def pair_features(u: np.ndarray, v: np.ndarray, inference: bool = False) -> np.ndarray:
    """Pair features ``[|u - v|, u * v]`` (n, 2d); for inference ``[u, v, |u - v|, u * v]`` (n, 4d)."""
    features = np.empty((len(u), (4 if inference else 2) * u.shape[1]), dtype=u.dtype)  # no copy: it may be large
    *both, difference, product = np.split(features, 4 if inference else 2, axis=1)
    for columns, vectors in zip(both, (u, v), strict=False):
        columns[:] = vectors
    np.abs(np.subtract(u, v, out=difference), out=difference)
    np.multiply(u, v, out=product)
    return features


def choices(task: Task, protocol: Protocol, labels: np.ndarray) -> list[Choice]:
    """The train/test splits of a task; rows number the examples of all its splits, concatenated.

    A single split ``all`` gives nested cross-validation, ``train`` and ``test`` give cross-validation on ``train``;
    with ``dev``, the strength is selected on ``dev``.
    """
    ends = np.cumsum([len(examples) for examples in task.splits.values()])
    rows = dict(zip(task.splits, np.split(np.arange(len(labels)), ends[:-1]), strict=True))

    def folds(chosen: np.ndarray) -> Iterator[Fold]:
        rarest = int(np.bincount(labels[chosen]).min())
        if rarest < FOLDS:
            few = f"the rarest class has {counted(rarest, 'example')}, too few for {FOLDS} folds"
            raise InputError(f"{few}; use the complete task")
        for train, test in protocol.splitter.split(np.zeros(len(chosen)), labels[chosen]):
            yield chosen[train], chosen[test]

    if "all" in rows:
        outer = folds(rows["all"][protocol.order(task.splits["all"])])
        return [Choice(train, test, list(folds(train))) for train, test in outer]
    train = rows["train"][protocol.order(task.splits["train"])]
    inner = [(train, rows["dev"])] if "dev" in rows else list(folds(train))
    return [Choice(train, rows["test"], inner)]


def classification(task: Task, members: Sequence[dict[str, Vectors]], protocol: Protocol) -> dict[str, Any]:
    """Test accuracy, and F1 if the task uses it; the mean over outer folds, if any.

    Each ensemble member selects its own strengths. The members' log-probabilities are averaged, weighted by their
    scores on held-out training examples (the ensembles of Logeswaran and Lee, 2018, section 4.4).
    """
    labels = np.concatenate([examples.targets for examples in task.splits.values()])
    planned = choices(task, protocol, labels)
    metric = "f1" if protocol.f1_chooses and "f1" in task.metrics else "accuracy"
    classifier, grid = protocol.own_classifiers.get(task.name, protocol.classifier), protocol.grid(task)
    inner = [held_out for choice in planned for _, held_out in choice.inner]
    own: list[dict[str, Any]] = []  # of each member, its mean score on held-out examples, and its strengths
    dev: list[np.ndarray] = []  # of each member and choice, the score on held-out examples

    def select(held_out: list[np.ndarray]) -> list[int]:
        folds = zip(inner, held_out, strict=True)
        scores = [[_score(labels[test], each, metric) for each in predictions] for test, predictions in folds]
        by_choice = np.reshape(scores, (len(planned), -1, len(grid)))
        # Along the last axis, so that numpy sums in the same order as over a list.
        means = 100 * np.ascontiguousarray(by_choice.swapaxes(1, 2)).mean(-1)
        if protocol.decimals is not None:
            means = np.round(means, protocol.decimals)
        selected: list[int] = means.argmax(1).tolist()  # ties: the smallest
        dev.append(means.max(1))
        own.append({"dev": {metric: float(np.mean(dev[-1]))}, "strengths": [grid[i] for i in selected]})
        return selected

    logs, unconverged = [], 0
    for vectors in members:
        found, ran_out = classifier.fit(list(task_features(task, vectors).values()), labels, planned, grid, select)
        logs.append(found)
        unconverged += ran_out
    weights = shares(np.array(dev))  # (members, choices)
    predicted = labels.copy()
    for i, choice in enumerate(planned):
        predicted[choice.test] = sum(weights[m, i] * each[i] for m, each in enumerate(logs)).argmax(1)
    tests = [choice.test for choice in planned]
    scores = {name: [_score(labels[test], predicted[test], name) for test in tests] for name in task.metrics}
    tested = "all" if "all" in task.splits else "test"
    chosen = [strength for each in own for strength in each["strengths"]]
    # Beyond an end of the grid, a strength may be better; a grid of one is no choice.
    ends = {"first": chosen.count(grid[0]), "last": chosen.count(grid[-1]), "choices": len(chosen)}
    result = {
        "scores": {name: 100 * float(np.mean(each)) for name, each in scores.items()},
        "predictions": {tested: predicted[len(labels) - len(task.splits[tested]) :]},
        "unconverged": unconverged,
        "at_grid_end": ends if len(grid) > 1 else {},
    }
    return result | (own[0] if len(own) == 1 else {"weights": weights.T.tolist(), "members": own})


def shares(dev: np.ndarray) -> np.ndarray:
    """The members' weights, in proportion to their scores (members, ...) on dev; equal where all of these are 0."""
    total = dev.sum(0)
    return np.where(total > 0, dev / np.where(total > 0, total, 1), 1 / len(dev))


def _score(gold: np.ndarray, predicted: np.ndarray, metric: str) -> float:
    """A score from 0 to 1, the scale on which the protocols' own code averages them: the last bit can decide ties."""
    return float(f1_score(gold, predicted, zero_division=0) if metric == "f1" else np.mean(predicted == gold))


def relatedness(task: Task, members: Sequence[dict[str, Vectors]], protocol: Protocol) -> dict[str, Any]:
    """Pearson and Spearman correlation and mean squared error of the supervised relatedness model on ``test``.

    For an ensemble, the members' log-probabilities of the five classes are averaged, weighted by dev correlation.
    """
    gold = {split: examples.targets for split, examples in task.splits.items()}
    order = protocol.order(task.splits["train"])
    features = (task_features(task, vectors) for vectors in members)
    fitted = [fit_relatedness(each, gold, order, protocol.seed, protocol.relatedness) for each in features]
    dev = np.array([best for best, _ in fitted])
    weights = shares(np.maximum(dev, 0))
    logs = sum(weight * each for weight, (_, each) in zip(weights, fitted, strict=True))
    predicted = expected_class(log_softmax(logs, axis=1))
    scores = {kind: correlation(kind, predicted, gold["test"]) for kind in ("pearson", "spearman")}
    scores["mse"] = float(np.mean((predicted - gold["test"]) ** 2))
    result = {"scores": scores, "predictions": {"test": predicted}}
    own = [{"dev": {"pearson": value}} for value in dev.tolist()]
    return result | (own[0] if len(fitted) == 1 else {"weights": [weights.tolist()], "members": own})


def similarity(task: Task, members: Sequence[dict[str, Vectors]], protocol: Protocol) -> dict[str, Any]:
    """Correlation of cosines with gold scores, per data set and as three aggregates.

    ``mean`` is the unweighted mean over data sets, ``weighted mean`` is weighted by their numbers of pairs, and
    ``all`` is the correlation over all pairs pooled. For an ensemble, the cosines are averaged without weights, as
    there is no dev set.
    """
    gold = {name: examples.targets for name, examples in task.splits.items()}
    cosines = {name: np.mean([cosine(*vectors[name]) for vectors in members], axis=0) for name in gold}
    sizes = [len(values) for values in gold.values()]
    scores: dict[str, float] = {}
    sets: dict[str, dict[str, float]] = {name: {"pairs": len(values)} for name, values in gold.items()}
    for kind in ("pearson", "spearman"):
        each = [correlation(kind, cosines[name], gold[name]) for name in gold]
        for name, value in zip(gold, each, strict=True):
            sets[name][kind] = value
        together = [np.concatenate([values[name] for name in gold]) for values in (cosines, gold)]
        scores |= {
            f"{kind} mean": float(np.mean(each)),
            f"{kind} weighted mean": float(np.average(each, weights=sizes)),
            f"{kind} all": correlation(kind, *together),
        }
    scores = {name: scores[name] for name in protocol.correlations or scores}
    return {"scores": scores, "predictions": cosines, "sets": sets}


def structure(task: Task, members: Sequence[dict[str, Vectors]], protocol: Protocol) -> dict[str, Any]:
    """How well cosines tell paraphrases from sentences of the same words, with the score of an arbitrary choice.

    Of pairs with a class each, the average precision of the cosine. Of several pairs, the share of examples in which
    the right one has a higher cosine than all others; a tie is wrong.
    """
    (split,) = task.splits
    cosines = np.mean([cosine(*vectors[split]) for vectors in members], axis=0)
    gold = task.splits[split].targets
    if task.choices == 1:
        score, predicted, chance = 100 * average_precision_score(gold, cosines), cosines, 100 * gold.mean()
    else:
        table, rows = cosines.reshape(-1, task.choices), np.arange(len(gold))
        right = table[rows, gold]
        table[rows, gold] = -np.inf
        predicted = np.where(right > table.max(axis=1), gold, table.argmax(axis=1))
        score, chance = 100 * np.mean(predicted == gold), 100 / task.choices
    return {"scores": {task.metrics[0]: float(score)}, "predictions": {split: predicted}, "chance": float(chance)}


def cosine(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Cosines (n,) of the rows of two (n, d) arrays; 0 if a vector is zero, as in SentEval."""
    u, v = u.astype(np.float64), v.astype(np.float64)
    norms = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    return np.divide(np.sum(u * v, axis=1), norms, out=np.zeros_like(norms), where=norms > 0)
