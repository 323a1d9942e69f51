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


def hashed(value):
    """As datasets names its caches, where it is installed."""
    try:
        from datasets.fingerprint import Hasher
    except ImportError:
        return pickle.dumps(value)
    return Hasher.hash(value)


@pytest.fixture
def embedder(embedder_of_each_kind):
    return embedder_of_each_kind


@pytest.fixture
def runs(runs_of_all_kinds):
    return runs_of_all_kinds


@pytest.mark.filterwarnings("ignore:these sentences were parsed with")
def test_an_embedder_is_the_same_after_use(embedder):
    before, fresh = hashed(embedder), pickle.loads(pickle.dumps(embedder))
    vectors = embedder.encode(TEXTS)
    assert hashed(embedder) == before
    for again in (fresh, pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)):
        np.testing.assert_array_equal(again.encode(TEXTS), vectors)
    assert hashed(embedder.with_limit(max_tokens=7)) != before


@pytest.mark.filterwarnings("ignore:these sentences were parsed with")
def test_a_module_is_the_same_after_use(embedder):
    module = SentenceEncoder(embedder, trainable=False)
    before = hashed(module)
    vectors = module(TEXTS)
    assert hashed(module) == before
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        np.testing.assert_array_equal(again(TEXTS), vectors)


@pytest.mark.filterwarnings("ignore:these sentences were parsed with")
@pytest.mark.parametrize("make", [BuiltinParser.read, lambda: specification.load("builtin"), RandomParser])
def test_a_parser_that_was_given_goes_along(runs, make):
    embedder = Embedder.load(runs["trees"], make())
    pickled = [pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)]
    vectors = embedder.encode(TEXTS)
    for again in (*pickled, pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)):
        assert type(again.preparer._parser) is type(embedder.preparer._parser)
        np.testing.assert_array_equal(again.encode(TEXTS), vectors)


def test_the_built_in_parser_is_the_same_after_use():
    parser = BuiltinParser.read()
    before = hashed(parser)
    trees = parser.parse(TEXTS)
    assert hashed(parser) == before
    for again in (pickle.loads(pickle.dumps(parser)), copy.deepcopy(parser)):
        assert again.parse(TEXTS) == trees
        assert again.describe() == parser.describe()


def test_word_vectors_are_opened_again(runs, tmp_path, monkeypatch):
    words = ["a", "b"]
    write_vectors(tmp_path / "v.vec", words, random_vectors(words, 5000))
    monkeypatch.chdir(tmp_path)
    vectors = WordVectors.open("v.vec")
    pickled = pickle.dumps(vectors)
    assert len(pickled) < 500
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(pickled).rows(np.array([1, 0])), vectors.rows(np.array([1, 0])))


def test_datasets_find_what_they_have_mapped(runs, tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs datasets, which mteb brings")
    embedder = Embedder.load("default")
    calls = tmp_path / "calls"

    def encode(rows):
        with calls.open("a") as file:
            file.write("x")
        return {"vectors": embedder.encode(rows["text"])}

    texts = [" ".join(words) for words in TEXTS]
    datasets.Dataset.from_dict({"text": texts}).to_json(tmp_path / "texts.jsonl")
    data = datasets.load_dataset("json", data_files=str(tmp_path / "texts.jsonl"), cache_dir=str(tmp_path))["train"]
    for _ in range(2):
        found = data.map(encode, batched=True)
        np.testing.assert_array_equal(np.array(found["vectors"], np.float32), embedder.encode(texts))
    assert calls.read_text() == "x"
    two = data.map(encode, batched=True, num_proc=2)
    np.testing.assert_allclose(np.array(two["vectors"], np.float32), embedder.encode(texts), atol=1e-5)
