"""Words that a run reads from a file of word vectors, beside its own: of its fixed channel, mapped, or composed."""

import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import opened, random_trees, small_config
from vector_files import fasttext_model, glove, random_vectors, word2vec_binary, write_vectors

from structviews.batches.batch import collate
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.expansion import RunVectors, expand
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import load_run, read_settings, write_settings
from structviews.runs.weights import load_vocabularies, read_weights, save_vocabularies, write_weights
from structviews.training.checkpoint import extend, extended
from structviews.training.loop import train
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import Vocabulary, count_words

DIM = 6
NEW = ["\N{BIRD}", *(f"new-{i}" for i in range(20))]
VIEWS = ("dep", "const", "seq", "avg")


@pytest.fixture(scope="module")
def vectors(topics, tmp_path_factory):
    words = [*NEW[:15], *sorted(count_words(opened(topics))), *NEW[15:]]
    return write_vectors(tmp_path_factory.mktemp("vectors") / "v.vec", words, random_vectors(words, DIM))


@pytest.fixture(scope="module")
def run(topics, vectors, tmp_path_factory):
    """Of both channels."""
    out = tmp_path_factory.mktemp("run") / "run"
    settings = {"channels": ("fixed", "trained"), "vectors": str(vectors), "vocabulary": 40, "epochs": 1}
    return train(small_config(topics, out, VIEWS, **settings))


@pytest.fixture(scope="module")
def trained(topics, tmp_path_factory):
    """Of the trained channel alone; the corpus has more words than its vocabulary."""
    out = tmp_path_factory.mktemp("trained") / "run"
    return train(small_config(topics, out, ("dep", "const"), vocabulary=40, epochs=1))


@pytest.fixture
def copied(run, tmp_path):
    """The run and its file of vectors, elsewhere."""

    def copy(file="elsewhere.vec"):
        shutil.copytree(run, tmp_path / "run")
        settings = read_settings(run)
        settings["words"]["vectors"] = str(file)
        write_settings(tmp_path / "run", settings)
        return tmp_path / "run"

    return copy


@pytest.fixture(scope="module")
def sentences(topics):
    known = sorted(count_words(opened(topics)))
    rng = np.random.default_rng(0)
    made = [random_trees([str(w) for w in rng.choice([*known[:60], *NEW, "unheard"], n)]) for n in [1, 9, 14, 30] * 3]
    # The same trees over other new words: merged subtrees must not take them for one another.
    return [*made, *(replace(each, tokens=(NEW[0],) * len(each.tokens)) for each in made[:5]),
            *(replace(each, tokens=(NEW[1],) * len(each.tokens)) for each in made[:5])]  # fmt: skip


@pytest.fixture(scope="module")
def full(run, vectors, tmp_path_factory):
    """The run as if its corpus had had all words of the file; it looks for no file."""
    folder = shutil.copytree(run, tmp_path_factory.mktemp("full") / "run")
    file, vocabularies = WordVectors.open(vectors), load_vocabularies(run, *load_run(run))
    save_vocabularies(folder, vocabularies | {"fixed": Vocabulary([*vocabularies["fixed"].words, *NEW])})
    weights = read_weights(run)
    table = weights["channels.fixed.words.0.weight"]
    weights["channels.fixed.words.0.weight"] = table.new_tensor(np.concatenate([table, file.rows(file.find(NEW))]))
    write_weights(folder, weights)
    settings = read_settings(folder)
    del settings["parsed"]["vectors"]["fingerprint"]
    write_settings(folder, settings)
    return folder


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_they_are_as_if_the_run_had_stored_them(run, full, sentences, precision):
    ours, expected = (Embedder.load(each, precision=precision) for each in (run, full))
    for pooling in ("vector", "pooled"):
        views = [each.with_representation(pooling=pooling).encode_views(sentences) for each in (ours, expected)]
        for view, one, another in zip(VIEWS, *views, strict=True):
            np.testing.assert_allclose(one, another, atol=1e-6, err_msg=f"{view} {pooling}")
    attention = [each.attention(sentences) for each in (ours, expected)]
    assert attention[0].keys() == attention[1].keys()
    assert ours.description == expected.description


@pytest.mark.filterwarnings("error")
def test_words_that_a_file_composes_are_as_if_it_had_them(topics, vectors, sentences, tmp_path):
    """Of two runs of the same weights, the second's file has the vectors that the first composes."""
    known = WordVectors.open(vectors)
    words = known.words.to_pylist()
    own = np.random.default_rng(5).normal(size=(len(words) + 50, DIM)).astype(np.float32)
    (tmp_path / "sub.bin").write_bytes(fasttext_model(words, own))
    file = WordVectors.open(tmp_path / "sub.bin")
    others = ["unheard", "new-40", "naïveté"]
    assert file.find(others).tolist() == [-1] * 3
    every = [*words, *others]
    write_vectors(tmp_path / "all.vec", every, file.read(every)[1])
    settings = {"channels": ("fixed", "trained"), "vectors": str(tmp_path / "sub.bin"), "epochs": 1}
    run = train(small_config(topics, tmp_path / "run", ("dep", "avg"), **settings))
    expand(run, tmp_path / "sub.bin")
    other = shutil.copytree(run, tmp_path / "other")
    maps, whole = RunVectors.of_expansion(run).maps, WordVectors.open(tmp_path / "all.vec")
    RunVectors(other, whole.path, whole.fingerprint, maps).save()
    sentences = [replace(each, tokens=(*others, *each.tokens[3:])) for each in sentences if len(each.tokens) > 3]
    ours, expected = (Embedder.load(each, precision="fp32").encode(sentences) for each in (run, other))
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    unknown = [replace(each, tokens=("<unk>",) * 3 + each.tokens[3:]) for each in sentences]
    assert np.abs(Embedder.load(run, precision="fp32").encode(unknown) - ours).max(axis=1).min() > 1e-3


def test_a_run_that_knows_all_words_opens_no_file(run, topics, monkeypatch):
    monkeypatch.setattr(WordVectors, "open", None)
    known = [random_trees(sorted(count_words(opened(topics)))[:9])]
    assert np.isfinite(Embedder.load(run).encode(known)).all()


def test_without_the_file_they_are_unknown_which_is_said_once(copied, run, sentences):
    alone = copied()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        embedder = Embedder.load(alone)
        found = embedder.encode(sentences)
        with open_pool(embedder, 2) as pool:
            embedder.encode(sentences * 40, pool=pool)
        Embedder.load(alone).encode(sentences)
    assert [str(each.message) for each in said] == [
        f"{alone}: words outside its vocabulary are unknown, because elsewhere.vec "
        f"is not there: give the file with `structviews runs expand {alone} --vectors FILE`"
    ]
    unknown = [replace(each, tokens=[w if w not in NEW else "unheard" for w in each.tokens]) for each in sentences]
    np.testing.assert_allclose(found, Embedder.load(run).encode(unknown), atol=1e-6)
    assert embedder.description == "vector, own words only"
    assert Embedder.load(run).description == "vector"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda words, rows: glove(words, -rows), "holds other vectors now"),
        (lambda words, rows: glove(words[1:] + words[:1], rows), "holds other vectors now"),
        (lambda words, rows: b"\0", r"cannot be read \(.*not word vectors.*\)"),
    ],
)
def test_a_file_that_has_changed_is_named_and_not_believed(copied, run, vectors, sentences, change, reason, tmp_path):
    path, file = tmp_path / "v.vec", WordVectors.open(vectors)
    words, rows = file.words.to_pylist(), file.rows(np.arange(len(file)))
    path.write_bytes(change(words, rows))
    expected, run = Embedder.load(run).encode(sentences), copied(path)
    with pytest.warns(UserWarning, match=rf"run: words outside .* because .*v\.vec {reason}: .* `structviews runs "):
        found = Embedder.load(run).encode(sentences)
    path.unlink()
    with pytest.warns(UserWarning, match="is not there"):
        np.testing.assert_array_equal(Embedder.load(run).encode(sentences), found)
    # The same vectors in another format are the same file.
    write_vectors(path, words, rows, word2vec_binary)
    np.testing.assert_allclose(Embedder.load(run).encode(sentences), expected)


@pytest.mark.filterwarnings("error")
def test_a_relative_path_is_seen_from_here_or_above_the_run(copied, vectors, run, sentences, tmp_path, monkeypatch):
    shutil.copy(vectors, tmp_path / "v.vec")
    moved = copied("v.vec")
    expected = Embedder.load(run).encode(sentences)
    (tmp_path / "another").mkdir()
    (tmp_path / "another/v.vec").write_text("a 1 2\n")
    for folder in (tmp_path, tmp_path / "run", tmp_path / "another"):
        monkeypatch.chdir(folder)
        embedder = Embedder.load(Path(os.path.relpath(moved, folder)))
        monkeypatch.chdir("/")  # the path is that of the run when it was loaded
        np.testing.assert_array_equal(embedder.encode(sentences), expected)


def word_vector(embedder, channel, view, word):
    """The vector that a view reads for a word."""
    batch = collate([ParsedSentence(("the", word, word, "zzz"))], embedder.vocabularies, ["tokens"])
    with torch.no_grad():
        found = embedder.model.channels[channel].tables[view].lookup(batch.ids[channel]).numpy()
    np.testing.assert_array_equal(found[1], found[2])
    return found[1]


@pytest.mark.parametrize("channels", [("trained",), ("fixed", "trained")], ids="-".join)
def test_every_word_of_the_file_gets_its_vector(channels, trained, copied, vectors, tmp_path):
    run = copied() if "fixed" in channels else shutil.copytree(trained, tmp_path / "run")
    config, _ = load_run(run)
    file = WordVectors.open(vectors)
    before = Embedder.load(run)  # its own words are all that is asked of it
    checksum, report = model_checksum(run), expand(run, vectors)
    assert model_checksum(run) != checksum  # scores from before are of another run
    after = Embedder.load(run)
    assert after.description == "vector, expanded"
    own = {word for each in before.vocabularies.values() for word in each.words}
    assert report.n_new == len(set(file.words.to_pylist()) - own)
    words = [*file.words.to_pylist(), "the", "zzz", *before.vocabularies[config.words.channels[0]].words[1:]]
    for channel in config.words.channels:
        known = before.vocabularies[channel].words
        shared = [word for word in known[1:] if file.find([word])[0] >= 0]
        x = np.c_[file.rows(file.find(shared)), np.ones(len(shared))].astype(np.float64)
        for view in range(2):
            table = before.model.channels[channel].tables[view].weight.detach().numpy()
            rows = dict(zip(known, table, strict=True))
            y = np.array([rows[word] for word in shared], dtype=np.float64)
            affine = np.linalg.lstsq(x, y, rcond=None)[0]
            if channel == "trained":
                fit, r2 = report.fits[view], 1 - ((y - x @ affine) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()
                assert report.n_shared == len(shared)
                assert (fit.view, fit.r2) == (VIEWS[view], pytest.approx(r2, abs=1e-5))
                assert fit.r2_left_out < fit.r2
            for word in words:
                given = file.rows(file.find([word]))[0]
                if word in rows:
                    expected = rows[word]
                elif file.find([word])[0] < 0:
                    expected = table[0]
                else:
                    expected = given if channel == "fixed" else np.array([*given, 1]) @ affine
                np.testing.assert_allclose(word_vector(after, channel, view, word), expected, atol=1e-5, err_msg=word)


def test_a_larger_file_with_the_same_vectors_does_for_the_fixed_channel(copied, vectors, tmp_path):
    both, file = copied(), WordVectors.open(vectors)
    words = ["first", *file.words.to_pylist()]
    numbers = np.concatenate([np.ones((1, DIM), np.float32), file.rows(np.arange(len(file)))])
    larger = write_vectors(tmp_path / "larger.vec", words, numbers)
    expand(both, larger)
    np.testing.assert_array_equal(word_vector(Embedder.load(both), "fixed", 0, "first"), np.ones(DIM))
    for name, changed in (("other", -numbers), ("short", numbers[:, :3]), ("few", numbers[:9])):
        path = write_vectors(tmp_path / name, words[: len(changed)], changed)
        with pytest.raises(InputError, match=rf"{name}: does not have the vectors that the fixed channel of .*run was"):
            expand(both, path)


def test_what_cannot_be_expanded(trained, vectors, tmp_path):
    few = write_vectors(tmp_path / "few.vec", ["the", "of", "autre"])
    with pytest.raises(InputError, match=r"few\.vec: has 2 of the run's 40 words, too few to fit a map from 5 dim"):
        expand(trained, few)
    with pytest.raises(InputError, match="not a run"):
        expand(tmp_path, vectors)
    (tmp_path / "config.toml").write_text('kind = "joined"\n')
    with pytest.raises(InputError, match="only trained and random runs can be expanded"):
        expand(tmp_path, vectors)


def test_training_on_drops_the_expansion(copied, vectors):
    both = copied(vectors)
    expand(both, vectors)
    longer = extended(both, epochs=2, steps=None)
    extend(longer)
    train(longer)
    assert RunVectors.of_expansion(both) is None
    assert Embedder.load(both).description == "vector"
