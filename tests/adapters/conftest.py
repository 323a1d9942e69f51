"""A run whose vectors for similarity tasks are not those for the others."""

import pytest
from corpora import RandomParser, small_config, tiny_corpus

from structviews.encoding.embedder import Embedder
from structviews.training.loop import train


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    corpus = tiny_corpus(folder / "x.parsed")
    return train(small_config(corpus, folder / "dep-const", epochs=1, similarity_pooling="mean"))


@pytest.fixture
def embedder(run):
    return Embedder.load(run, RandomParser())
