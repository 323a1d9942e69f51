"""Packed runs that compose unknown words of n-grams."""

import pickle
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
from corpora import opened, random_trees, small_config, tiny_corpus
from packed_runs import pack
from vector_files import fasttext_model

from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.errors import InputError
from structviews.hub.portable import check_arrived, stage
from structviews.runs.file_checks import verify
from structviews.runs.folder import SUB_WORDS, model_checksum
from structviews.runs.settings_file import read_settings, write_settings
from structviews.runs.weights import load_sub_words
from structviews.runtime.seals import read_arrays, write_arrays
from structviews.training.loop import train
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import count_words

WORDS, DIM, BUCKETS = 12, 6, 64


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus):
    words = sorted(count_words(opened(corpus)))
    rows = np.random.default_rng(2).normal(size=(len(words) + BUCKETS, DIM)).astype(np.float32)
    path = corpus.parent / "v.bin"
    path.write_bytes(fasttext_model(words, rows))
    return path


@pytest.fixture(scope="module")
def run(corpus, vectors):
    return train(small_config(corpus, corpus.parent / "run", channels=("fixed",), vectors=str(vectors), epochs=1))


@pytest.fixture
def packed(run, tmp_path):
    assert pack(run, tmp_path / "packed", WORDS) == []
    return tmp_path / "packed"


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def sentence():
    return random_trees(["the", "unheard", "of", "computers", "naïveté"])


@pytest.mark.usefixtures("quiet")
def test_unknown_words_are_composed_as_by_the_run(run, packed, vectors, sentence):
    before, after = Embedder.load(run), Embedder.load(packed)
    kept = after.vocabularies["fixed"].words[1:]
    sentence = replace(sentence, tokens=(kept[0], "unheard", kept[1], "computers", "naïveté"))
    expected, found = before.encode([sentence]), after.encode([sentence])
    np.testing.assert_allclose(found, expected, atol=0.03 * np.abs(expected).max())
    same = [replace(sentence, tokens=("unheard",) * 5)]
    assert np.abs(after.encode(same) - found).max() > 0.01
    assert after.description == before.description == "vector"
    # A word without n-grams, and what stands for unknown words, are unknown.
    ids, further = after.vocabularies["fixed"].look_up([["<unk>", ""]])
    assert (ids.tolist(), further) == ([0, 0], None)
    # A word that is not kept is composed too.
    cut = next(word for word in WordVectors.open(vectors).words.to_pylist() if word not in kept)
    assert after.vocabularies["fixed"].ids([cut]).tolist() == [0]
    ids, further = after.vocabularies["fixed"].look_up([[cut]])
    wanted = WordVectors.open(vectors).sub_words.read([cut])[1]
    assert ids.tolist() == [WORDS + 1]
    np.testing.assert_allclose(further, wanted, atol=0.02)


@pytest.mark.usefixtures("quiet")
def test_the_rows_have_8_bits(packed, vectors):
    assert read_settings(packed)["parsed"]["vectors"]["sub_words"] is True
    arrays, given = read_arrays(packed / SUB_WORDS, ""), WordVectors.open(vectors).sub_words
    assert {name: (each.dtype, each.shape) for name, each in arrays.items()} == {
        "rows": (np.int8, (BUCKETS, DIM)),
        "scales": (np.float32, (BUCKETS,)),
    }
    read = load_sub_words(packed, DIM)
    assert (read.shortest, read.longest) == (given.shortest, given.longest) == (3, 6)
    np.testing.assert_allclose(read.rows * read.scales[:, None], given.rows, atol=np.abs(given.rows).max() / 253)


@pytest.mark.usefixtures("quiet")
def test_they_go_wherever_the_run_goes(packed, sentence, tmp_path):
    embedder = Embedder.load(packed)
    expected = embedder.encode([sentence])
    assert stage(packed, tmp_path / "staged") == []
    check_arrived(tmp_path / "staged")
    embedder.save(tmp_path / "saved")
    pack(packed, tmp_path / "again", WORDS)
    joined = join_runs([packed, packed], tmp_path / "joined")
    for folder in ("staged", "saved", "again"):
        np.testing.assert_allclose(Embedder.load(tmp_path / folder).encode([sentence]), expected, atol=1e-3)
    np.testing.assert_allclose(Embedder.load(joined).encode([sentence])[0, : embedder.dim], expected[0], atol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(embedder)).encode([sentence]), expected)


def test_a_file_that_is_damaged_or_of_another_run_is_named(packed, run, tmp_path):
    sound, path = (packed / SUB_WORDS).read_bytes(), packed / SUB_WORDS
    checksum = model_checksum(packed)
    assert list(verify(packed, lambda *_: None)) == []
    arrays = read_arrays(path, "")
    narrow = {name: each[..., :-1] for name, each in arrays.items()}
    lengths = {"shortest": 3, "longest": 6}
    for write, message in (
        (lambda: path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1])), "damaged: its content does not match"),
        (lambda: path.write_bytes(sound[:-9]), "damaged"),
        (lambda: write_arrays(path, narrow, lengths), "damaged: its n-grams are not of this run's words"),
        (lambda: write_arrays(path, {}, lengths), "damaged: its n-grams are not of this run's words"),
        (lambda: write_arrays(path, arrays, lengths | {"longest": 10**9}), "longest"),
        (lambda: write_arrays(path, arrays), "shortest"),
        (path.unlink, "no such file: copy the run again"),
    ):
        write()
        with pytest.raises(InputError) as error:
            Embedder.load(packed)
        assert str(error.value).startswith(f"{path}: ")
        assert message in str(error.value)
        assert "\n" not in str(error.value)
    assert model_checksum(packed) != checksum


def test_a_run_whose_file_is_not_there_is_packed_without_them(run, sentence, tmp_path):
    alone = shutil.copytree(run, tmp_path / "run")
    settings = read_settings(alone)
    settings["words"]["vectors"] = "elsewhere.bin"
    write_settings(alone, settings)
    assert pack(alone, tmp_path / "packed", WORDS) == [
        "elsewhere.bin: not there, or changed: if it has sub-words, they are left out, and further words unknown"
    ]
    assert not (tmp_path / "packed" / SUB_WORDS).exists()
    embedder = Embedder.load(tmp_path / "packed")
    same = replace(sentence, tokens=("the", "qwertz", "of", "asdf", "yxcv"))
    np.testing.assert_array_equal(embedder.encode([sentence]), embedder.encode([same]))
