"""The channel ``contextual``: training, resuming, encoding and sharing a run whose words are an encoder's states."""

import shutil

import numpy as np
import pytest
import torch
from corpora import random_trees
from shell import refused
from tiny_encoders import encoder_folder
from vector_files import write_vectors

from structviews.batches.batch import collate
from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.hub.portable import check_arrived, stage
from structviews.hub.transfer import push
from structviews.model import build_model
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import read_settings, write_settings
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.training.trainer import Training
from structviews.views import VIEWS
from structviews.words.vocabulary import UNKNOWN, Vocabulary

WORDS = ["the film is n't bad", "it rains", "the film", "film the"]
SENTENCES = [random_trees(text.split()) for text in WORDS]


@pytest.fixture
def settings(with_encoder, tmp_path):
    def make(out="run", views=("dep", "const"), **others):
        return with_encoder(tmp_path / out, views, **{"channels": ["contextual"]} | others)

    return make


@pytest.fixture(scope="module")
def run(with_encoder, tmp_path_factory):
    return train(with_encoder(tmp_path_factory.mktemp("contextual") / "run", ("dep", "const"), channels=["contextual"]))


def states_of(training, sentences):
    """Each sentence's states, read one sentence at a time."""
    encoder = training.vocabularies["contextual"].encoder
    return [encoder.states([sentence.tokens]) for sentence in sentences]


VIEW_NAMES = [name for name in VIEWS if not VIEWS[name].reads_frequencies and not VIEWS[name].reads_pieces]


@pytest.mark.parametrize("name", VIEW_NAMES)
def test_each_view_reads_the_states_as_it_reads_a_table(settings, name):
    """A word table with a row for each word of each sentence gives the same vectors and states, in both backends."""
    hidden = 32 if VIEWS[name].adds_words else 8
    training = Training(settings(views=(name, "dep", "const"), hidden=hidden))
    table = torch.cat([torch.zeros(1, 32), *states_of(training, SENTENCES)])
    numbered, n = [], 0
    for sentence in SENTENCES:
        tokens = tuple(f"word{n + i}" for i in range(len(sentence.tokens)))
        numbered.append(type(sentence)(tokens, *[getattr(sentence, each) for each in sentence.__slots__[1:]]))
        n += len(tokens)
    vocabulary = Vocabulary([UNKNOWN, *(f"word{i}" for i in range(n))])
    config = training.config.replaced(channels=["fixed"], vectors="x", encoder="")
    oracle = build_model(config, {"fixed": vocabulary}, table).eval()
    weights = {
        name.replace("contextual", "fixed"): weight
        for name, weight in training.model.state_dict().items()
        if not name.endswith((".encoder", ".words.0.weight"))
    }
    oracle.load_state_dict(weights, strict=False)
    needs = training.model.eval().needs
    for inference in (None, "fp32"):
        own = collate(SENTENCES, training.vocabularies, needs, inference)
        with torch.no_grad():
            found = training.model.encode(own, states=True)
            expected = oracle.encode(collate(numbered, {"fixed": vocabulary}, needs, inference), states=True)
        for (one,), (other,) in zip(found, expected, strict=True):
            torch.testing.assert_close(one.vector, other.vector, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(one.states, other.states, rtol=1e-5, atol=1e-5)
        assert torch.pdist(found[0][0].vector).max() > 1e-3


@pytest.mark.parametrize("cut_off", [0, 3])
def test_a_corpus_is_read_as_sentences_in_memory_are(settings, cut_off):
    training = Training(settings(views=("seq", "avg"), cut_off=cut_off))
    corpus, rows = training.inputs.corpus, np.array([0, 1, 2, 29, 30, 31, 50])
    batch = training.data.reader.batch(rows)
    sentences = [corpus.sentence(int(row)) for row in rows]
    own = torch.cat([states[: cut_off or None] for states in states_of(training, sentences)])
    table = training.model.channels["contextual"].tables[0]
    torch.testing.assert_close(table.lookup(batch.ids["contextual"]), own, rtol=1e-5, atol=1e-5)
    assert batch.lengths.tolist() == [min(len(s.tokens), cut_off or 99) for s in sentences]


def test_a_random_run_and_its_digest(place, tmp_path):
    """The same weights with another encoder are another model, whose saved vectors and scores are others."""
    other = encoder_folder(tmp_path / "other", "bert", seed=1)
    digests = set()
    for number, encoder in enumerate((place / "encoder", f"{place / 'encoder'}:1", other)):
        out = tmp_path / str(number)
        encoders = {"views": ["dep", "const"], "hidden": 8, "encoder": str(encoder)}
        make_baseline("random", place / "x.parsed", out, None, encoders)
        assert Embedder.load(out).encode(SENTENCES).shape == (4, 16)
        digests.add(model_checksum(out))
    assert len(digests) == 3


def test_a_run_finds_its_encoder_from_where_it_was_trained(place, with_encoder, tmp_path, monkeypatch):
    shutil.copytree(place / "encoder", tmp_path / "models/tiny")
    monkeypatch.chdir(tmp_path)
    train(with_encoder("runs/one", ("seq", "avg"), channels=["contextual"], encoder="models/tiny", steps=1))
    monkeypatch.chdir("/")
    assert len(Embedder.load(tmp_path / "runs/one").encode(SENTENCES)) == 4


def test_an_encoder_that_is_missing_or_has_changed_is_one_line(run, place, tmp_path):
    copy, encoder = tmp_path / "run", tmp_path / "encoder"
    shutil.copytree(run, copy)
    shutil.copytree(place / "encoder", encoder)
    settings = read_settings(copy)
    settings["words"]["encoder"] = str(encoder)
    write_settings(copy, settings)
    assert len(Embedder.load(copy).encode(SENTENCES)) == 4
    other = read_settings(copy)
    other["parsed"]["encoder"] |= {"layers": [1]}
    write_settings(copy, other)
    assert f"{copy}/model.safetensors: not trained with this run's encoder" in refused(Embedder.load, copy)
    write_settings(copy, settings)
    text = (encoder / "config.json").read_text()
    (encoder / "config.json").write_text(text.replace('"layer_norm_eps": 1e-12', '"layer_norm_eps": 1e-5'))
    said = refused(Embedder.load, copy)
    assert said.startswith(f"{copy}: its encoder {encoder} is not the one that it was trained with: restore that, or")
    shutil.rmtree(encoder)
    said = refused(Embedder.load, copy)
    assert said.startswith(f"{copy}: its encoder is missing: {encoder}: ")
    assert "put it back, or write where it is to encoder" in said


def test_another_encoder_is_another_run(settings, place, tmp_path):
    train(settings(steps=1))
    other = encoder_folder(tmp_path / "other", "bert", seed=1)
    for encoder in (str(other), f"{place / 'encoder'}:1"):
        said = refused(train, settings(encoder=encoder, steps=1))
        assert "was trained with another encoder, or other layers of it" in said
        said = refused(Training, settings("new", encoder=encoder, init_from=str(tmp_path / "run")))
        assert "it was trained with another encoder" in said
    Training(settings("new", init_from=str(tmp_path / "run")))
    moved = shutil.copytree(place / "encoder", tmp_path / "moved")
    train(settings(encoder=str(moved), steps=1))  # the same files elsewhere


def test_there_are_no_words_to_expand(run, tmp_path):
    assert "nothing to expand" in refused(expand, run, write_vectors(tmp_path / "x.vec", ["the", "of"]))


def test_pushed_by_name(run, place, tmp_path, monkeypatch):
    """A folder of this machine cannot be named to others; a name on the Hub can. Nothing of the encoder is copied."""
    pytest.importorskip("jinja2", reason="needs structviews[hub]")
    hub = pytest.importorskip("huggingface_hub", reason="needs structviews[hub]")
    assert "is a folder of this machine: write its name on the Hugging Face Hub" in refused(stage, run, tmp_path / "s")
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **_: {"owner/tiny": str(place / "encoder")}[name])
    copy = shutil.copytree(run, tmp_path / "copy")
    settings = read_settings(copy)
    settings["words"]["encoder"] = "owner/tiny"
    write_settings(copy, settings)
    pushed = push(copy, "owner/run", dry_run=True)
    assert "states of the encoder `owner/tiny`, which is not in this repository" in pushed.card
    assert sorted(pushed.files) == ["components.safetensors", "config.toml", "model.safetensors"]
    stage(copy, tmp_path / "pulled")
    check_arrived(tmp_path / "pulled")
    vectors = [Embedder.load(each).encode(SENTENCES) for each in (tmp_path / "pulled", copy)]
    np.testing.assert_array_equal(*vectors)
    settings["words"]["encoder"] = "../secret"
    write_settings(tmp_path / "pulled", settings)
    assert "refers to a local folder" in refused(check_arrived, tmp_path / "pulled")
