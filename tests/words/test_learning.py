import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from corpora import opened
from vector_files import random_vectors

from structviews.errors import InputError
from structviews.words.learning import learn_file, learn_model
from structviews.words.vector_files import WordVectors, save_vectors
from structviews.words.vocabulary import count_words
from structviews.words.word_settings import Word2VecConfig

needs_gensim = pytest.mark.skipif(find_spec("gensim") is None, reason="needs structviews[vectors]")
SMALL = {"dim": 8, "min_count": 2, "epochs": 300}
both = pytest.mark.parametrize("subwords", [0, pytest.param(50, marks=pytest.mark.slow)])


def learn_vectors(*arguments):
    """The words, and their vectors."""
    words = learn_model(*arguments).wv
    return words.index_to_key, words.vectors


def stopping_after(sentences):
    def stop(done, _):
        if done > sentences:
            raise InterruptedError

    return stop


@pytest.fixture(scope="module")
def corpus(topics):
    return opened(topics)


@needs_gensim
@both
def test_words_that_share_sentences_are_near_one_another(corpus, subwords, tmp_path):
    config = Word2VecConfig(**SMALL, subwords=100 * subwords)
    words, vectors = learn_vectors(corpus, config, tmp_path / "state")
    counts = count_words(corpus)
    assert set(words) == {word for word, count in counts.items() if count >= 2}
    assert [counts[word] for word in words] == sorted((counts[word] for word in words), reverse=True)
    assert vectors.shape == (len(words), 8)
    assert vectors.dtype == np.float32
    topics = np.array([word.split("-")[0] if "-" in word else "" for word in words])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = unit @ unit.T
    same = (topics[:, None] == topics) & (topics != "")[:, None] & ~np.eye(len(words), dtype=bool)
    other = (topics[:, None] != topics) & (topics != "")[:, None] & (topics != "")
    assert found[same].mean() > found[other].mean() + 0.2


@needs_gensim
@both
def test_one_worker_gives_the_same_vectors_again_and_the_seed_others(corpus, subwords, tmp_path):
    few = SMALL | {"epochs": 3, "subwords": subwords}
    words, vectors = learn_vectors(corpus, Word2VecConfig(**few), tmp_path / "state")
    script = (
        "import sys; from pathlib import Path; from structviews.corpus.parsed_corpus import ParsedCorpus\n"
        "from structviews.words.learning import *\n"
        f"learn_file(Path(sys.argv[2]), ParsedCorpus.open(sys.argv[1]), Word2VecConfig(**{few}))"
    )
    path = tmp_path / "v.bin"
    # Python's own hashes differ from process to process; the vectors must not.
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", script, corpus.path, path], check=True, env=environment)
    again = WordVectors.open(path)
    assert again.words.to_pylist() == words
    compare = np.testing.assert_allclose if subwords else np.testing.assert_array_equal
    compare(again.rows(np.arange(len(again))), vectors, **{"atol": 1e-7} if subwords else {})
    assert (again.sub_words is not None) == (subwords > 0)
    assert list(path.parent.glob(".*")) == []
    other_words, others = learn_vectors(corpus, Word2VecConfig(**few, seed=2), tmp_path / "state")
    assert other_words == words
    assert not np.allclose(others, vectors)


@needs_gensim
@pytest.mark.parametrize(("epoch", "subwords"), [(0, 0), (4, 50)])
def test_an_interrupted_run_goes_on_to_the_same_bytes(corpus, epoch, subwords, tmp_path):
    config, state = Word2VecConfig(**SMALL | {"epochs": 5, "subwords": subwords}), tmp_path / "state"
    words, whole = learn_vectors(corpus, config, state)
    state.unlink()

    with pytest.raises(InterruptedError):
        learn_vectors(corpus, config, state, stopping_after(epoch * len(corpus)))
    assert state.exists() == (epoch > 0)
    seen = []
    again_words, again = learn_vectors(corpus, config, state, lambda done, _: seen.append(done))
    assert again_words == words
    np.testing.assert_array_equal(again, whole)
    assert seen[0] == epoch * len(corpus) + corpus.shard_rows[0]
    # The vectors may still have to be saved.
    np.testing.assert_array_equal(learn_vectors(corpus, config, state, pytest.fail)[1], whole)


@needs_gensim
def test_a_state_of_something_else_is_not_gone_on_from(corpus, tmp_path):
    config, state = Word2VecConfig(**SMALL | {"epochs": 2}), tmp_path / "state"
    with pytest.raises(InterruptedError):
        learn_vectors(corpus, Word2VecConfig(**SMALL | {"epochs": 2, "seed": 9}), state, stopping_after(len(corpus)))
    _, expected = learn_vectors(corpus, config, tmp_path / "own")
    np.testing.assert_array_equal(learn_vectors(corpus, config, state)[1], expected)


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
def test_saved_vectors_come_back_to_the_bit(name, tmp_path):
    words = [f"w\N{BIRD}{i}" for i in range(30)]
    vectors = random_vectors(words) * np.float32(10.0) ** np.arange(-20, 20, 8, dtype=np.float32)
    save_vectors(tmp_path / name, words, vectors)
    again = WordVectors.open(tmp_path / name)
    assert again.words.to_pylist() == words
    np.testing.assert_array_equal(again.rows(np.arange(30)), vectors)
    assert (tmp_path / name).read_bytes().startswith(b"30 5\n")


@needs_gensim
def test_what_cannot_be_learnt(corpus, tmp_path, monkeypatch):
    most = max(count_words(corpus).values())
    with pytest.raises(InputError, match=rf"no word occurs {most + 1} times: use --min-count {most} or less"):
        learn_vectors(corpus, Word2VecConfig(min_count=most + 1), tmp_path / "state")
    with pytest.raises(InputError, match=r"subwords = 9 needs fastText's format: give a name that ends in \.bin"):
        learn_file(tmp_path / "v.bin.gz", corpus, Word2VecConfig(subwords=9))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("structviews.words.learning.available_bytes", lambda: 10**9)
    learn_model(corpus, Word2VecConfig(**SMALL | {"epochs": 1, "subwords": 10**6}), tmp_path / "state")
    with pytest.raises(InputError, match=r"needs about 3\.2 GB .* lower --dim or --subwords, or raise --min-count"):
        learn_model(corpus, Word2VecConfig(**SMALL | {"subwords": 10**8}), tmp_path / "state")


def test_without_gensim_it_says_what_to_install(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    with pytest.raises(InputError, match=r"pip install 'structviews\[vectors\]'"):
        learn_model(corpus, Word2VecConfig(), tmp_path / "state")
