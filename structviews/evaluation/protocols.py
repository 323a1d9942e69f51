"""Protocols: who learns from what, in which folds, over which strengths, and how it is scored.

``senteval`` has the folds, seeds and grids of ``senteval/tools/validation.py`` with its scikit-learn classifier
(Conneau and Kiela, 2018; ``usepytorch`` False), ``kiros`` those of the skip-thought scripts (Kiros et al., 2015;
``eval_classification.py``, ``eval_trec.py``, ``eval_msrp.py`` and ``eval_sick.py`` of ryankiros/skip-thoughts).
``docs/evaluation.md`` tells where this differs from either.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, StratifiedKFold

from structviews.errors import InputError
from structviews.evaluation.solvers import (
    KIROS_RELATEDNESS,
    SENTEVAL_RELATEDNESS,
    TOLERANCE,
    Design,
    RelatednessTraining,
    correlation,
    expected_class,
    fit_logistic,
    fit_relatedness,
)
from structviews.evaluation.tasks import Examples, Task

FOLDS = 10
# For SNLI, whose classifier is to have no penalty ("noreg").
UNREGULARISED = (1e9,)

Vectors = tuple[np.ndarray, np.ndarray]
Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Protocol:
    """What distinguishes one protocol from another.

    Attributes:
        name: as ``eval --protocol`` has it.
        seed: of folds and of the relatedness model.
        order: rows (n,) of a split's examples in the order that the folds are cut from.
        splitter: of the folds, outer and inner.
        grids: inverse strengths C, ascending, by the splits that a task has; a task with others has no score.
        one_vs_rest: liblinear's problem: the intercept has a penalty, and every class a classifier of its own.
        decimals: scores that strengths are chosen by are rounded to this, so that near ones are equal.
        f1_chooses: where a task is scored by F1, that chooses the strength too.
        relatedness: how the relatedness model is trained.
        similarity: whether it scores tasks where nothing is trained.
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
        """What ``results.json`` says of the protocol."""
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
        """Whether the protocol says how to score the task."""
        if task.kind == "similarity":
            return self.similarity
        if task.kind == "relatedness":
            return self.similarity or task.name == "SICK-R"
        return _grid_name(task) in self.grids


def senteval_order(examples: Examples) -> np.ndarray:
    """Rows (n,) of the examples as SentEval sorts them, by length and then target, which fixes the folds."""
    lengths = [[len(s) for s in sentences] for sentences in (examples.first, examples.second) if sentences]
    keys: list[Any] = [examples.targets, *reversed(lengths)]  # the last is the first to sort by
    return np.lexsort(keys)


def kiros_order(examples: Examples) -> np.ndarray:
    """Rows (n,) of the examples as the skip-thought scripts shuffle them, whether before or in ``KFold``."""
    rows = np.arange(len(examples))
    np.random.RandomState(1234).shuffle(rows)
    return rows


SENTEVAL = Protocol(
    name="senteval",
    seed=1111,
    order=senteval_order,
    splitter=StratifiedKFold(n_splits=FOLDS, shuffle=True, random_state=1111),
    grids={
        "all": tuple(2.0**t for t in range(-2, 4)),
        "train/test": tuple(2.0**t for t in range(-1, 6)),
        "train/dev/test": tuple(2.0**t for t in range(-2, 4)),
        "SNLI": UNREGULARISED,
    },
    one_vs_rest=False,
    decimals=2,
    f1_chooses=False,
    relatedness=SENTEVAL_RELATEDNESS,
    similarity=True,
)
KIROS = Protocol(
    name="kiros",
    seed=1234,
    order=kiros_order,
    splitter=KFold(n_splits=FOLDS),
    grids={splits: tuple(2.0**t for t in range(9)) for splits in ("all", "train/test")},
    one_vs_rest=True,
    decimals=None,
    f1_chooses=True,
    relatedness=KIROS_RELATEDNESS,
    similarity=False,
)
PROTOCOLS = {protocol.name: protocol for protocol in (SENTEVAL, KIROS)}


def named_protocol(name: str) -> Protocol:
    """The protocol of a name.

    Raises:
        InputError: if there is none.
    """
    if name not in PROTOCOLS:
        raise InputError(f"unknown protocol {name!r}; known are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def score_task(
    task: Task, vectors: dict[str, Vectors] | Sequence[dict[str, Vectors]], protocol: Protocol = SENTEVAL
) -> dict[str, Any]:
    """Score one task by a protocol.

    Args:
        task: as it was read.
        vectors: for each split the vectors (n, d) of the first sentences and of the second ones, which
            are empty where an example is a single sentence. Of several such, the ensemble is scored.
        protocol: one of ``PROTOCOLS``.

    Returns:
        ``scores`` (accuracy and F1 in percent; correlations from -1 to 1); ``predictions``, for each split
        that is tested an array (n,) in the order of the task's examples, of classes (int64) or of scores
        (float64; the cosines of similarity tasks); and what was chosen on the way.

    Raises:
        InputError: where the protocol cannot be followed: it does not cover the task, too few examples of a
            class for the folds, or an undefined correlation.
    """
    members = [vectors] if isinstance(vectors, dict) else list(vectors)
    if not protocol.covers(task):
        raise InputError(f"the {protocol.name} protocol does not say how to score this task; take --protocol senteval")
    return {"classification": classification, "relatedness": relatedness, "similarity": similarity}[task.kind](
        task, members, protocol
    )


def task_features(task: Task, vectors: dict[str, Vectors]) -> dict[str, np.ndarray]:
    """What classifiers see of each split: vectors (n, d), or the features of pairs."""
    return {split: pair_features(*pair, task.inference) if len(pair[1]) else pair[0] for split, pair in vectors.items()}


def pair_features(u: np.ndarray, v: np.ndarray, inference: bool = False) -> np.ndarray:
    """Vectors (n, d) of both sentences to (n, 2d): ``|u - v|`` beside ``u * v``; for inference after both, (n, 4d)."""
    parts = [u, v] if inference else []
    features = np.empty((len(u), (len(parts) + 2) * u.shape[1]), dtype=u.dtype)
    *places, difference, product = np.split(features, len(parts) + 2, axis=1)
    for place, part in zip(places, parts, strict=True):
        place[:] = part
    np.abs(np.subtract(u, v, out=difference), out=difference)
    np.multiply(u, v, out=product)
    return features


@dataclass(frozen=True)
class Choice:
    """A test part, the parts that choose its classifier's strength, and what the classifier learns from.

    Attributes:
        train: rows that the tested classifier learns from.
        test: rows that it is tested on.
        inner: pairs of rows, learnt from and held out, that choose the strength.
    """

    train: np.ndarray
    test: np.ndarray
    inner: list[Fold]


def choices(task: Task, protocol: Protocol, labels: np.ndarray) -> list[Choice]:
    """How a task's examples, of all splits one after the other, are learnt from and tested.

    One split is nested cross-validation, train and test are cross-validation on train, and with dev that
    chooses.
    """
    parts = dict(zip(task.splits, np.split(np.arange(len(labels)), _ends(task)), strict=True))
    if "all" in parts:
        outer = _folds(parts["all"][protocol.order(task.splits["all"])], labels, protocol)
        return [Choice(train, test, list(_folds(train, labels, protocol))) for train, test in outer]
    if "dev" in parts:
        return [Choice(parts["train"], parts["test"], [(parts["train"], parts["dev"])])]
    ordered = parts["train"][protocol.order(task.splits["train"])]
    return [Choice(parts["train"], parts["test"], list(_folds(ordered, labels, protocol)))]


def classification(task: Task, members: Sequence[dict[str, Vectors]], protocol: Protocol) -> dict[str, Any]:
    """Accuracy, and F1 where the task has it, on what is tested: the mean over the outer folds if there are some.

    Of several members, each chooses its strengths by itself; their log-probabilities are averaged with
    weights in proportion to the scores of the chosen strengths on held-out parts of the training
    examples (the ensembles of Logeswaran and Lee, 2018, section 4.4).
    """
    labels = np.concatenate([examples.targets for examples in task.splits.values()])
    planned = choices(task, protocol, labels)
    metric = "f1" if protocol.f1_chooses and "f1" in task.metrics else "accuracy"
    grid = protocol.grids[_grid_name(task)]
    learnt = [_learn(task_features(task, vectors), labels, planned, grid, metric, protocol) for vectors in members]
    dev = np.array([member["dev"] for member in learnt])  # (members, choices)
    weights = dev / dev.sum(0)
    predicted = labels.copy()
    tests = []
    for i, choice in enumerate(planned):
        logs = sum(weights[m, i] * member["logs"][i] for m, member in enumerate(learnt))
        predicted[choice.test] = logs.argmax(1)
        tests.append(_scores(labels[choice.test], predicted[choice.test], task.metrics))
    tested = "all" if "all" in task.splits else "test"
    result = {
        "scores": {name: 100 * float(np.mean([scores[name] for scores in tests])) for name in task.metrics},
        "predictions": {tested: predicted[len(labels) - len(task.splits[tested]) :]},
        "unconverged": sum(member["unconverged"] for member in learnt),
    }
    if len(learnt) > 1:
        return result | {"weights": weights.T.tolist(), "members": [_member(member, metric) for member in learnt]}
    return result | _member(learnt[0], metric)


def relatedness(task: Task, members: Sequence[dict[str, Vectors]], protocol: Protocol) -> dict[str, Any]:
    """Pearson, Spearman and squared error on ``test`` of the supervised relatedness model.

    Of several members the log-probabilities of the five classes are averaged, weighted by dev correlations.
    """
    scores = {split: examples.targets for split, examples in task.splits.items()}
    order = protocol.order(task.splits["train"])
    fitted = [
        fit_relatedness(task_features(task, vectors), scores, order, protocol.seed, protocol.relatedness)
        for vectors in members
    ]
    dev = np.array([best for best, _ in fitted])
    weights = np.maximum(dev, 0) / np.maximum(dev, 0).sum() if len(fitted) > 1 else np.ones(1)
    logs = sum(weight * shares for weight, (_, shares) in zip(weights, fitted, strict=True))
    predicted = expected_class(log_softmax(logs, axis=1))
    result = {
        "scores": {
            "pearson": correlation("pearson", predicted, scores["test"]),
            "spearman": correlation("spearman", predicted, scores["test"]),
            "mse": float(np.mean((predicted - scores["test"]) ** 2)),
        },
        "predictions": {"test": predicted},
    }
    if len(fitted) > 1:
        return result | {
            "weights": [weights.tolist()],
            "members": [{"dev": {"pearson": value}} for value in dev.tolist()],
        }
    return result | {"dev": {"pearson": float(dev[0])}}


def similarity(task: Task, members: Sequence[dict[str, Vectors]], protocol: Protocol) -> dict[str, Any]:
    """Correlation of cosines with gold scores: per data set, and its three aggregates.

    ``mean`` is over the data sets, ``weighted mean`` by their numbers of pairs, and ``all`` is the
    correlation over all pairs put together. Of several members the cosines are averaged, unweighted,
    since nothing validates them.
    """
    scores = {name: examples.targets for name, examples in task.splits.items()}
    cosines = {name: np.mean([cosine(*vectors[name]) for vectors in members], axis=0) for name in scores}
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


def _folds(rows: np.ndarray, labels: np.ndarray, protocol: Protocol) -> Iterator[Fold]:
    """Training and held-out parts of ``rows``."""
    rarest = int(np.bincount(labels[rows]).min())
    if rarest < FOLDS:
        raise InputError(f"a class has {rarest} examples, too few for {FOLDS} folds; give the whole task")
    for train, test in protocol.splitter.split(np.zeros(len(rows)), labels[rows]):
        yield rows[train], rows[test]


def _grid_name(task: Task) -> str:
    return "SNLI" if task.inference else "/".join(task.splits)


def _ends(task: Task) -> np.ndarray:
    """Where each split but the last ends, when they are put one after the other."""
    return np.cumsum([len(examples) for examples in task.splits.values()])[:-1]


def _masks(parts: Sequence[np.ndarray], n: int) -> np.ndarray:
    masks = np.zeros((len(parts), n), dtype=bool)
    for mask, part in zip(masks, parts, strict=True):
        mask[part] = True
    return masks


def _learn(
    features: dict[str, np.ndarray],
    labels: np.ndarray,
    planned: list[Choice],
    grid: tuple[float, ...],
    metric: str,
    protocol: Protocol,
) -> dict[str, Any]:
    """For each choice its strength, the score that chose it, and log-probabilities (t, K) of what is tested."""
    parts = [choice.train for choice in planned]
    inner = [fold for choice in planned for fold in choice.inner]
    if len(inner) > 1:  # one inner part is the training part itself
        parts += [train for train, _ in inner]
    masks = _masks(parts, len(labels))
    design = Design(list(features.values()), np.any(masks, axis=0), centred=not protocol.one_vs_rest)
    fits = fit_logistic(design, labels, masks, grid, protocol.one_vs_rest)
    predictions = fits.predictions[-len(inner) :]
    held_out = [
        [_scores(labels[test], predicted[test], (metric,))[metric] for predicted in predictions[i]]
        for i, (_, test) in enumerate(inner)
    ]
    by_choice = np.reshape(held_out, (len(planned), -1, len(grid)))
    # Along the last axis, so that numpy adds up in the order of a list.
    means = 100 * np.ascontiguousarray(by_choice.swapaxes(1, 2)).mean(-1)
    if protocol.decimals is not None:
        means = np.round(means, protocol.decimals)
    chosen = means.argmax(1)  # the smallest of equals
    return {
        "strengths": [grid[i] for i in chosen],
        "dev": means.max(1),
        "logs": [
            log_probabilities(fits.logits[i, best, choice.test], protocol.one_vs_rest)
            for i, (best, choice) in enumerate(zip(chosen, planned, strict=True))
        ],
        "unconverged": int((~fits.converged).sum()),
    }


def _member(learnt: dict[str, Any], metric: str) -> dict[str, Any]:
    return {"dev": {metric: float(np.mean(learnt["dev"]))}, "strengths": learnt["strengths"]}


def log_probabilities(logits: np.ndarray, one_vs_rest: bool) -> np.ndarray:
    """Logits (n, 1) of two classes or (n, K) to log-probabilities (n, K); one-against-the-rest ones are normalised."""
    logits = logits.astype(np.float64)
    if logits.shape[1] == 1:
        return np.concatenate([log_expit(-logits), log_expit(logits)], axis=1)
    if not one_vs_rest:
        return log_softmax(logits, axis=1)
    logs = log_expit(logits)
    return logs - np.log(np.exp(logs).sum(1, keepdims=True))


def _scores(gold: np.ndarray, predicted: np.ndarray, metrics: Sequence[str]) -> dict[str, float]:
    """From 0 to 1, as the protocols' own code takes means of them: the last bit decides between equals."""
    scores = {"accuracy": float(np.mean(predicted == gold))}
    if "f1" in metrics:
        scores["f1"] = float(f1_score(gold, predicted))
    return {name: scores[name] for name in metrics}
