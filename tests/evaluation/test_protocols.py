"""The protocol against plain loops that follow SentEval's own code with scikit-learn's classifier."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from structviews.errors import InputError
from structviews.evaluation import protocols
from structviews.evaluation.protocols import (
    cosine,
    cross_validation,
    development_set,
    nested_cross_validation,
    pair_features,
    score_task,
    senteval_order,
    similarity,
)
from structviews.evaluation.tasks import Examples, read_task

LOW, HIGH = [2.0**t for t in range(-2, 4)], [2.0**t for t in range(-1, 6)]


def noisy(n: int, d: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap, so that strengths differ in their accuracy."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    centres = np.random.default_rng(0).standard_normal((classes, d))
    return (0.3 * (centres[labels] + 1.5 * rng.standard_normal((n, d)))).astype(np.float32), labels


def fit(features, labels, strength):
    return LogisticRegression(C=strength, tol=1e-8, max_iter=5000).fit(features.astype(np.float64), labels)


def folds():
    return StratifiedKFold(n_splits=10, shuffle=True, random_state=1111)


def best(features, labels, grid):
    """SentEval's inner loop: the strength with the best mean accuracy, rounded, first of equals."""
    scores = []
    for strength in grid:
        parts = [
            fit(features[train], labels[train], strength).score(features[test], labels[test])
            for train, test in folds().split(features, labels)
        ]
        scores.append(round(100 * np.mean(parts), 2))
    return grid[np.argmax(scores)], np.max(scores)


def test_nested_cross_validation_is_the_plain_loop():
    features, labels = noisy(160, 6, 2, seed=1)
    strengths, devs, tests = [], [], []
    predicted = np.empty_like(labels)
    for train, test in folds().split(features, labels):
        strength, dev = best(features[train], labels[train], LOW)
        strengths.append(strength)
        devs.append(dev)
        predicted[test] = fit(features[train], labels[train], strength).predict(features[test])
        tests.append(100 * np.mean(predicted[test] == labels[test]))
    # The examples lie in another order than that of the folds.
    order = np.random.default_rng(0).permutation(len(labels))
    places = np.argsort(order)
    result = nested_cross_validation(features[places], labels[places], order)
    np.testing.assert_array_equal(result["predictions"]["all"][order], predicted)
    assert result["strengths"] == strengths
    assert len(set(strengths)) > 1
    assert result["scores"]["accuracy"] == pytest.approx(np.mean(tests))
    assert result["dev"]["accuracy"] == pytest.approx(np.mean(devs))
    assert result["unconverged"] == 0


@pytest.mark.parametrize("classes", [2, 4])
def test_cross_validation_is_the_plain_loop(classes):
    (train, train_labels), (test, test_labels) = noisy(160, 6, classes, seed=2), noisy(90, 6, classes, seed=3)
    strength, dev = best(train, train_labels, HIGH)
    predicted = fit(train, train_labels, strength).predict(test)
    metrics = ("accuracy", "f1") if classes == 2 else ("accuracy",)
    order = np.random.default_rng(0).permutation(len(train))
    places = np.argsort(order)
    features, labels = {"train": train[places], "test": test}, {"train": train_labels[places], "test": test_labels}
    result = cross_validation(features, labels, {"train": order}, metrics)
    np.testing.assert_array_equal(result["predictions"]["test"], predicted)
    assert result["strengths"] == [strength]
    assert result["dev"]["accuracy"] == pytest.approx(dev)
    assert result["scores"]["accuracy"] == pytest.approx(100 * np.mean(predicted == test_labels))
    if classes == 2:
        assert result["scores"]["f1"] == pytest.approx(100 * f1_score(test_labels, predicted))


def test_the_development_set_chooses():
    data = {split: noisy(n, 6, 3, seed) for split, n, seed in (("train", 120, 4), ("dev", 60, 5), ("test", 90, 6))}
    features, labels = ({split: pair[i] for split, pair in data.items()} for i in (0, 1))
    models = [fit(features["train"], labels["train"], strength) for strength in LOW]
    scores = [round(100 * model.score(features["dev"], labels["dev"]), 2) for model in models]
    chosen = int(np.argmax(scores))
    result = development_set(features, labels)
    assert result["strengths"] == [LOW[chosen]]
    assert result["dev"]["accuracy"] == pytest.approx(scores[chosen])
    np.testing.assert_array_equal(result["predictions"]["test"], models[chosen].predict(features["test"]))
    expected = 100 * models[chosen].score(features["test"], labels["test"])
    assert result["scores"]["accuracy"] == pytest.approx(expected)


def test_examples_are_sorted_as_senteval_sorts_them(folder):
    task = read_task("MR", folder, allow_partial=True)
    examples = task.splits["all"]
    order = senteval_order(examples)
    plain = sorted(
        zip(task.splits["all"].first, task.splits["all"].targets, strict=True), key=lambda z: (len(z[0]), z[1])
    )
    assert [(examples.first[i], examples.targets[i]) for i in order] == plain

    pairs = Examples((("b", "b"), ("a",), ("c",), ("d",)), (("x",), ("y", "y"), ("z",), ("w",)), np.array([1, 2, 4, 3]))
    assert senteval_order(pairs).tolist() == [3, 2, 1, 0]


def test_pair_features():
    u, v = np.array([[1.0, -2.0]]), np.array([[3.0, 5.0]])
    np.testing.assert_array_equal(pair_features(u, v), [[2, 7, 3, -10]])


def test_cosine_of_a_zero_vector_is_zero():
    u, v = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    np.testing.assert_allclose(cosine(u, v), [np.sqrt(0.5), 0, -1])


def test_similarity_has_each_set_and_three_aggregates():
    rng = np.random.default_rng(0)
    vectors = {name: (rng.standard_normal((n, 4)), rng.standard_normal((n, 4))) for name, n in (("a", 5), ("b", 20))}
    gold = {name: rng.random(len(pair[0])) for name, pair in vectors.items()}
    result = similarity(vectors, gold)
    cosines = {
        name: [float(x @ y / np.linalg.norm(x) / np.linalg.norm(y)) for x, y in zip(u, v, strict=True)]
        for name, (u, v) in vectors.items()
    }
    for kind, function in (("pearson", pearsonr), ("spearman", spearmanr)):
        a, b = (function(cosines[name], gold[name])[0] for name in "ab")
        assert result["sets"]["a"][kind] == pytest.approx(a)
        assert result["scores"][f"{kind} mean"] == pytest.approx((a + b) / 2)
        assert result["scores"][f"{kind} weighted mean"] == pytest.approx((5 * a + 20 * b) / 25)
        together = function(cosines["a"] + cosines["b"], [*gold["a"], *gold["b"]])[0]
        assert result["scores"][f"{kind} all"] == pytest.approx(together)
    assert result["sets"]["b"]["pairs"] == 20
    np.testing.assert_allclose(result["predictions"]["a"], cosines["a"])


def test_too_few_examples_for_the_folds_are_refused():
    features, _ = noisy(40, 3, 2, seed=1)
    labels = np.array([1] * 8 + [0] * 32)
    with pytest.raises(InputError, match="a class has 8 examples, too few for 10 folds"):
        nested_cross_validation(features, labels, np.arange(40))


@pytest.mark.parametrize(
    ("name", "scorer"),
    [
        ("MR", "nested_cross_validation"),
        ("SST2", "development_set"),
        ("SICK-E", "development_set"),
        ("TREC", "cross_validation"),
        ("MRPC", "cross_validation"),
        ("SICK-R", "relatedness"),
        ("STS-B", "relatedness"),
        ("STS12", "similarity"),
    ],
)
def test_every_task_gets_its_procedure(name, scorer, folder, monkeypatch):
    task = read_task(name, folder, allow_partial=True)
    vectors = {
        split: tuple(np.ones((len(part), 3)) if part else np.empty((0, 3)) for part in (e.first, e.second))
        for split, e in task.splits.items()
    }
    monkeypatch.setattr(protocols, scorer, lambda features, *rest: (features, rest))
    features, rest = score_task(task, vectors)
    first = next(iter(features.values())) if isinstance(features, dict) else features
    if scorer != "similarity":
        assert first.shape[1] == (3 if name in ("MR", "SST2", "TREC") else 6)
    if scorer == "cross_validation":
        assert rest[2] == (("accuracy", "f1") if name == "MRPC" else ("accuracy",))
