"""A small corpus in a folder that must not be named to others, and vectors of its words."""

import pytest
from corpora import tiny_corpus, vectors_of


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("private") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus):
    return vectors_of(corpus, corpus.parent / "v.vec")
