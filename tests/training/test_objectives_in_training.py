"""Every objective through a whole training run."""

import numpy as np
import pytest
from corpora import small_config
from test_training import log_of, quietly, result

from structviews.objectives import OBJECTIVES
from structviews.objectives.consensus import TEMPERATURES
from structviews.training.checkpoint import extend, extended, read_progress
from structviews.training.loop import train

SETTINGS = {
    "pairwise": {"mask_duplicates": True, "views": ("bow", "seq")},
    "quick-thoughts": {"views": ("seq", "seq")},
    "consensus": {"views": ("seq", "avg"), "context": 3},
    "generative": {"views": ("seq",)},
    "skip-thought": {"views": ("seq-uni",)},
    "simcse": {"views": ("transformer",), "hidden": 32},
    "teacher": {"views": ("dep", "avg"), "pairwise_weight": 0.1},
}
CONTRASTIVE = {"loss", "accuracy", "chance_loss", "chance_accuracy"}
METRICS = {
    "pairwise": CONTRASTIVE | {"masked"},
    "quick-thoughts": CONTRASTIVE,
    "consensus": CONTRASTIVE | {"temperature"},
    "generative": {"loss", "chance_loss", "orthonormality_error"},
    "skip-thought": {"loss", "chance_loss"},
    "simcse": CONTRASTIVE,
    "teacher": {"loss", "chance_loss", "teacher_cosine", "teacher_divergence", "pairwise_loss", "pairwise_accuracy"},
}

pytestmark = pytest.mark.usefixtures("one_thread")


def config_of(name, place, out, **settings):
    """Of the objective's views, of which that of simcse begins from an encoder; the teacher is in its folder."""
    models = {"simcse": {"encoder": str(place / "encoder")}, "teacher": {"teacher": str(place / "teacher" / "tiny")}}
    settings = SETTINGS[name] | models.get(name, {}) | settings
    return small_config(place / "x.parsed", out, objective=name, precision="fp32", **settings)


def enough(name):
    """For the loss to fall; a transformer does not learn at the others' high rate."""
    return {"validate_every": 4} | ({"epochs": 20} if name == "simcse" else {"epochs": 8, "lr": 0.05})


@pytest.fixture(scope="module", params=OBJECTIVES)
def whole(request, one_thread, place, tmp_path_factory):
    """An objective, its run, and what the run printed."""
    config = config_of(request.param, place, tmp_path_factory.mktemp("whole") / "run", **enough(request.param))
    return request.param, *quietly(config)


def test_parts_make_the_whole_bit_for_bit(whole, place, tmp_path):
    """The first part ends with a validation that the whole does not have."""
    name, run, _ = whole
    parts = train(config_of(name, place, tmp_path / "parts", steps=7, **enough(name)))
    assert read_progress(parts).step == 7
    extend(extended(parts, epochs=None, steps=0))
    (files, log, _), (whole_files, whole_log, _) = (result(each) for each in (train(extended(parts, None, None)), run))
    assert files == whole_files
    assert [entry for entry in log if entry["kind"] == "train"] == [e for e in whole_log if e["kind"] == "train"]
    assert log[-1] == whole_log[-1]


def test_a_run_that_learnt_nothing_for_other_text_says_so(whole):
    """The words of a sentence that is held out tell a teacher's vector of it, and nothing of its neighbours."""
    name, run, said = whole
    last = log_of(run, "validation")[-1]
    warned = "warning: the held-out loss is no better than chance: train on more text" in said
    assert warned == (last["loss"] >= last["chance_loss"])
    assert warned == {"teacher": False, "pairwise": True}.get(name, warned)


def test_the_loss_falls_and_the_log_has_the_metrics(whole):
    name, run, said = whole
    places, cosines = {"kind", "step", "epoch"}, {"cos_ff", "cos_gg", "cos_fg"}
    trained, (validation, *_) = log_of(run, "train"), log_of(run, "validation")
    for entry in trained:
        assert entry.keys() - cosines == places | METRICS[name] | {"anchors", "sentences_per_second"}
        assert all(np.isfinite(value) for metric, value in entry.items() if metric != "kind")
    losses = [entry["loss"] for entry in trained]
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.02
    more = {
        "consensus": {"adjacent_ff", "adjacent_fg", "adjacent_gf", "adjacent_gg"},
        "generative": {"nll", "unigram_nll"},
        "skip-thought": {"unigram_nll"},
    }
    assert validation.keys() == places | METRICS[name] | more.get(name, set())
    line = next(line for line in said.splitlines() if "held-out" in line)
    assert line.startswith(f"step {validation['step']}: held-out loss {validation['loss']:.3f} (chance ")


def test_a_temperature_at_its_bound_is_told_once(place, tmp_path):
    config = config_of("consensus", place, tmp_path / "run", epochs=2, temperature=TEMPERATURES[1])
    run, said = quietly(config)
    assert said.count("warning: step") == 1
    assert "warning: step 1: the temperature has reached its bound 10.0: use a lower --lr, or --fix-temperature" in said
    temperatures = [entry["temperature"] for entry in log_of(run, "train")]
    assert max(temperatures) == pytest.approx(TEMPERATURES[1])
    _, said = quietly(config.replaced(out=str(tmp_path / "fixed"), learn_temperature=False))
    assert "warning: step" not in said
