"""Going on with the weights of a run on another corpus."""

import shutil

import pytest
import torch
from corpora import small_config, topic_corpus
from safetensors.torch import load_file

from structviews.errors import InputError
from structviews.runs.weights import load_words
from structviews.training.checkpoint import extend, extended, read_progress
from structviews.training.loop import train
from structviews.training.trainer import Training


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    return train(small_config(topic_corpus(folder / "x.parsed", documents=8), folder / "run", epochs=1))


@pytest.fixture
def settings(source, tmp_path):
    """Of a run on a corpus with four documents more, and their words."""
    corpus = topic_corpus(tmp_path / "y.parsed", documents=12, seed=1)

    def make(out="run", **others):
        return small_config(corpus, tmp_path / out, **{"epochs": 1, "init_from": str(source)} | others)

    return make


def test_known_words_keep_their_rows_and_others_start_fresh(source, settings):
    made, fresh = (Training(settings(**others)) for others in ({}, {"init_from": ""}))
    vocabulary, own = (training.vocabularies["trained"] for training in (made, fresh))
    old_words, words = load_words(source, "trained").words, vocabulary.words
    assert words[: len(old_words)] == old_words
    assert set(words) == set(old_words) | set(own.words)
    assert len(words) == len(set(words)) > len(old_words)
    counts = dict(zip(own.words, own.counts.tolist(), strict=True))
    assert vocabulary.counts.tolist() == [counts.get(word, 0) for word in words]
    weights, state = load_file(source / "model.safetensors"), made.model.state_dict()
    assert state.keys() == weights.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor[: len(weights[name])], weights[name])
        if ".words." in name:
            assert len(tensor) == len(words)
            assert tensor[len(old_words) :].any(dim=1).all()
    assert made.optimiser.state == {}


CELL = {"views": ("seq", "seq-uni")}
SKIP = {"views": ("seq-uni",), "objective": "skip-thought"}


@pytest.mark.parametrize(
    ("plain", "name", "value"),
    [(CELL, "reset_gate", "before"), (SKIP, "conditioning", "start"), (SKIP, "output_layers", 2)],
)
def test_another_cell_or_decoder_is_refused(settings, plain, name, value):
    before = str(train(settings("before", init_from="", **plain, **{name: value}, steps=1)))
    Training(settings(init_from=before, **plain, **{name: value}))
    wanted = f"it has {name} = {value}, not .*: give --{name.replace('_', '-')} {value}, or another"
    with pytest.raises(InputError, match=wanted):
        Training(settings(init_from=before, **plain))


def test_outputs_for_words_of_another_corpus_start_fresh(source, settings):
    before = train(settings("before", init_from="", **SKIP, steps=1).replaced(corpus=str(source.parent / "x.parsed")))
    made = Training(settings(init_from=str(before), **SKIP)).model.state_dict()
    old = load_file(before / "model.safetensors")
    words, decoder = (f"channels.trained.objective.{name}" for name in ("words.0.weight", "decoders.0.weight_hh_l0"))
    assert len(made[words]) > len(old[words])
    assert torch.equal(made[words][: len(old[words])], old[words])
    assert torch.equal(made[decoder], old[decoder])
    Training(settings(init_from=str(before), views=("seq-uni",), objective="generative"))  # which has none of them
    Training(settings(init_from=str(source), critic="bilinear"))  # which has matrices, as the source has none


def test_a_run_goes_on_without_the_one_that_it_began_from(source, settings, tmp_path):
    copy = shutil.copytree(source, tmp_path / "copy")
    whole = train(settings("whole", init_from=str(copy), steps=4))
    run = train(settings(init_from=str(copy), steps=2))
    shutil.rmtree(copy)
    extend(extended(run, None, 4))
    train(extended(run, None, None))
    assert read_progress(run).step == 4
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"views": ("seq", "avg")}, r"it has views = dep,const, not seq,avg: give --views dep,const, or another"),
        ({"word_dim": 10}, r"it has word_dim = 6, not 10: give --word-dim 6, or another run with --init-from"),
        ({"init_from": "nothing"}, r"nothing: not a run: no such folder"),
    ],
)
def test_runs_that_cannot_be_begun_from(settings, tmp_path, others, message, one_line):
    with one_line(message):
        train(settings(**others))
    assert not (tmp_path / "run").exists()
