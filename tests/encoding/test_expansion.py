import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import opened, random_trees, small_config, tiny_corpus, topic_corpus
from safetensors.numpy import load_file, save_file
from vector_files import random_vectors, write_vectors

from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import Expansion, expand, fit_map, r_squared
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import load_run
from structviews.runs.weights import load_vocabularies, load_words
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
    from structviews.batches.batch import collate
    from structviews.corpus.sentence import ParsedSentence

    batch = collate([ParsedSentence(("the", word, word, "zzz"))], embedder.vocabularies, ["tokens"])
    with torch.no_grad():
        found = embedder.model.channels[channel].tables[view].lookup(batch.ids[channel]).numpy()
    np.testing.assert_array_equal(found[1], found[2])
    return found[1]


def test_the_map_solves_the_normal_equations():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 4)).astype(np.float32), rng.standard_normal((50, 3)).astype(np.float32)
    x1 = np.array([[*row, 1.0] for row in x.tolist()])
    expected = np.linalg.solve(x1.T @ x1, x1.T @ y.astype(float))
    np.testing.assert_allclose(fit_map(x, y), expected, rtol=1e-9)


def test_an_affine_map_is_found_again_and_its_r_squared_is_one():
    rng = np.random.default_rng(0)
    x, affine = rng.standard_normal((50, 4)), rng.standard_normal((5, 3))
    y = x @ affine[:-1] + affine[-1]
    np.testing.assert_allclose(fit_map(x, y), affine, atol=1e-12)
    assert r_squared(x, y, affine) == pytest.approx(1)
    constant = np.vstack([np.zeros((4, 3)), y.mean(axis=0)])
    assert r_squared(x, y, constant) == pytest.approx(0)


def test_every_word_of_the_file_gets_its_vector(run, vectors):
    config, _ = load_run(run)
    file = WordVectors.open(vectors)
    before = Embedder.load(run)  # its own words are all that is asked of it
    expand(run, vectors)
    after = Embedder.load(run)
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


def test_sentences_of_new_words_have_vectors_of_their_own(run, vectors):
    sentences = [[NEW[0]], [NEW[1], NEW[2]], ["zzz"], ["yyy"], ["the", "of"]]
    aside = vectors.rename(vectors.with_suffix(".aside"))  # or a fixed channel would know its words without expansion
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = Embedder.load(run, _Parser()).encode(sentences)
    aside.rename(vectors)
    expand(run, vectors)
    after = Embedder.load(run, _Parser())
    vectors_after = after.encode(sentences)
    np.testing.assert_array_equal(before[0], before[2])
    assert np.abs(vectors_after[0] - vectors_after[2]).max() > 1e-3
    np.testing.assert_allclose(vectors_after[2:], before[2:], atol=1e-6)
    alone = np.concatenate([after.encode([sentence]) for sentence in sentences])
    np.testing.assert_allclose(alone, vectors_after, atol=1e-6)
    assert after.description == "vector" + ", expanded" * (run_has_words_of_its_own(run))


def run_has_words_of_its_own(run):
    return "trained" in load_run(run)[0].words.channels


class _Parser:
    """Random trees, described as those that the run was trained on."""

    def __init__(self):
        from corpora import RandomParser

        self.parse, self.describe = RandomParser().parse, RandomParser().describe


def test_the_report_is_of_the_fit(trained_runs, vectors, tmp_path):
    run = shutil.copytree(trained_runs["trained",], tmp_path / "run")
    report = expand(run, vectors)
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


def test_only_the_maps_are_stored(both, vectors):
    expand(both, vectors)
    kept = Expansion.load(both)
    assert [each.shape for each in kept.maps] == [(DIM + 1, 6)] * 2
    assert kept.vectors == str(vectors)
    assert kept.fingerprint == WordVectors.open(vectors).fingerprint
    assert (both / "expansion.safetensors").stat().st_size < 1000


def test_where_the_file_has_gone_the_run_warns_and_knows_its_own_words(both, vectors, tmp_path):
    path = tmp_path / "v.vec"
    shutil.copy(vectors, path)
    expand(both, path)
    sentences = [random_trees(["the", "of"]), random_trees(NEW)]
    expected = Embedder.load(both).encode(sentences)
    path.unlink()
    embedder = Embedder.load(both)
    assert embedder.description == "vector, own words only"
    with pytest.warns(UserWarning, match=r"run: words outside its vocabulary are unknown, .*v\.vec is not there: give"):
        found = embedder.encode(sentences)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    unknown = replace(sentences[1], tokens=("zzz",) * len(NEW))
    np.testing.assert_allclose(found[1], embedder.encode(unknown), atol=1e-6)
    write_vectors(path, NEW)
    with pytest.warns(UserWarning, match=r"v\.vec holds other vectors now: give the file with `structviews runs exp"):
        np.testing.assert_allclose(Embedder.load(both).encode(sentences), found, atol=1e-6)
    shutil.copy(vectors, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = Embedder.load(both)
        np.testing.assert_allclose(again.encode(sentences), expected, atol=1e-6)
        assert again.description == "vector, expanded"


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


def test_scores_from_before_are_not_those_of_the_expanded_run(both, vectors):
    before = model_checksum(both)
    expand(both, vectors)
    assert model_checksum(both) != before


def test_training_on_drops_the_expansion(both, vectors):
    expand(both, vectors)
    longer = extended(both, epochs=2, steps=None)
    extend(longer)
    train(longer)
    assert Expansion.load(both) is None
    assert Embedder.load(both).description == "vector"


def test_words_of_a_corpus_that_was_not_parsed_for_it(both, tmp_path):
    """Batches from a corpus, as in training, and batches of sentences in memory see the same words of the run's own."""
    from structviews.batches.reader import CorpusReader

    embedder = Embedder.load(both)
    embedder.vocabularies = load_vocabularies(both, *load_run(both))
    corpus = opened(tiny_corpus(tmp_path / "tiny.parsed"))
    reader = CorpusReader(corpus, embedder.vocabularies, embedder.needs)
    with torch.inference_mode():
        expected = torch.cat(embedder.model.vectors(reader.batch(np.arange(12))), dim=1)
    np.testing.assert_allclose(embedder.encode([row.sentence for row in corpus]), expected, atol=1e-5)
