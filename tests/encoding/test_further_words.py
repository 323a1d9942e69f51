"""Words that a run with fixed vectors reads from its file of word vectors."""

import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from corpora import opened, random_trees, small_config, topic_corpus
from vector_files import fasttext_model, random_vectors, word2vec_binary, write_vectors

from structviews.batches.batch import collate
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.expansion import Expansion, expand, located
from structviews.runs.settings_file import load_run, read_settings, write_settings
from structviews.runs.weights import load_vocabularies, load_words, read_weights, save_vocabularies, write_weights
from structviews.training.loop import train
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import Vocabulary, count_words

DIM = 6
NEW = [f"new-{i}" for i in range(40)]
VIEWS = ("dep", "const", "seq", "avg")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return topic_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus, tmp_path_factory):
    words = [*NEW[:30], *sorted(count_words(opened(corpus))), *NEW[30:]]
    return write_vectors(tmp_path_factory.mktemp("vectors") / "v.vec", words, random_vectors(words, DIM))


@pytest.fixture(scope="module")
def run(corpus, vectors, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return train(small_config(corpus, out, VIEWS, channels=("fixed", "trained"), vectors=str(vectors), epochs=1))


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
def sentences(corpus):
    known = sorted(count_words(opened(corpus)))
    rng = np.random.default_rng(0)
    made = [
        random_trees([str(w) for w in rng.choice([*known[:60], *NEW, "unheard"], n)]) for n in [1, 2, 9, 14, 30] * 4
    ]
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


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("quiet")
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


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_words_that_a_file_composes_are_as_if_it_had_them(corpus, vectors, sentences, tmp_path, precision):
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
    run = train(small_config(corpus, tmp_path / "run", ("dep", "avg"), **settings))
    expand(run, tmp_path / "sub.bin")
    other = shutil.copytree(run, tmp_path / "other")
    expansion = Expansion.load(run)
    Expansion(str(tmp_path / "all.vec"), WordVectors.open(tmp_path / "all.vec").fingerprint, expansion.maps).save(other)
    sentences = [replace(each, tokens=(*others, *each.tokens[3:])) for each in sentences if len(each.tokens) > 3]
    ours, expected = (Embedder.load(each, precision=precision).encode(sentences) for each in (run, other))
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    unknown = [replace(each, tokens=("<unk>",) * 3 + each.tokens[3:]) for each in sentences]
    assert np.abs(Embedder.load(run, precision=precision).encode(unknown) - ours).max(axis=1).min() > 1e-3


def test_a_run_that_knows_all_words_opens_no_file(run, corpus, monkeypatch):
    monkeypatch.setattr(WordVectors, "open", None)
    known = [random_trees(sorted(count_words(opened(corpus)))[:9])]
    assert np.isfinite(Embedder.load(run).encode(known)).all()


def test_a_batch_has_the_vectors_of_its_words_of_the_file(run, vectors):
    vocabulary = Embedder.load(run).vocabularies["fixed"]
    own, file = load_words(run, "fixed"), WordVectors.open(vectors)
    np.testing.assert_array_equal(vocabulary.ids(own.words), np.arange(len(own)))
    for words in (own.words, [], ["<unk>", "unheard"]):
        ids, further = vocabulary.look_up([words])
        np.testing.assert_array_equal(ids, own.ids(words))
        assert further is None
    # Their ids are this batch's alone, in the order in which they occur, however many words the file has.
    ids, further = vocabulary.look_up([["unheard", NEW[3], "<unk>"], [own.words[5], NEW[1], NEW[3]]])
    assert ids.tolist() == [0, len(own), 0, 5, len(own) + 1, len(own)]
    np.testing.assert_array_equal(further, file.rows(file.find([NEW[3], NEW[1]])))
    batch = collate([random_trees(["unheard", NEW[3], NEW[3], own.words[5]])], {"fixed": vocabulary}, ["tokens"])
    assert batch.ids["fixed"].distinct.tolist() == [0, 5, len(own)]
    np.testing.assert_array_equal(batch.ids["fixed"].further, file.rows(file.find(NEW[3:4])))


def test_without_the_file_they_are_unknown_which_is_said_once(copied, run, sentences):
    alone = copied()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        embedder = Embedder.load(alone)
        found = embedder.encode(sentences)
        with open_pool(embedder, 2) as pool:
            pool.encode(embedder, sentences * 40)
        Embedder.load(alone).encode(sentences)
    assert [str(each.message) for each in said] == [
        f"{alone}: words outside its vocabulary are unknown, because elsewhere.vec "
        f"is not there: give the file with `structviews runs expand {alone} --vectors FILE`"
    ]
    unknown = [replace(each, tokens=[w if w not in NEW else "unheard" for w in each.tokens]) for each in sentences]
    np.testing.assert_allclose(found, Embedder.load(run).encode(unknown), atol=1e-6)
    assert embedder.description == "vector, own words only"
    assert Embedder.load(run).description == "vector"


@pytest.mark.parametrize("form", ["other vectors", "other words", "no vectors"])
def test_a_file_that_has_changed_is_named_and_not_believed(copied, run, vectors, sentences, form, tmp_path):
    path, file = tmp_path / "v.vec", WordVectors.open(vectors)
    words, rows = file.words.to_pylist(), file.rows(np.arange(len(file)))
    if form == "no vectors":
        path.write_bytes(b"\0")
    else:
        write_vectors(
            path, words[1:] + words[:1] if form == "other words" else words, rows if form == "other words" else -rows
        )
    expected, run = Embedder.load(run).encode(sentences), copied(path)
    reason = r"cannot be read \(.*not word vectors.*\)" if form == "no vectors" else "holds other vectors now"
    with pytest.warns(UserWarning, match=rf"run: words outside .* because .*v\.vec {reason}: .* `structviews runs "):
        found = Embedder.load(run).encode(sentences)
    path.unlink()
    with pytest.warns(UserWarning, match="is not there"):
        np.testing.assert_array_equal(Embedder.load(run).encode(sentences), found)
    # The same vectors in another format are the same file.
    write_vectors(path, words, rows, word2vec_binary)
    np.testing.assert_allclose(Embedder.load(run).encode(sentences), expected)


@pytest.mark.usefixtures("quiet")
def test_a_relative_path_is_seen_from_here_and_from_above_the_run(
    copied, vectors, run, sentences, tmp_path, monkeypatch
):
    shutil.copy(vectors, tmp_path / "v.vec")
    moved = copied("v.vec")
    expected = Embedder.load(run).encode(sentences)
    for folder in (tmp_path, tmp_path / "run", Path("/")):
        monkeypatch.chdir(folder)
        here = Path(os.path.relpath(moved, folder))
        np.testing.assert_array_equal(Embedder.load(here).encode(sentences), expected)
    (tmp_path / "another").mkdir()
    (tmp_path / "another/v.vec").write_text("a 1 2\n")
    monkeypatch.chdir(tmp_path / "another")
    embedder = Embedder.load("../run")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(embedder.encode(sentences), expected)
    monkeypatch.chdir(tmp_path)
    assert located(Path("v.vec"), Path("/run")) == tmp_path / "v.vec"
    assert located(Path("w.vec"), Path("run")) == Path("w.vec")
