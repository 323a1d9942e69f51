"""A small corpus in a folder that must not be named to others, and vectors of its words."""

import pytest
from corpora import opened, tiny_corpus
from vector_files import random_vectors, write_vectors

from structviews.words.vocabulary import count_words


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("private") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus):
    words = sorted(count_words(opened(corpus)))
    return write_vectors(corpus.parent / "v.vec", words, random_vectors(words, 6))
