"""Every objective through a whole training run."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from corpora import random_trees, small_config, topic_corpus
from rich.console import Console
from tiny_encoders import encoder_folder

from structviews.encoding.embedder import Embedder
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
}
CONTRASTIVE = {"loss", "accuracy", "chance_loss", "chance_accuracy"}
METRICS = {
    "pairwise": CONTRASTIVE | {"masked"},
    "quick-thoughts": CONTRASTIVE,
    "consensus": CONTRASTIVE | {"temperature"},
    "generative": {"loss", "chance_loss", "orthonormality_error"},
    "skip-thought": {"loss", "chance_loss"},
    "simcse": CONTRASTIVE,
}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    encoder_folder(folder / "encoder", "bert")
    return topic_corpus(folder / "x.parsed")


def encoder_of(name, corpus):
    """The encoder that the objective's views begin from."""
    return {"encoder": str(corpus.parent / "encoder")} if name == "simcse" else {}


def config_of(name, corpus, out, **settings):
    settings = SETTINGS[name] | encoder_of(name, corpus) | settings
    return small_config(corpus, out, objective=name, precision="fp32", **settings)


def log_of(run, kind):
    entries = [json.loads(line) for line in (Path(run) / "log.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in entry.items() if name != "sentences_per_second"}
        for entry in entries
        if entry["kind"] == kind
    ]


def quietly(config):
    screen = io.StringIO()
    return train(config, Console(file=screen, width=200)), screen.getvalue()


def enough(name):
    """For the loss to fall; a transformer does not learn at the others' high rate."""
    return {"validate_every": 4} | ({"epochs": 20} if name == "simcse" else {"epochs": 8, "lr": 0.05})


@pytest.fixture(scope="module", params=OBJECTIVES)
def whole(request, one_thread, corpus, tmp_path_factory):
    """An objective, its run, and what the run printed."""
    config = config_of(request.param, corpus, tmp_path_factory.mktemp("whole") / "run", **enough(request.param))
    return request.param, *quietly(config)


def test_parts_make_the_whole_bit_for_bit(whole, corpus, tmp_path):
    """The first part ends with a validation that the whole does not have."""
    name, run, _ = whole
    parts = train(config_of(name, corpus, tmp_path / "parts", steps=7, **enough(name)))
    assert read_progress(parts).step == 7
    extend(extended(parts, epochs=None, steps=0))
    train(extended(parts, None, None))
    (state,), (expected,) = ((each / "state").glob("step-*") for each in (parts, run))
    assert state.read_bytes() == expected.read_bytes()
    assert (parts / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert log_of(parts, "train") == log_of(run, "train")
    assert log_of(parts, "validation")[-1] == log_of(run, "validation")[-1]


def test_the_loss_falls_and_the_log_has_the_metrics(whole):
    name, run, said = whole
    places, cosines = {"kind", "step", "epoch"}, {"cos_ff", "cos_gg", "cos_fg"}
    trained, (validation, *_) = log_of(run, "train"), log_of(run, "validation")
    for entry in trained:
        assert entry.keys() - cosines == places | METRICS[name] | {"anchors"}
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


def test_the_linear_view_is_one_of_the_run(corpus, tmp_path):
    run = train(config_of("generative", corpus, tmp_path / "run", epochs=1))
    embedder = Embedder.load(run)
    assert embedder.views == ("seq", "linear")
    sentences = [random_trees(["topic1-2", "of"]), random_trees(["it"])]
    seq, linear = embedder.encode_views(sentences)
    assert seq.shape == linear.shape == (2, 8)
    np.testing.assert_array_equal(embedder.encode(sentences), np.concatenate([seq, linear], axis=1))


def test_a_temperature_at_its_bound_is_told_once(corpus, tmp_path):
    config = config_of("consensus", corpus, tmp_path / "run", epochs=2, temperature=TEMPERATURES[1])
    run, said = quietly(config)
    assert said.count("warning: ") == 1
    assert "warning: step 1: the temperature has reached its bound 10.0: use a lower --lr, or --fix-temperature" in said
    temperatures = [entry["temperature"] for entry in log_of(run, "train")]
    assert max(temperatures) == pytest.approx(TEMPERATURES[1])
    _, said = quietly(config.replaced(out=str(tmp_path / "fixed"), learn_temperature=False))
    assert "warning" not in said
