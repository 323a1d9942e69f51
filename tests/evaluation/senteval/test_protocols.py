"""Protocols against plain loops that follow SentEval's and the skip-thought scripts' code with scikit-learn."""

import copy
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from scipy.stats import pearsonr, spearmanr
from shell import refused
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import shuffle

from structviews.evaluation.senteval import adam_classifier
from structviews.evaluation.senteval.adam_classifier import AdamClassifier, Part
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.builtin_protocols import KIROS, SENTEVAL, SENTEVAL_TORCH, senteval_order
from structviews.evaluation.senteval.relatedness import fit_relatedness
from structviews.evaluation.senteval.suite import covered_tasks, evaluate
from structviews.evaluation.senteval.task_scores import choices, cosine, pair_features, score_task
from structviews.evaluation.senteval.tasks.finding import read_task, task_names
from structviews.evaluation.senteval.tasks.reading import Examples, Task

TORCH = AdamClassifier(1111)
PENALTIES = [1e-5, 1.0]  # more different than those of the protocol
LOW, HIGH, KIROS_GRID = ([2.0**t for t in range(*ends)] for ends in ((-2, 4), (-1, 6), (0, 9)))


def noisy(n: int, d: int, classes: int, seed: int, spread: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap, so that strengths differ in their accuracy."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % classes)
    centres = np.random.default_rng(0).standard_normal((classes, d))
    return (0.3 * (centres[labels] + spread * rng.standard_normal((n, d)))).astype(np.float32), labels


def task_of(metrics: tuple[str, ...] = ("accuracy",), **splits: tuple[np.ndarray, np.ndarray]):
    """A task of sentences of various lengths, in no order, and its vectors."""
    rng = np.random.default_rng(9)
    examples = {
        split: Examples(tuple(("w",) * n for n in rng.integers(1, 9, len(labels))), (), labels)
        for split, (_, labels) in splits.items()
    }
    vectors = {split: (features, np.empty((0, features.shape[1]))) for split, (features, _) in splits.items()}
    return Task("MADE", "classification", examples, {}, {}, metrics), vectors


class PlainSentEval:
    """SentEval's choices, as its code has them."""

    grids = (LOW, HIGH)
    spread = 1.5

    def ordered(self, examples: Examples) -> list[int]:
        return sorted(range(len(examples)), key=lambda i: (len(examples.first[i]), examples.targets[i]))

    def folds(self, labels):
        return StratifiedKFold(n_splits=10, shuffle=True, random_state=1111).split(np.zeros(len(labels)), labels)

    def logits(self, features, labels, test, strength, dev=None):
        model = LogisticRegression(C=strength, tol=1e-8, max_iter=5000).fit(features.astype(np.float64), labels)
        return model.predict_log_proba(test.astype(np.float64))

    def chosen(self, scores):
        return np.argmax([round(100 * score, 2) for score in scores])

    def inner_score(self, gold, predicted, metrics):
        return np.mean(gold == predicted)


class PlainClassifier:
    """One fit, float64: ``most`` and ``each`` as SentEval's ``max_epoch`` and ``epoch_size``."""

    def __init__(self, d, classes, decay, most=200, each=4):
        np.random.seed(1111)
        torch.manual_seed(1111)
        self.model = torch.nn.Linear(d, classes).double()
        self.optimiser = torch.optim.Adam(self.model.parameters(), weight_decay=decay)
        self.most, self.each = most, each

    def fit(self, x, y, dev=None):
        if dev is None:
            permutation = np.random.permutation(len(x))
            few = int(0.05 * len(x))
            dev = x[permutation[:few]], y[permutation[:few]]
            x, y = x[permutation[few:]], y[permutation[few:]]
        x, y = torch.from_numpy(x).double(), torch.from_numpy(y)
        self.epochs, best, count, stop = 0, -1.0, 0, False
        while not stop and self.epochs <= self.most:
            for _ in range(self.each):
                permutation = torch.from_numpy(np.random.permutation(len(x)))
                for i in range(0, len(x), 64):
                    some = permutation[i : i + 64]
                    self.optimiser.zero_grad()
                    torch.nn.functional.cross_entropy(self.model(x[some]), y[some]).backward()
                    self.optimiser.step()
            self.epochs += self.each
            accuracy = self.score(*dev)
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(self.model)
            else:
                stop = count >= 5
                count += 1
        self.model = kept
        return self

    def logits(self, x):
        with torch.no_grad():
            return self.model(torch.from_numpy(x).double()).numpy()

    def score(self, x, y):
        return np.mean(self.logits(x).argmax(1) == y)


class PlainTorch(PlainSentEval):
    """The same with its torch classifier, of two evaluations instead of 51."""

    grids = (PENALTIES, PENALTIES)
    spread = 3.0

    def logits(self, features, labels, test, strength, dev=None):
        plain = PlainClassifier(features.shape[1], labels.max() + 1, strength, most=4).fit(features, labels, dev)
        return log_softmax(plain.logits(test), axis=1)


class PlainKiros(PlainSentEval):
    """The same of the skip-thought scripts."""

    grids = (KIROS_GRID, KIROS_GRID)

    def ordered(self, examples: Examples) -> list[int]:
        return shuffle(list(range(len(examples))), random_state=1234)

    def folds(self, labels):
        return KFold(10).split(labels)

    def logits(self, features, labels, test, strength, dev=None):
        classes, decisions = np.unique(labels), []
        for label in classes[-1:] if len(classes) == 2 else classes:
            model = LogisticRegression(C=strength, solver="liblinear", tol=1e-10, max_iter=20_000)
            model.fit(features.astype(np.float64), labels == label)
            decisions.append(model.predict_proba(test.astype(np.float64))[:, 1])
        if len(classes) == 2:
            decisions.insert(0, 1 - decisions[0])
        shares = np.array(decisions).T
        return np.log(shares / shares.sum(1, keepdims=True))

    def chosen(self, scores):
        return np.argmax(scores)

    def inner_score(self, gold, predicted, metrics):
        return f1_score(gold, predicted) if "f1" in metrics else np.mean(gold == predicted)


GRIDS = dict.fromkeys(SENTEVAL_TORCH.grids, tuple(PENALTIES))
FEW_ROUNDS = replace(SENTEVAL_TORCH, classifier=AdamClassifier(1111, rounds=2), grids=GRIDS)
PROTOCOLS_OF = [(PlainSentEval(), SENTEVAL), (PlainTorch(), FEW_ROUNDS), (PlainKiros(), KIROS)]


def best(plain, features, labels, grid, metrics=("accuracy",)):
    """The inner loop: the strength with the best mean score on its folds, and that score in percent."""
    scores = []
    for strength in grid:
        parts = []
        for train, test in plain.folds(labels):
            held_out = features[test], labels[test]
            predicted = plain.logits(features[train], labels[train], features[test], strength, held_out).argmax(1)
            parts.append(plain.inner_score(labels[test], predicted, metrics))
        scores.append(np.mean(parts))
    chosen = plain.chosen(scores)
    return grid[chosen], 100 * scores[chosen]


@cache
def nested(plain, width=5):
    """A task, vectors of this width, and the plain loop's strengths, dev scores and log-probabilities of examples."""
    task, vectors = task_of(all=noisy(110, 5, 2, 1, plain.spread))
    if width < 5:
        vectors = {"all": (0.5 * vectors["all"][0][:, :width] + 0.3, np.empty((0, width)))}
    features, labels = vectors["all"][0], task.splits["all"].targets
    order = np.array(plain.ordered(task.splits["all"]))
    strengths, devs, logs = [], [], np.empty((len(labels), labels.max() + 1))
    for train, test in ((order[train], order[test]) for train, test in plain.folds(labels[order])):
        strength, dev = best(plain, features[train], labels[train], plain.grids[0])
        strengths.append(strength)
        devs.append(dev)
        logs[test] = plain.logits(features[train], labels[train], features[test], strength)
    return task, vectors, strengths, devs, logs


SLOW_TORCH = pytest.param(*PROTOCOLS_OF[1], marks=pytest.mark.slow)


@pytest.mark.parametrize(("plain", "protocol"), [*PROTOCOLS_OF[::2], SLOW_TORCH])
def test_nested_cross_validation_is_the_plain_loop(plain, protocol):
    task, vectors, strengths, devs, logs = nested(plain)
    result = score_task(task, vectors, protocol)
    assert result["strengths"] == strengths
    assert len(set(strengths)) > 1 or protocol is FEW_ROUNDS  # whose few rounds tie: the smallest penalty
    np.testing.assert_array_equal(result["predictions"]["all"], logs.argmax(1))
    # Folds differ in size by one example.
    right = 100 * np.mean(logs.argmax(1) == task.splits["all"].targets)
    assert result["scores"]["accuracy"] == pytest.approx(right, abs=0.01)
    assert result["dev"]["accuracy"] == pytest.approx(np.mean(devs), abs=0.005)
    assert result["unconverged"] == 0


@pytest.mark.parametrize(
    ("plain", "protocol", "classes"), [(*each, 4) for each in PROTOCOLS_OF] + [(*each, 2) for each in PROTOCOLS_OF[::2]]
)
def test_cross_validation_is_the_plain_loop(plain, protocol, classes):
    metrics = ("accuracy", "f1") if classes == 2 else ("accuracy",)
    task, vectors = task_of(metrics, train=noisy(120, 5, classes, seed=2), test=noisy(90, 5, classes, seed=3))
    order = plain.ordered(task.splits["train"])
    train, labels, gold = vectors["train"][0], task.splits["train"].targets, task.splits["test"].targets
    strength, dev = best(plain, train[order], labels[order], plain.grids[1], metrics)
    predicted = plain.logits(train[order], labels[order], vectors["test"][0], strength).argmax(1)
    result = score_task(task, vectors, protocol)
    np.testing.assert_array_equal(result["predictions"]["test"], predicted)
    assert result["strengths"] == [strength]
    chooses = "f1" if protocol is KIROS and classes == 2 else "accuracy"
    assert result["dev"] == {chooses: pytest.approx(dev, abs=0.005)}
    assert result["scores"]["accuracy"] == pytest.approx(100 * np.mean(predicted == gold))
    if classes == 2:
        assert result["scores"]["f1"] == pytest.approx(100 * f1_score(gold, predicted))


def three_splits():
    """A task with a development set, its vectors, and its splits, the training examples in SentEval's order."""
    sizes = {"train": 120, "dev": 60, "test": 90}
    splits = {split: noisy(n, 6, 3, seed) for seed, (split, n) in enumerate(sizes.items(), 4)}
    task, vectors = task_of(**splits)
    order = PlainSentEval().ordered(task.splits["train"])
    return task, vectors, [each[order] for each in splits["train"]], splits["dev"], splits["test"]


@pytest.mark.parametrize(("plain", "protocol"), PROTOCOLS_OF[:2])
def test_the_development_set_chooses(plain, protocol):
    task, vectors, train, dev, test = three_splits()
    dev_scores, predictions = [], []
    for strength in plain.grids[0]:
        of_dev, of_test = (plain.logits(*train, x, strength, dev).argmax(1) for x, _ in (dev, test))
        dev_scores.append(round(100 * np.mean(of_dev == dev[1]), 2))
        predictions.append(of_test)
    chosen = int(np.argmax(dev_scores))
    result = score_task(task, vectors, protocol)
    assert result["strengths"] == [plain.grids[0][chosen]]
    assert result["dev"]["accuracy"] == pytest.approx(dev_scores[chosen])
    np.testing.assert_array_equal(result["predictions"]["test"], predictions[chosen])
    assert result["scores"]["accuracy"] == pytest.approx(100 * np.mean(predictions[chosen] == test[1]))


def test_training_for_snli_is_short():
    task, vectors, train, dev, (test, _) = three_splits()
    plain = PlainClassifier(6, 3, 1e-9, most=15, each=1).fit(*train, dev)
    result = score_task(replace(task, name="SNLI"), vectors, SENTEVAL_TORCH)
    np.testing.assert_array_equal(result["predictions"]["test"], plain.logits(test).argmax(1))


def test_an_ensemble_averages_log_probabilities_by_inner_scores():
    plain, protocol = PROTOCOLS_OF[0]
    members = [nested(plain), nested(plain, width=2)]
    task = members[0][0]
    labels, order = task.splits["all"].targets, np.array(plain.ordered(task.splits["all"]))
    expected, weights = np.empty(len(labels), dtype=int), []
    for fold, (_, test) in enumerate(plain.folds(labels[order])):
        devs = np.array([devs[fold] for *_, devs, _ in members])
        weights.append(devs / devs.sum())
        logs = np.array([logs[order[test]] for *_, logs in members])
        expected[order[test]] = np.tensordot(weights[-1], logs, 1).argmax(1)
    result = score_task(task, [vectors for _, vectors, *_ in members], protocol)
    np.testing.assert_array_equal(result["predictions"]["all"], expected)
    assert any((logs.argmax(1) != expected).any() for *_, logs in members)
    # An example on the boundary may fall to either side of it.
    for found, (*_, devs, _) in zip(result["members"], members, strict=True):
        assert next(iter(found["dev"].values())) == pytest.approx(np.mean(devs), abs=0.15)
    np.testing.assert_allclose(result["weights"], weights, atol=5e-3)
    assert np.abs(np.array(weights) - 0.5).max() > 0.01


def test_members_without_a_score_on_dev_weigh_the_same():
    """The F1 of classifiers that never find the rare class is 0, and the sum of all of them too."""
    examples = np.random.default_rng(0).standard_normal((110, 2)).astype(np.float32) / 100, np.arange(110) % 10 // 9
    task, vectors = task_of(("accuracy", "f1"), train=examples, test=examples)
    result = score_task(task, [vectors, vectors, vectors], KIROS)
    assert [member["dev"] for member in result["members"]] == [{"f1": 0}] * 3
    assert result["weights"] == [[pytest.approx(1 / 3)] * 3]


def test_an_ensemble_of_relatedness_models_and_of_cosines(folder, rng):
    task = read_task("SICK-R", folder, allow_partial=True)
    members = [{split: rng.standard_normal((2, len(e), d)) for split, e in task.splits.items()} for d in (3, 5)]
    result = score_task(task, members)
    gold = {split: examples.targets for split, examples in task.splits.items()}
    order = senteval_order(task.splits["train"])
    features = [{split: pair_features(*pair) for split, pair in vectors.items()} for vectors in members]
    fitted = [fit_relatedness(each, gold, order, 1111, SENTEVAL.relatedness) for each in features]
    devs, logs = zip(*fitted, strict=True)
    weights = np.array(devs) / sum(devs)
    shares = np.exp(log_softmax(np.tensordot(weights, logs, 1), axis=1))
    np.testing.assert_allclose(result["predictions"]["test"], shares @ np.arange(1, 6), rtol=1e-5)
    assert result["weights"] == [pytest.approx(weights)]
    result = score_task(read_task("SICK14", folder, allow_partial=True), members)
    expected = np.mean([cosine(*vectors["test"]) for vectors in members], axis=0)
    np.testing.assert_allclose(result["predictions"]["test"], expected)


def test_order_features_and_cosines_of_pairs():
    pairs = Examples((("b", "b"), ("a",), ("c",), ("d",)), (("x",), ("y", "y"), ("z",), ("w",)), np.array([1, 2, 4, 3]))
    assert senteval_order(pairs).tolist() == [3, 2, 1, 0]
    u, v = np.array([[1.0, -2.0]]), np.array([[3.0, 5.0]])
    np.testing.assert_array_equal(pair_features(u, v), [[2, 7, 3, -10]])
    np.testing.assert_array_equal(pair_features(u, v, inference=True), [[1, -2, 3, 5, 2, 7, 3, -10]])
    u, v = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    np.testing.assert_allclose(cosine(u, v), [np.sqrt(0.5), 0, -1])


def test_similarity_has_each_set_and_three_aggregates(rng):
    vectors = {name: rng.standard_normal((2, n, 4)) for name, n in (("a", 5), ("b", 20))}
    gold = {name: rng.random(len(first)) for name, (first, _) in vectors.items()}
    examples = {name: Examples((("w",),) * len(each), (("w",),) * len(each), each) for name, each in gold.items()}
    result = score_task(Task("STS", "similarity", examples, {}, {}), vectors)
    lengths = {name: np.linalg.norm(pair, axis=2).prod(0) for name, pair in vectors.items()}
    cosines = {name: (u * v).sum(1) / lengths[name] for name, (u, v) in vectors.items()}
    for kind, function in (("pearson", pearsonr), ("spearman", spearmanr)):
        a, b = (function(cosines[name], gold[name])[0] for name in "ab")
        together = function(*(np.concatenate([each["a"], each["b"]]) for each in (cosines, gold)))[0]
        assert result["sets"]["a"][kind] == pytest.approx(a)
        found = [result["scores"][f"{kind} {aggregate}"] for aggregate in ("mean", "weighted mean", "all")]
        assert found == pytest.approx([(a + b) / 2, (5 * a + 20 * b) / 25, together])
    assert result["sets"]["b"]["pairs"] == 20
    np.testing.assert_allclose(result["predictions"]["a"], cosines["a"])


def test_the_protocol_of_simcse_is_spearman_over_all_pairs_and_learns_nothing(folder, encode):
    tasks = ["STS12", "STS-B", "SICK-R"]
    results = evaluate(encode, tasks, folder, protocol="simcse", allow_partial=True)
    own = evaluate(encode, ["STS12", "STS-B-cos", "SICK14"], folder, allow_partial=True)
    for task, other in zip(tasks, ("STS12", "STS-B-cos", "SICK14"), strict=True):
        assert results["tasks"][task]["scores"] == {"spearman all": own["tasks"][other]["scores"]["spearman all"]}
    assert list(results["tasks"]["STS-B"]["examples"]) == ["test"]
    said = refused(covered_tasks, [read_task("MR", folder, True)], {}, PROTOCOLS["simcse"])
    assert "MR: the protocol simcse does not cover it" in said


def test_structure_is_told_by_cosines_and_a_tie_is_wrong():
    rng = np.random.default_rng(5)
    gold = rng.integers(0, 2, 40)
    u, v = rng.standard_normal((2, 40, 6)).round(0)  # with ties
    pairs = Task("P", "structure", {"test": Examples((("w",),) * 40, (("w",),) * 40, gold)}, {}, {}, ("ap",))
    found = score_task(pairs, {"test": (u, v)})
    cosines = found["predictions"]["test"]
    assert len(np.unique(cosines)) < 40
    assert found["scores"] == pytest.approx({"ap": 100 * average_precision_score(gold, cosines)})
    assert found["chance"] == 100 * gold.mean()
    rows = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    first = np.repeat([[1.0, 0, 0], [0, 0, 1]], 3, axis=0)  # of the second, all cosines are 0
    triples = Examples((("w",),) * 6, (("w",),) * 6, np.array([0, 2]))
    task = Task("T", "structure", {"test": triples}, {}, {}, choices=3)
    found = score_task(task, {"test": (first, rows)})
    assert found["scores"] == {"accuracy": 50}
    assert found["predictions"]["test"][0] == 0
    assert found["predictions"]["test"][1] != 2
    assert found["chance"] == pytest.approx(100 / 3)


def test_what_the_protocols_cover(folder):
    tasks = {name: read_task(name, folder, allow_partial=True) for name in task_names()}
    assert all(SENTEVAL.covers(task) for task in tasks.values())
    covered = ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "SICK-R"]
    assert [name for name, task in tasks.items() if KIROS.covers(task)] == covered
    task, vectors = task_of(all=(noisy(40, 3, 2, seed=1)[0], np.array([1] * 8 + [0] * 32)))
    assert "class has 8 examples, too few for 10 folds" in refused(score_task, task, vectors)
    assert "19 training examples: too few to set aside 5%" in refused(TORCH.divided, np.arange(19))
    assert len(TORCH.divided(np.arange(20)).dev) == 1


@pytest.mark.parametrize("name", [*PROTOCOLS])
@pytest.mark.parametrize("classes", [2, 3])
def test_what_every_protocol_promises(name, classes):
    protocol = PROTOCOLS[name]
    described = json.loads(json.dumps(protocol.describe()))
    assert described["name"] == name
    assert {"folds", "seed", "grids", "classifier", "penalty", "solver", "vectors"} <= described.keys()
    assert all(list(grid) == sorted(set(grid)) for grid in described["grids"].values())
    task, vectors = task_of(train=noisy(60, 4, classes, 0), test=noisy(60, 4, classes, 1))
    if not protocol.learns:
        message = f"the {name} protocol does not cover this task; use --protocol senteval"
        assert message in refused(score_task, task, vectors, protocol)
        return
    labels = np.concatenate([examples.targets for examples in task.splits.values()])
    features, grid = [first for first, _ in vectors.values()], protocol.grid(task)
    (choice,) = planned = choices(task, protocol, labels)
    assert sorted(choice.train) == list(range(60))

    def select(held_out):
        assert [each.shape for each in held_out] == [(len(grid), len(test)) for _, test in choice.inner]
        return [len(grid) - 1]

    (logs,), ran_out = protocol.classifier.fit(features, labels, planned, grid, select)
    assert (logs.shape, logs.dtype, ran_out) == ((60, classes), np.float64, 0)
    np.testing.assert_allclose(np.exp(logs).sum(1), 1)
    (again,), _ = protocol.classifier.fit(features, labels, planned, grid, select)
    np.testing.assert_array_equal(again, logs)


def test_a_strength_at_an_end_of_the_grid_is_counted():
    # Features so small that no penalty of the grid is low enough, and so large that any is.
    for scale, end in ((1e-2, "last"), (10, "first")):
        splits = {split: noisy(100, 5, 3, seed) for seed, split in enumerate(("train", "test"))}
        task, vectors = task_of(**{split: (scale * x, labels) for split, (x, labels) in splits.items()})
        found = score_task(task, [vectors, vectors])["at_grid_end"]
        assert found[end] == found["choices"] == 2


@pytest.mark.parametrize(("classes", "elements"), [(2, 1 << 20), (3, 1)])
def test_members_are_those_of_the_plain_loop(classes, elements, monkeypatch):
    monkeypatch.setitem(adam_classifier.STEP_ELEMENTS, "cpu", elements)
    (first, one), (second, other) = (noisy(n, 5, classes, seed, spread=3.0) for n, seed in ((130, 1), (90, 2)))
    parts = [
        Part(np.arange(100), np.arange(100, 130)),
        Part(np.arange(129, 29, -1), np.arange(30)),  # trained in step with the first
        Part(np.arange(70), np.arange(70, 130)),
        Part(np.arange(60, 130), np.arange(130, 220)),  # stopped by the second block
    ]
    parts.append(TORCH.divided(np.arange(130)))
    penalties = torch.tensor([[1e-5, 3e-2], [1e-3, 0.3], [1e-2, 1e-4], [0.1, 1e-5], [1e-4, 1e-3]])
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    x, y = np.concatenate([first, second]), np.concatenate([one, other])
    blocks = adam_classifier._Blocks([first, second], y)
    found = TORCH.fit_softmaxes(blocks, parts, penalties)
    assert torch.equal(torch.get_rng_state(), state)  # the global generators are left alone
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
    epochs = set()
    for part, decays, (weights, intercepts) in zip(parts, penalties.tolist(), found, strict=True):
        for s, decay in enumerate(decays):
            dev = None if part.drawn else (x[part.dev], y[part.dev])
            rows = slice(130) if part.drawn else part.train
            plain = PlainClassifier(5, classes, decay).fit(x[rows], y[rows], dev)
            epochs.add(plain.epochs)
            np.testing.assert_allclose(weights[s], plain.model.weight.detach(), atol=1e-4)
            np.testing.assert_allclose(intercepts[s], plain.model.bias.detach(), atol=1e-4)
    assert len(epochs) > 3  # members stop at different times
