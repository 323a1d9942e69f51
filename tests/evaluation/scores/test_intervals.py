"""Bootstrap intervals and paired tests against slow, obvious ones."""

import numpy as np
import pytest
from scipy.stats import binomtest, pearsonr, spearmanr, ttest_rel
from sklearn.metrics import f1_score, mean_squared_error

from structviews.evaluation.scores import intervals
from structviews.evaluation.scores.intervals import holm, mean_difference, paired_differences, score_intervals

SLOW = {
    "accuracy": lambda predicted, gold: 100 * np.mean(predicted == gold),
    "f1": lambda predicted, gold: 100 * f1_score(gold, predicted, zero_division=0),
    "pearson": lambda predicted, gold: pearsonr(predicted, gold)[0],
    "spearman": lambda predicted, gold: spearmanr(predicted, gold)[0],
    "mse": lambda predicted, gold: mean_squared_error(gold, predicted),
}
CLASSES, SCORES = ("accuracy", "f1"), ("pearson", "spearman", "mse")


def classes(rng, n=60, right=0.8):
    gold = rng.integers(0, 2, n)
    return np.where(rng.random(n) < right, gold, 1 - gold), gold


def grades(rng, n=60, noise=1.0):
    """Scores with ties on both sides."""
    gold = np.round(rng.uniform(1, 5, n))
    return np.round(gold + noise * rng.standard_normal(n), 1), gold


@pytest.mark.parametrize(("names", "make"), [(CLASSES, classes), (SCORES, grades)])
def test_every_score_of_every_draw_is_that_of_the_drawn_examples(names, make, monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 260)  # more than one block
    predicted, gold = make(np.random.default_rng(0))
    outcomes = intervals._Outcomes([predicted], gold)
    found = intervals._bootstrap(names, [outcomes])
    counts = np.concatenate([weights for (weights,) in intervals._draws([outcomes.counts])]).astype(int)
    assert (counts.sum(1) == len(gold)).all()
    for name in names:
        drawn = [SLOW[name](np.repeat(outcomes.systems[0], c), np.repeat(outcomes.gold, c)) for c in counts]
        np.testing.assert_allclose(found[name][0], [SLOW[name](predicted, gold), *drawn], atol=1e-9)


def test_aggregates_over_data_sets():
    rng = np.random.default_rng(2)
    tested = {"a": grades(rng, 40), "b": grades(rng, 120, 2.0)}
    outcomes = [intervals._Outcomes([predicted], gold) for predicted, gold in tested.values()]
    r, rho = ([SLOW[kind](*pair) for pair in tested.values()] for kind in ("pearson", "spearman"))
    together = [np.concatenate(column) for column in zip(*tested.values(), strict=True)]
    expected = {
        "pearson mean": np.mean(r),
        "spearman weighted mean": np.average(rho, weights=[40, 120]),
        "pearson all": SLOW["pearson"](*together),
        "spearman all": SLOW["spearman"](*together),
    }
    found = intervals._bootstrap(list(expected), outcomes)
    assert {name: values[0, 0] for name, values in found.items()} == pytest.approx(expected)


def test_intervals_cover_the_truth_and_equal_systems_seldom_differ(monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 400)
    rng = np.random.default_rng(4)
    covered = wrong = 0
    for _ in range(200):
        gold = rng.standard_normal(100)
        first, second = (0.6 * gold + 0.8 * rng.standard_normal(100) for _ in range(2))
        low, high = score_intervals(["pearson"], {"x": (first, gold)})["pearson"]
        covered += low <= 0.6 <= high
        p = paired_differences(["pearson"], {"x": (first, gold)}, {"x": (second, gold)})["pearson"].p
        wrong += p < 0.05
    assert 180 <= covered <= 199  # 190 of 200, give or take 3 deviations
    assert 1 <= wrong <= 20  # 10


def test_accuracies_differ_by_mcnemars_exact_test():
    """Of the examples on which just one of two systems is right, each is right on half if they are equal."""
    gold = np.zeros(400, dtype=int)
    first, second = gold.copy(), gold.copy()
    first[:20] = 1
    second[20:60] = 1
    found = paired_differences(["accuracy"], {"test": (first, gold)}, {"test": (second, gold)})["accuracy"]
    assert (found.first, found.second) == (95, 90)
    assert found.p == pytest.approx(binomtest(20, 60).pvalue, abs=0.008)
    deviation = 100 * np.sqrt(60 / 400 - 0.05**2) / 20
    assert [found.low, found.high] == pytest.approx([5 - 1.96 * deviation, 5 + 1.96 * deviation], abs=0.3)


def test_equal_systems_undefined_draws_and_holm():
    tested = {"test": classes(np.random.default_rng(5))}
    found = paired_differences(["accuracy", "f1"], tested, tested)
    assert all((each.low, each.high, each.p) == (0, 0, 1) for each in found.values())
    gold = np.array([1.0, 1, 1, 2])  # of many draws, all equal
    low, high = score_intervals(["pearson"], {"x": (np.array([0.0, 0, 1, 2]), gold)})["pearson"]
    assert -1 <= low <= high <= 1
    # The smallest of four times 4, the next times 3 and so on, never less than one before it.
    assert holm([0.04, 0.01, 0.03, 0.9]) == pytest.approx([0.09, 0.04, 0.09, 0.9])
    assert holm([0.5, 0.6]) == [1, 1]


def test_means_differ_by_the_paired_t_test():
    """A document a trial: the mean of the trials' differences (Student, 1908)."""
    rng = np.random.default_rng(7)
    first = rng.standard_normal(400)
    second = first + 0.6 * rng.standard_normal(400) + 0.03
    found = mean_difference(first, second, np.arange(400))
    expected = ttest_rel(first, second)
    low, high = expected.confidence_interval()
    assert 0.05 < expected.pvalue < 0.3
    assert found.p == pytest.approx(expected.pvalue, abs=0.03)
    difference = [found.first - found.second, found.low, found.high]
    assert difference == pytest.approx([np.mean(first - second), low, high], abs=0.01)


def test_trials_of_a_document_are_drawn_together():
    """Copies of a trial within its document tell nothing new, unlike copies that are documents of their own."""
    rng = np.random.default_rng(8)
    first, second = rng.random((2, 60))
    once = mean_difference(first, second, np.arange(60))
    copied = mean_difference(np.repeat(first, 5), np.repeat(second, 5), np.repeat(np.arange(60), 5))
    assert (copied.low, copied.high, copied.p) == pytest.approx((once.low, once.high, once.p))
