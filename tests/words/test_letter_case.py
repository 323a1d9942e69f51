"""Words are looked up in lower case where a vector file has no capitals, and only there."""

from dataclasses import replace

import numpy as np
import pytest
from corpora import opened, random_trees, small_config, topic_rows, write_corpus
from packed_runs import pack
from rich.console import Console
from vector_files import fasttext_model, random_vectors, write_vectors

from structviews.corpus.format import Row
from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.runs.settings_file import load_run
from structviews.runs.weights import load_words
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.words.learning import learn_file
from structviews.words.vector_files import WordVectors
from structviews.words.word_settings import Word2VecConfig

DIM = 6
PLAIN = [row.sentence.tokens for row in topic_rows()]
# As PLAIN, with a capital at the beginning of each sentence.
CAPITALS = [(words[0].title(), *words[1:]) for words in PLAIN]
KNOWN = sorted({word for words in PLAIN for word in words})[::2]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rows = [Row(i // 8, i % 8, i + 1, random_trees(words)) for i, words in enumerate(CAPITALS)]
    return write_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed", rows)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """fastText's vectors of half of the words, in lower case, and of n-grams."""
    path = tmp_path_factory.mktemp("vectors") / "x.bin"
    path.write_bytes(fasttext_model(KNOWN, random_vectors(range(len(KNOWN) + 50), DIM)))
    return path


@pytest.fixture(scope="module")
def run(corpus, file):
    config = small_config(corpus, corpus.parent / "run", channels=("fixed",), vectors=str(file), epochs=1)
    return train(config)


def trees(words):
    """One sentence, with the trees of its lower-cased words."""
    words = tuple(words)
    return replace(random_trees([word.lower() for word in words]), tokens=words)


def test_a_file_without_capitals_is_looked_up_in_lower_case(file):
    vectors = WordVectors.open(file)
    assert vectors.uncased
    for words in (KNOWN[:3], ["strange", "words"]):
        known, rows = vectors.read([word.upper() for word in words])
        assert known.all()
        np.testing.assert_array_equal(rows, vectors.read(words)[1])
    assert vectors.find([KNOWN[2].title(), "Strange"]).tolist() == [2, -1]


def test_one_capital_is_enough_to_look_words_up_as_they_are(tmp_path):
    vectors = WordVectors.open(write_vectors(tmp_path / "x.vec", ["the", "of", "Of"]))
    assert not vectors.uncased
    assert vectors.find(["The", "the", "Of", "OF"]).tolist() == [-1, 0, 2, -1]
    # Arrow's own lower case changes this letter, which Python's does not.
    assert WordVectors.open(write_vectors(tmp_path / "y.vec", ["the", "\uab6c"])).uncased


@pytest.mark.parametrize("how", ["trained", "packed"])
def test_a_run_encodes_capitals_as_lower_case(run, how, tmp_path):
    if how == "packed":
        pack(run, tmp_path / "packed", 5)
        run = tmp_path / "packed"
    assert load_run(run)[1].vectors["uncased"]
    embedder = Embedder.load(run)
    words = [KNOWN[0], "Unheard", KNOWN[-1], "of"]
    plain, title, upper = embedder.encode([trees(f(w) for w in words) for f in (str.lower, str.title, str.upper)])
    np.testing.assert_allclose(title, plain, atol=1e-6)
    np.testing.assert_allclose(upper, plain, atol=1e-6)
    other = embedder.encode([trees([KNOWN[0], "Unseen", KNOWN[-1], "of"])])[0]
    assert np.abs(plain - other).max() > 1e-4


def test_baselines_and_expanded_runs_look_words_up_in_any_case(corpus, file, tmp_path):
    sif = make_baseline("sif", corpus, tmp_path / "sif", file, None, Console(quiet=True))
    plain, upper = (Embedder.load(sif).encode([trees(f(w) for w in PLAIN[0])]) for f in (str.lower, str.upper))
    np.testing.assert_array_equal(plain, upper)
    run = train(small_config(corpus, tmp_path / "run", ("avg", "seq"), epochs=1))
    own = set(load_words(run, "trained").words)
    found = [word for word in KNOWN if word in own or word.title() in own]
    assert expand(run, file).n_new == len(KNOWN) - len(found)


def test_vectors_are_learnt_of_lower_cased_words(corpus, tmp_path):
    pytest.importorskip("gensim")
    config = Word2VecConfig(dim=4, min_count=1, epochs=1, lower_case=True)
    learn_file(tmp_path / "x.vec", opened(corpus), config)
    vectors = WordVectors.open(tmp_path / "x.vec")
    assert sorted(vectors.words.to_pylist()) == sorted({word for words in PLAIN for word in words})
