"""A teacher's words: as reduced and weighted by hand, in both formats, with n-grams fitted to them."""

import numpy as np
import pytest
from corpora import opened, topic_corpus
from tiny_encoders import published_model

from structviews.pretrained.sentence_models import Teacher
from structviews.pretrained.teacher_words import RIDGE, fit_ngrams, principal, take_file
from structviews.words.sub_words import SubWords, hashed_ngrams
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import count_words
from structviews.words.word_settings import Word2VecConfig

pytest.importorskip("gensim", reason="needs structviews[vectors]")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    topic_corpus(folder / "x.parsed", documents=8)
    published_model(folder)
    return folder


def by_hand(teacher, counts, words, dim):
    """The vectors from the docstring's sentence; their signs, by dimension, are free."""
    vectors = np.stack([teacher.states([[word]])[0].numpy() for word in words]).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    shares = np.array([counts[word] / counts.total() for word in words])
    return (1e-3 / (1e-3 + shares))[:, None] * (centred @ directions[:dim].T)


@pytest.mark.parametrize(("name", "subwords"), [("words.vec", 0), ("words.bin", 0), ("words.bin", 50)])
def test_a_file_has_the_teachers_words(place, tmp_path, name, subwords):
    corpus, teacher = opened(place / "x.parsed"), Teacher.open(str(place / "tiny"))
    config = Word2VecConfig(dim=6, min_count=3, subwords=subwords, lower_case=True)
    steps = []
    count = take_file(tmp_path / name, corpus, config, teacher, lambda done, total: steps.append((done, total)))
    counts = count_words(corpus, uncased=True)
    vectors = WordVectors.open(tmp_path / name)
    words = vectors.words.to_pylist()
    assert sorted(words) == sorted(word for word, n in counts.items() if n >= 3)
    assert (len(words), steps[-1]) == (count, (count, count))
    found, expected = vectors.read(words)[1], by_hand(teacher, counts, words, 6)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=2e-5)
    has_vector, _ = vectors.read(["topicless"])
    assert has_vector.tolist() == [bool(subwords)]


def test_ngrams_are_those_of_ridge_regression():
    words = ["abcd", "bcde", "cdef", "abc", "xyz", "wxyz"]
    vectors = principal(np.random.default_rng(0).standard_normal((6, 5)), 3)
    sub_words = SubWords(np.ones((8, 3), np.float32), None, 3, 4)
    fit_ngrams(sub_words, words, vectors)
    means = np.zeros((len(words), 8))
    for row, word in zip(means, words, strict=True):
        hashes, _ = hashed_ngrams([word.encode()], 3, 4)
        for number in hashes % 8:
            row[number] += 1 / len(hashes)
    exact = np.linalg.solve(means.T @ means + RIDGE * np.eye(8), means.T @ vectors)
    np.testing.assert_allclose(sub_words.rows, exact, atol=1e-4)


def test_the_command_and_what_it_refuses(place, command, monkeypatch):
    corpus, teacher = place / "x.parsed", place / "tiny"
    code, output, errors = command("vectors", corpus, "-o", "t.vec", "--teacher", teacher, "--dim", 6, "--min-count", 3)
    assert code == 0, errors
    assert output.startswith("t.vec: 36 words, 6 dimensions\n")
    code, _, errors = command("vectors", corpus, "-o", "u.vec", "--teacher", teacher)
    assert (code, errors.splitlines()[-1]) == (
        2, f"error: dim = 300: more than the 32 dimensions of {teacher}: lower --dim"
    )  # fmt: skip
    code, _, errors = command("vectors", corpus, "-o", "u.vec", "--teacher", teacher, "--epochs", 3)
    assert (code, errors) == (
        2, "error: --teacher takes no --epochs, as nothing is trained: leave one of them out\n"
    )  # fmt: skip
