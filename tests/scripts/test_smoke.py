"""What the script that trains every recipe at a small size makes of the metrics of each objective."""

import pytest
from scripts_for_tests import load

from structviews.objectives import OBJECTIVES

# Validation metrics of a channel that has learnt something, and of one that has not.
LEARNT = {
    "accuracy": ({"accuracy": 0.2, "chance_accuracy": 0.05}, {"accuracy": 0.1, "chance_accuracy": 0.05}),
    "generative": ({"nll": 6.1, "unigram_nll": 6.2}, {"nll": 6.3, "unigram_nll": 6.2}),
    "skip-thought": ({"unigram_nll": 6.2}, {"unigram_nll": 5.9}),
}
SHOWN = {
    "accuracy": "0.2000 (0.0500)",
    "generative": "6.100 nats a word (unigrams 6.200)",
    "skip-thought": "6.000 nats a word (unigrams 6.200)",
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_has_learnt_or_not(name, monkeypatch):
    smoke, kind = load("smoke", monkeypatch), name if name in LEARNT else "accuracy"
    good, bad = (metrics | {"loss": 6.0} for metrics in LEARNT[kind])
    assert smoke.good_enough(good, 3.0)
    assert not smoke.good_enough(bad, 3.0)
    assert smoke.shown(good) == SHOWN[kind]
