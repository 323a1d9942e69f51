import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from corpora import opened, tiny_corpus, topic_corpus
from vector_files import random_vectors

from structviews.errors import InputError
from structviews.vocabulary import count_words
from structviews.word2vec import Word2VecConfig, _Sentences, learn_vectors
from structviews.word_vectors import WordVectors, save_vectors

needs_gensim = pytest.mark.skipif(find_spec("gensim") is None, reason="needs structviews[vectors]")
SMALL = {"dim": 8, "min_count": 2, "epochs": 300}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return opened(topic_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed"))


@pytest.mark.parametrize("make", [tiny_corpus, topic_corpus])
def test_sentences_are_those_of_the_corpus_as_often_as_they_are_read(make, tmp_path):
    corpus = opened(make(tmp_path / "x.parsed"))
    expected = [list(row.sentence.tokens) for row in corpus]
    seen = []
    sentences = _Sentences(corpus, 2, lambda done, total: seen.append((done, total)))
    assert list(sentences) == list(sentences) == expected
    assert len(seen) == 2 * corpus.n_shards
    assert seen == sorted(seen)
    assert seen[-1] == (2 * len(corpus), 2 * len(corpus))


@needs_gensim
def test_words_that_share_sentences_are_near_one_another(corpus):
    words, vectors = learn_vectors(corpus, Word2VecConfig(**SMALL))
    counts = count_words(corpus)
    assert set(words) == {word for word, count in counts.items() if count >= 2}
    assert [counts[word] for word in words] == sorted((counts[word] for word in words), reverse=True)
    assert vectors.shape == (len(words), 8)
    assert vectors.dtype == np.float32
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    topics = np.array([word.split("-")[0] if "-" in word else "" for word in words])
    cosines = unit @ unit.T
    same = (topics[:, None] == topics) & (topics != "")[:, None] & ~np.eye(len(words), dtype=bool)
    other = (topics[:, None] != topics) & (topics != "")[:, None] & (topics != "")
    assert cosines[same].mean() > cosines[other].mean() + 0.2


@needs_gensim
def test_one_worker_gives_the_same_vectors_again_and_the_seed_others(corpus, tmp_path):
    words, vectors = learn_vectors(corpus, Word2VecConfig(**SMALL))
    script = (
        "import sys; from pathlib import Path; from structviews.cache import ParsedCorpus\n"
        "from structviews.word2vec import *; from structviews.word_vectors import save_vectors\n"
        f"save_vectors(Path(sys.argv[2]), *learn_vectors(ParsedCorpus.open(sys.argv[1]), Word2VecConfig(**{SMALL})))"
    )
    path = tmp_path / "v.bin"
    # Python's own hashes differ from process to process; the vectors must not.
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", script, corpus.path, path], check=True, env=environment)
    again = WordVectors.open(path)
    assert again.words.to_pylist() == words
    np.testing.assert_array_equal(again.rows(np.arange(len(again))), vectors)
    other_words, others = learn_vectors(corpus, Word2VecConfig(**SMALL, seed=2))
    assert other_words == words
    assert not np.allclose(others, vectors)


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
def test_saved_vectors_come_back_to_the_bit(name, tmp_path, monkeypatch):
    monkeypatch.setattr("structviews.word_vectors.LINES_AT_ONCE", 7)
    words = [f"w\N{BIRD}{i}" for i in range(30)]
    vectors = random_vectors(words) * np.float32(10.0) ** np.arange(-20, 20, 8, dtype=np.float32)
    save_vectors(tmp_path / name, words, vectors)
    again = WordVectors.open(tmp_path / name)
    assert again.words.to_pylist() == words
    np.testing.assert_array_equal(again.rows(np.arange(30)), vectors)
    assert (tmp_path / name).read_bytes().startswith(b"30 5\n")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({name: 0}, f"{name} = 0: give at least 1") for name in ("dim", "window", "min_count", "epochs", "workers")),
        ({"negative": -1}, "negative = -1: give at least 1"),
        ({"seed": -1}, "seed = -1: give at least 0"),
    ],
)
def test_settings_that_do_not_do(settings, message):
    with pytest.raises(InputError, match=message):
        Word2VecConfig(**settings)


@needs_gensim
def test_words_that_are_all_too_rare(corpus):
    most = max(count_words(corpus).values())
    with pytest.raises(InputError, match=rf"no word occurs {most + 1} times: give at most --min-count {most}"):
        learn_vectors(corpus, Word2VecConfig(min_count=most + 1))


def test_without_gensim_it_says_what_to_install(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(InputError, match=r"pip install 'structviews\[vectors\]'"):
        learn_vectors(corpus, Word2VecConfig())
