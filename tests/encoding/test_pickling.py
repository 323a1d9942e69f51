"""Everything that encodes can be pickled, copied and hashed, after use as before it."""

import copy
import pickle

import numpy as np
import pytest
from corpora import RandomParser
from kinds_of_runs import TEXTS
from vector_files import random_vectors, write_vectors

from structviews import SentenceEncoder
from structviews.encoding.embedder import Embedder
from structviews.parsing import specification
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.words.vector_files import WordVectors

pytestmark = pytest.mark.filterwarnings("ignore:these sentences were parsed with")


def hashed(value):
    """As datasets names its caches, where it is installed."""
    try:
        from datasets.fingerprint import Hasher
    except ImportError:
        return pickle.dumps(value)
    return Hasher.hash(value)


def test_an_embedder_is_the_same_after_use(embedder):
    before, fresh = hashed(embedder), pickle.loads(pickle.dumps(embedder))
    vectors = embedder.encode(TEXTS)
    assert hashed(embedder) == before
    for again in (fresh, pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)):
        np.testing.assert_array_equal(again.encode(TEXTS), vectors)
    assert hashed(embedder.with_limit(max_tokens=7)) != before


@pytest.mark.parametrize("embedder", ["trees", "expanded", "joined"], indirect=True)
def test_a_module_is_the_same_after_use(embedder):
    module = SentenceEncoder(embedder, trainable=False)
    before = hashed(module)
    vectors = module(TEXTS)
    assert hashed(module) == before
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        np.testing.assert_array_equal(again(TEXTS), vectors)


@pytest.mark.parametrize("make", [BuiltinParser.read, lambda: specification.load("builtin"), RandomParser])
def test_a_parser_that_was_given_goes_along(runs_of_all_kinds, make):
    embedder = Embedder.load(runs_of_all_kinds["trees"], make())
    pickled = [pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)]
    vectors = embedder.encode(TEXTS)
    for again in (*pickled, pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)):
        assert type(again.preparer._parser) is type(embedder.preparer._parser)
        np.testing.assert_array_equal(again.encode(TEXTS), vectors)


def test_word_vectors_are_opened_again(tmp_path, monkeypatch):
    words = ["a", "b"]
    write_vectors(tmp_path / "v.vec", words, random_vectors(words, 5000))
    monkeypatch.chdir(tmp_path)
    vectors = WordVectors.open("v.vec")
    pickled = pickle.dumps(vectors)
    assert len(pickled) < 500
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(pickled).rows(np.array([1, 0])), vectors.rows(np.array([1, 0])))
