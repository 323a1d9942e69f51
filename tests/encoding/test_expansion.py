import shutil

import numpy as np
import pytest
import torch
from corpora import opened, small_config, topic_corpus
from safetensors.numpy import load_file, save_file
from vector_files import random_vectors, write_vectors

from structviews.batches.batch import collate
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import Expansion, expand
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import load_run
from structviews.runs.weights import load_words
from structviews.training.checkpoint import extend, extended
from structviews.training.loop import train
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import count_words

DIM = 5
CHANNELS = [("trained",), ("fixed",), ("fixed", "trained")]
NEW = ["elsewhere", "nowhere", "\N{BIRD}"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return topic_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus, tmp_path_factory):
    words = [NEW[0], *sorted(count_words(opened(corpus)))[::-2], *NEW[1:]]
    path = tmp_path_factory.mktemp("vectors") / "v.vec"
    return write_vectors(path, words, random_vectors(words, DIM))


@pytest.fixture(scope="module")
def trained_runs(corpus, vectors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        channels: train(
            small_config(
                *(corpus, folder / "-".join(channels)),
                channels=channels,
                vectors=str(vectors) if "fixed" in channels else "",
                vocabulary=40,  # fewer than the corpus has
                epochs=1,
            )
        )
        for channels in CHANNELS
    }


@pytest.fixture(params=CHANNELS, ids="-".join)
def run(request, trained_runs, tmp_path):
    return shutil.copytree(trained_runs[request.param], tmp_path / "run")


@pytest.fixture
def both(trained_runs, tmp_path):
    return shutil.copytree(trained_runs["fixed", "trained"], tmp_path / "run")


def word_vector(embedder, channel, view, word):
    """The vector that a view reads for a word."""
    batch = collate([ParsedSentence(("the", word, word, "zzz"))], embedder.vocabularies, ["tokens"])
    with torch.no_grad():
        found = embedder.model.channels[channel].tables[view].lookup(batch.ids[channel]).numpy()
    np.testing.assert_array_equal(found[1], found[2])
    return found[1]


def test_every_word_of_the_file_gets_its_vector(run, vectors):
    config, _ = load_run(run)
    file = WordVectors.open(vectors)
    before = Embedder.load(run)  # its own words are all that is asked of it
    expand(run, vectors)
    after = Embedder.load(run)
    assert after.description == ("vector, expanded" if "trained" in config.words.channels else "vector")
    words = [*file.words.to_pylist(), "the", "zzz", *before.vocabularies[config.words.channels[0]].words[1:]]
    for channel in config.words.channels:
        known = before.vocabularies[channel].words
        shared = [word for word in known[1:] if file.find([word])[0] >= 0]
        x = file.rows(file.find(shared)).astype(np.float64)
        for view in range(2):
            table = before.model.channels[channel].tables[view].weight.detach().numpy()
            rows = dict(zip(known, table, strict=True))
            y = np.array([rows[word] for word in shared], dtype=np.float64)
            affine = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0]
            for word in words:
                given = file.rows(file.find([word]))[0]
                if word in rows:
                    expected = rows[word]
                elif file.find([word])[0] < 0:
                    expected = table[0]
                else:
                    expected = given if channel == "fixed" else np.array([*given, 1]) @ affine
                np.testing.assert_allclose(word_vector(after, channel, view, word), expected, atol=1e-5, err_msg=word)


def test_the_report_is_of_the_fit(trained_runs, vectors, tmp_path):
    run = shutil.copytree(trained_runs["trained",], tmp_path / "run")
    before = model_checksum(run)
    report = expand(run, vectors)
    assert model_checksum(run) != before  # scores from before are of another run
    known = load_words(run, "trained").words[1:]
    file = WordVectors.open(vectors)
    shared = [word for word in known if file.find([word])[0] >= 0]
    assert report.n_shared == len(shared)
    assert report.n_new == len(file) - len(shared)
    x = np.c_[file.rows(file.find(shared)), np.ones(len(shared))].astype(float)
    for i, fit in enumerate(report.fits):
        table = load_file(run / "model.safetensors")[f"channels.trained.words.{i}.weight"]
        y = table[[1 + known.index(word) for word in shared]].astype(float)
        affine = np.linalg.lstsq(x, y, rcond=None)[0]
        r2 = 1 - ((y - x @ affine) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()
        assert fit.r2 == pytest.approx(r2, abs=1e-5)
        assert fit.r2_left_out < fit.r2
    assert [fit.view for fit in report.fits] == ["dep", "const"]


def test_a_larger_file_with_the_same_vectors_does_for_the_fixed_channel(both, vectors, tmp_path):
    file = WordVectors.open(vectors)
    words = ["first", *file.words.to_pylist()]
    numbers = np.concatenate([np.ones((1, DIM), np.float32), file.rows(np.arange(len(file)))])
    larger = write_vectors(tmp_path / "larger.vec", words, numbers)
    expand(both, larger)
    np.testing.assert_array_equal(word_vector(Embedder.load(both), "fixed", 0, "first"), np.ones(DIM))
    for name, changed in (("other", -numbers), ("short", numbers[:, :3]), ("few", numbers[:9])):
        path = write_vectors(tmp_path / name, words[: len(changed)], changed)
        with pytest.raises(InputError, match=rf"{name}: does not have the vectors that the fixed channel of .*run was"):
            expand(both, path)


def test_a_run_that_shares_too_few_words(trained_runs, tmp_path):
    path = write_vectors(tmp_path / "v.vec", ["the", "of", "autre"])
    with pytest.raises(
        InputError, match=r"v\.vec: has 2 of the run's 40 words, too few to fit a map from 5 dimensions"
    ):
        expand(trained_runs["trained",], path)


def test_what_is_not_a_trained_run(tmp_path, vectors):
    with pytest.raises(InputError, match="not a run"):
        expand(tmp_path, vectors)
    (tmp_path / "config.toml").write_text('kind = "joined"\n')
    with pytest.raises(InputError, match="only trained and random runs can be expanded"):
        expand(tmp_path, vectors)


def test_a_damaged_expansion(both, vectors):
    expand(both, vectors)
    path = both / "expansion.safetensors"
    for content in (path.read_bytes()[:-9], b"", None):
        if content is None:
            save_file({"trained.0": np.ones(3, np.float32)}, path)  # without a seal
        else:
            path.write_bytes(content)
        with pytest.raises(InputError, match=r"expansion\.safetensors: damaged: .*`structviews runs expand` again"):
            Embedder.load(both)


def test_training_on_drops_the_expansion(both, vectors):
    expand(both, vectors)
    longer = extended(both, epochs=2, steps=None)
    extend(longer)
    train(longer)
    assert Expansion.load(both) is None
    assert Embedder.load(both).description == "vector"
