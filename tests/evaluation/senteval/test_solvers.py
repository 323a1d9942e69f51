"""The batched solver against scikit-learn, the relatedness model against SentEval's own steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr
from shell import refused
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy, mse_loss

from structviews.evaluation.senteval import adam_classifier, logistic, relatedness
from structviews.evaluation.senteval import design as designs
from structviews.evaluation.senteval.design import Design
from structviews.evaluation.senteval.logistic import fit_logistic
from structviews.evaluation.senteval.relatedness import KIROS_RELATEDNESS, SENTEVAL_RELATEDNESS, fit_relatedness
from structviews.runtime.device import using


def problem(n, d, classes, scale=1.0):
    rng = np.random.default_rng(0)
    features = (rng.standard_normal((n, d)) * np.linspace(0.2, 3, d) + 1).astype(np.float32) * np.float32(scale)
    noisy = features @ rng.standard_normal((d, classes)) / scale + 3 * rng.standard_normal((n, classes))
    return features, noisy.argmax(1)


def reference(features, labels, chosen, strength):
    """Objective and predictions of scikit-learn at a tight tolerance, float64."""
    features = features.astype(np.float64)
    model = LogisticRegression(C=strength, tol=1e-9, max_iter=20_000).fit(features[chosen], labels[chosen])
    likelihood = model.predict_log_proba(features[chosen])[np.arange(chosen.sum()), labels[chosen]]
    return -likelihood.sum() + (model.coef_**2).sum() / (2 * strength), model.predict(features)


def liblinear(features, labels, chosen, strength):
    """The same of liblinear, the classes one against the rest: the intercept has a penalty too."""
    features, objective, decisions = features.astype(np.float64), 0.0, []
    for label in range(1, 2) if labels.max() == 1 else range(labels.max() + 1):
        model = LogisticRegression(C=strength, solver="liblinear", tol=1e-10, max_iter=20_000)
        model.fit(features[chosen], labels[chosen] == label)
        signs = np.where(labels[chosen] == label, 1, -1)
        objective += np.logaddexp(0, -signs * model.decision_function(features[chosen])).sum()
        objective += ((model.coef_**2).sum() + model.intercept_[0] ** 2) / (2 * strength)
        decisions.append(model.decision_function(features))
    return objective, (decisions[0] > 0).astype(int) if len(decisions) == 1 else np.argmax(decisions, axis=0)


# Each pair of settings once.
@pytest.mark.parametrize(
    ("one_vs_rest", "classes", "n", "d", "scale", "parts"),
    [
        (False, 2, 400, 30, 0.01, 1),
        (False, 3, 60, 150, 1.0, 3),
        (False, 6, 400, 30, 1.0, 3),
        (False, 6, 60, 150, 0.01, 1),
        (True, 2, 60, 150, 1.0, 3),
        (True, 3, 400, 30, 0.01, 3),
        (True, 6, 60, 150, 1.0, 1),
        (True, 2, 400, 30, 1.0, 1),
    ],
)
def test_same_solutions_as_scikit_learn_with_few_hessians(one_vs_rest, classes, n, d, scale, parts, monkeypatch):
    features, labels = problem(n, d, classes, scale=scale)
    training = np.random.default_rng(1).random((parts, n)) < 0.8
    strengths = [2.0**t for t in range(-2, 4)]
    monkeypatch.setattr(designs, "CHUNK_ELEMENTS", 50 * d)  # several products of a few rows
    made, hessian = [], Design.hessian
    monkeypatch.setattr(Design, "hessian", lambda self, importance: made.append(1) or hessian(self, importance))
    design = Design(np.split(features, [n // 3]), training.any(0), centred=not one_vs_rest)
    assert design.shape == (n, (min(d, training.any(0).sum()) if d > 2 * n else d) + 1)
    fits = fit_logistic(design, labels, training, strengths, one_vs_rest)
    assert fits.converged.all()
    columns = 1 if classes == 2 else classes
    assert len(made) == 1 + 2 * columns * (parts > 1)  # of several parts, for each column at 0.25 and 2
    assert fits.logits.shape == (parts, 6, n, columns)
    for s, strength in enumerate(strengths):
        objective, predictions = (liblinear if one_vs_rest else reference)(features, labels, training[-1], strength)
        assert fits.objectives[-1, s] == pytest.approx(objective, rel=2e-6)
        assert np.mean(fits.predictions[-1, s] != predictions) <= 1 / n


@pytest.mark.parametrize("parts", [1, 3])
def test_blocks_that_nothing_is_learnt_from_get_logits_in_their_places(parts):
    features, labels = problem(300, 20, 3)
    training = np.zeros((parts, 300), dtype=bool)
    training[:, 100:250] = np.random.default_rng(1).random((parts, 150)) < 0.8
    blocks = np.split(features, [50, 100, 180, 250])
    design = Design(blocks, training.any(0))
    assert design.shape == (150, 21)
    fits = fit_logistic(design, labels, training, [0.5, 4.0])
    plain = fit_logistic(Design([features], training.any(0)), labels, training, [0.5, 4.0])
    np.testing.assert_allclose(fits.logits, plain.logits, atol=0.02)
    np.testing.assert_allclose(fits.objectives, plain.objectives, rtol=1e-6)


@pytest.mark.parametrize(
    ("module", "limit", "parts"), [(logistic, "BLOCK_ELEMENTS", 4), (designs, "FACTOR_ELEMENTS", 1)]
)
def test_little_memory_and_other_parts_change_no_solution(module, limit, parts, monkeypatch):
    features, labels = problem(200, 20, 3)
    training = np.random.default_rng(1).random((parts, 200)) < 0.8
    design, strengths = Design([features], training.any(0)), [0.25, 8.0, 512.0]
    expected = fit_logistic(design, labels, training, strengths)
    monkeypatch.setattr(module, limit, 1)
    found = fit_logistic(design, labels, training, strengths)
    np.testing.assert_allclose(found.objectives, expected.objectives, rtol=1e-6)
    np.testing.assert_array_equal(found.predictions, expected.predictions)
    alone = fit_logistic(design, labels, training[-1:], strengths)
    np.testing.assert_allclose(alone.objectives[0], expected.objectives[-1], rtol=1e-6)


def test_what_has_no_solution(monkeypatch):
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 1)
    features, labels = problem(60, 5, 3)
    training = np.ones((1, 60), dtype=bool)
    fits = fit_logistic(Design([features], training[0]), labels, training, [1000.0])
    assert not fits.converged[0, 0]
    assert fits.predictions.shape == (1, 1, 60)
    without = Design([features], labels != 1), labels, (labels != 1)[None], [1.0]
    assert "training part 0 has no example of some class" in refused(fit_logistic, *without)


def test_soft_labels_are_those_of_senteval():
    found = relatedness.soft_labels(np.array([0.0, 0.4, 1.0, 2.6, 3.7, 5.0]))
    expected = [[0] * 5, [0.4, *[0] * 4], [1, *[0] * 4], [0, 0.4, 0.6, 0, 0], [0, 0, 0.3, 0.7, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(found, expected, atol=1e-6)


ORDER = np.random.default_rng(4).permutation(150)


def relatedness_data():
    rng, sizes = np.random.default_rng(3), {"train": 150, "dev": 40, "test": 50}
    features = {split: rng.standard_normal((n, 6)).astype(np.float32) for split, n in sizes.items()}
    direction = rng.standard_normal(6)
    scores = {s: np.clip(3 + x @ direction + 0.3 * rng.standard_normal(len(x)), 0, 5) for s, x in features.items()}
    return features, scores


def plain_relatedness(features, scores, seed, kiros=False):
    """SentEval's loop or that of eval_sick.py, with PyTorch's own gradients and Adam, float64."""
    rng = np.random.RandomState(seed)
    x = {split: torch.from_numpy(each).double() for split, each in features.items()}
    y = torch.from_numpy(relatedness.soft_labels(scores["train"])).double()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(x["train"].shape[1], 5)
        if kiros:
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
    optimiser = torch.optim.Adam(layer.double().parameters())

    def expected(split):
        return layer(x[split]).softmax(1).detach().numpy() @ np.arange(1, 6)

    best, stop_count, epochs, stop, size = -1.0, 0, 0, False, 128 if kiros else 64
    while not stop and epochs <= (100 if kiros else 1000):
        for _ in range(20 if kiros else 50):
            order = ORDER if kiros else ORDER[rng.permutation(len(ORDER))]
            for batch in torch.from_numpy(order).split(size):
                logits, wanted = layer(x["train"][batch]), y[batch]
                loss = cross_entropy(logits, wanted) if kiros else mse_loss(logits.softmax(1), wanted)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        epochs += 20 if kiros else 50
        score = pearsonr(expected("dev"), scores["dev"])[0]
        if score > best:
            best, kept = score, expected("test")
        else:
            stop = kiros or stop_count >= 3
            stop_count += 1
    return best, kept


@pytest.mark.parametrize("training", [SENTEVAL_RELATEDNESS, replace(KIROS_RELATEDNESS, epochs=20, most=100)])
def test_relatedness_is_that_of_the_plain_loop(training):
    features, scores = relatedness_data()
    dev, logs = fit_relatedness(features, scores, ORDER, 1111, training)
    predicted = np.exp(logs) @ np.arange(1, 6)
    expected_dev, expected = plain_relatedness(features, scores, 1111, training.glorot)
    assert dev == pytest.approx(expected_dev, abs=1e-5)
    np.testing.assert_allclose(predicted, expected, atol=1e-3)
    if training is SENTEVAL_RELATEDNESS:  # the other is cut short here
        assert pearsonr(predicted, scores["test"])[0] > 0.9


def test_relatedness_repeats_by_seed_and_leaves_the_global_generators_alone():
    features, scores = relatedness_data()
    state = torch.get_rng_state()
    short = replace(SENTEVAL_RELATEDNESS, most=50)
    runs = [fit_relatedness(features, scores, ORDER, seed, short)[1] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    assert torch.equal(torch.get_rng_state(), state)
    alike = {split: np.ones_like(x) for split, x in features.items()}
    assert "undefined: the predicted scores" in refused(fit_relatedness, alike, scores, ORDER, 1, short)
    assert "of 1 scores is undefined" in refused(relatedness.correlation, "pearson", np.ones(1), np.ones(1))


@pytest.mark.parametrize("parts", [1, 3])
def test_a_tolerance_out_of_reach_ends_where_steps_gain_nothing(parts, monkeypatch):
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-14)
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 100)
    features, labels = problem(300, 40, 2)
    training = np.random.default_rng(1).random((parts, 300)) < 0.8
    fits = fit_logistic(Design([features], training.any(0)), labels, training, [0.25, 8.0])
    assert fits.converged.all()
    for s, strength in enumerate((0.25, 8.0)):
        objective, _ = reference(features, labels, training[-1], strength)
        assert fits.objectives[-1, s] == pytest.approx(objective, rel=2e-6)


def test_solvers_compute_on_the_device_that_is_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    features, labels = problem(60, 5, 3)
    with using("cpu"):
        assert Design([features], labels >= 0).mean.device.type == "cpu"
        assert adam_classifier._Blocks([features], labels).device.type == "cpu"
        fit_relatedness(*relatedness_data(), ORDER, 1, replace(SENTEVAL_RELATEDNESS, most=0, epochs=1))
