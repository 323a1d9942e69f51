"""SentEval's torch classifier against its loop as SentEval has it: one fit after another, with autograd."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedKFold

from structviews.errors import InputError
from structviews.evaluation.senteval import adam_classifier
from structviews.evaluation.senteval.adam_classifier import AdamClassifier, Part
from structviews.evaluation.senteval.protocols.senteval_torch_protocol import SENTEVAL_TORCH
from structviews.evaluation.senteval.task_scores import score_task
from structviews.evaluation.senteval.tasks.reading import Examples, Task

TORCH = AdamClassifier(1111)
GRID = [10.0**t for t in range(-5, -1)]
# Five evaluations instead of 51, for tests of many fits.
FEW = 16
FEW_ROUNDS = replace(SENTEVAL_TORCH, classifier=AdamClassifier(1111, last=FEW))


def noisy(n: int, d: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % classes)
    centres = np.random.default_rng(0).standard_normal((classes, d))
    return (0.3 * (centres[labels] + 3.0 * rng.standard_normal((n, d)))).astype(np.float32), labels


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


def in_blocks(*parts):
    """Blocks of features and all labels, as a task's splits are given to a classifier."""
    return adam_classifier._Blocks([x for x, _ in parts], np.concatenate([y for _, y in parts]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("elements", [1, 1 << 20])
def test_members_are_those_of_the_plain_loop(classes, elements, monkeypatch):
    monkeypatch.setitem(adam_classifier.STEP_ELEMENTS, "cpu", elements)
    (first, one), (second, other) = noisy(130, 5, classes, seed=1), noisy(90, 5, classes, seed=2)
    parts = [
        Part(np.arange(100), np.arange(100, 130)),
        Part(np.arange(129, 29, -1), np.arange(30)),  # trained in step with the first
        Part(np.arange(70), np.arange(70, 130)),
        Part(np.arange(60, 130), np.arange(130, 220)),  # stopped by the second block
    ]
    parts.append(TORCH.divided(np.arange(130)))
    penalties = torch.tensor([[1e-5, 3e-2], [1e-3, 0.3], [1e-2, 1e-4], [0.1, 1e-5], [1e-4, 1e-3]])
    found = adam_classifier.fit_softmaxes(
        in_blocks((first, one), (second, other)), parts, penalties, AdamClassifier(1111)
    )
    x, y = np.concatenate([first, second]), np.concatenate([one, other])
    epochs = set()
    for part, decays, (weights, intercepts) in zip(parts, penalties.tolist(), found, strict=True):
        for s, decay in enumerate(decays):
            plain = PlainClassifier(5, classes, decay)
            if part.drawn:
                plain.fit(x[:130], y[:130])
            else:
                plain.fit(x[part.train], y[part.train], (x[part.dev], y[part.dev]))
            epochs.add(plain.epochs)
            np.testing.assert_allclose(weights[s], plain.model.weight.detach(), atol=1e-4)
            np.testing.assert_allclose(intercepts[s], plain.model.bias.detach(), atol=1e-4)
    assert len(epochs) > 3  # members stop at different times


@pytest.mark.parametrize(
    ("correct", "evaluations"),
    [
        (range(1, 100), 51),
        ([5, 4, 5, 6, 3, 2, 1, 6, 7, 8, 9], 8),
    ],  # ends after 204 epochs, or at the sixth without gain
)
def test_when_training_ends(correct, evaluations, monkeypatch):
    script = iter(correct)
    monkeypatch.setattr(adam_classifier._Race, "correct", lambda *given: torch.tensor([next(script)]))
    part = Part(np.arange(50), np.arange(50, 60))
    adam_classifier.fit_softmaxes(
        in_blocks(noisy(60, 3, 2, seed=1)), [part], torch.tensor([[1e-3]]), AdamClassifier(1111)
    )
    assert list(script) == list(correct)[evaluations:]


def task_of(**splits):
    """A task of sentences of various lengths, in no order, and its vectors."""
    rng = np.random.default_rng(9)
    examples = {
        split: Examples(tuple(("w",) * n for n in rng.integers(1, 9, len(labels))), (), labels)
        for split, (_, labels) in splits.items()
    }
    vectors = {split: (features, np.empty((0, features.shape[1]))) for split, (features, _) in splits.items()}
    return Task("MADE", "classification", examples, {}, {}), vectors


def in_order(examples, x):
    order = sorted(range(len(examples)), key=lambda i: (len(examples.first[i]), examples.targets[i]))
    return order, x[order], examples.targets[order]


def folds(y):
    return StratifiedKFold(n_splits=10, shuffle=True, random_state=1111).split(np.zeros(len(y)), y)


def cross_validated(x, y, most):
    """The penalty with the best mean score on held-out folds, and that score."""
    scores = []
    for decay in GRID:
        parts = [
            PlainClassifier(x.shape[1], y.max() + 1, decay, most)
            .fit(x[train], y[train], (x[held_out], y[held_out]))
            .score(x[held_out], y[held_out])
            for train, held_out in folds(y)
        ]
        scores.append(round(100 * np.mean(parts), 2))
    return GRID[int(np.argmax(scores))], max(scores)


def test_nested_cross_validation_is_the_plain_loop():
    task, vectors = task_of(all=noisy(120, 3, 2, seed=1))
    order, x, y = in_order(task.splits["all"], vectors["all"][0])
    result = score_task(task, vectors, FEW_ROUNDS)
    for fold, (train, test) in enumerate(folds(y)):
        if fold < 3:  # the others are alike
            decay, _ = cross_validated(x[train], y[train], FEW)
            assert result["strengths"][fold] == decay
        decay = result["strengths"][fold]
        plain = PlainClassifier(3, 2, decay, FEW).fit(x[train], y[train])
        predicted = result["predictions"]["all"][np.array(order)[test]]
        np.testing.assert_array_equal(predicted, plain.logits(x[test]).argmax(1))
    assert result["unconverged"] == 0


def test_cross_validation_on_train_is_the_plain_loop():
    task, vectors = task_of(train=noisy(150, 4, 3, seed=2), test=noisy(60, 4, 3, seed=3))
    _, x, y = in_order(task.splits["train"], vectors["train"][0])
    decay, dev = cross_validated(x, y, FEW)
    predicted = PlainClassifier(4, 3, decay, FEW).fit(x, y).logits(vectors["test"][0]).argmax(1)
    result = score_task(task, vectors, FEW_ROUNDS)
    assert (result["strengths"], result["dev"]) == ([decay], {"accuracy": pytest.approx(dev)})
    np.testing.assert_array_equal(result["predictions"]["test"], predicted)


def test_the_development_set_chooses_and_stops():
    splits = {split: noisy(n, 4, 3, seed) for split, n, seed in (("train", 150, 4), ("dev", 60, 5), ("test", 90, 6))}
    task, vectors = task_of(**splits)
    _, x, y = in_order(task.splits["train"], vectors["train"][0])
    plain = [PlainClassifier(4, 3, decay).fit(x, y, splits["dev"]) for decay in GRID]
    scores = [round(100 * each.score(*splits["dev"]), 2) for each in plain]
    best = int(np.argmax(scores))
    result = score_task(task, vectors, SENTEVAL_TORCH)
    assert (result["strengths"], result["dev"]) == ([GRID[best]], {"accuracy": pytest.approx(scores[best])})
    np.testing.assert_array_equal(result["predictions"]["test"], plain[best].logits(splits["test"][0]).argmax(1))


def test_training_for_snli_is_short():
    splits = {split: noisy(n, 4, 3, seed) for split, n, seed in (("train", 150, 4), ("dev", 60, 5), ("test", 90, 6))}
    task, vectors = task_of(**splits)
    _, x, y = in_order(task.splits["train"], vectors["train"][0])
    plain = PlainClassifier(4, 3, 1e-9, most=15, each=1).fit(x, y, splits["dev"])
    assert plain.epochs <= 16
    result = score_task(replace(task, name="SNLI"), vectors, SENTEVAL_TORCH)
    np.testing.assert_array_equal(result["predictions"]["test"], plain.logits(splits["test"][0]).argmax(1))


def test_an_ensemble_averages_its_members_log_probabilities():
    splits = {split: noisy(n, 4, 3, seed) for split, n, seed in (("train", 150, 4), ("dev", 60, 5), ("test", 90, 6))}
    task, one = task_of(**splits)
    other = {split: (np.tanh(3 * x[:, :2]), empty) for split, (x, empty) in one.items()}
    result = score_task(task, [one, other], FEW_ROUNDS)
    logs = 0
    for vectors, member, weight in zip((one, other), result["members"], result["weights"][0], strict=True):
        _, x, y = in_order(task.splits["train"], vectors["train"][0])
        plain = PlainClassifier(x.shape[1], 3, member["strengths"][0], FEW)
        plain.fit(x, y, (vectors["dev"][0], splits["dev"][1]))
        logs = logs + weight * log_softmax(plain.logits(vectors["test"][0]), axis=1)
    np.testing.assert_array_equal(result["predictions"]["test"], logs.argmax(1))


def test_too_few_examples_to_stop_by_are_refused():
    with pytest.raises(InputError, match="19 training examples: too few to set aside 5%"):
        TORCH.divided(np.arange(19))
    assert len(TORCH.divided(np.arange(20)).dev) == 1


def test_global_generators_are_left_alone():
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    x, y = noisy(60, 3, 2, seed=1)
    part = Part(np.arange(50), np.arange(50, 60))
    adam_classifier.fit_softmaxes(in_blocks((x, y)), [part], torch.tensor([[1e-3]]), TORCH)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
