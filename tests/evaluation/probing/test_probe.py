"""Probes: their classes against trees written by hand, and their scores on vectors of known content."""

import numpy as np
import pytest
from grammar import bracketed

from structviews.corpus.sentence import ParsedSentence
from structviews.demo.measure import (
    length_classes,
    probe,
    top_constituent_classes,
)
from structviews.errors import InputError


def words(n):
    return ParsedSentence(tuple("w" for _ in range(n)))


BIRD = bracketed("(S (NP (DT the) (NN bird)) (VP (VBD sat)) (. .))")
NOW = bracketed("(S (ADVP (RB Now)) (, ,) (NP (NP (PRP it))) (VP (VBD sat) (ADVP (RB down))) (. .))")
RUN = bracketed("(S (VP (VB Run) (NP (PRP it))))")
YES = bracketed("(INTJ (UH Yes))")


def test_length_classes_split_equally_and_in_order():
    lengths = np.random.default_rng(0).permutation(np.arange(3, 63))
    classes = length_classes([words(n) for n in lengths], bins=6)
    assert classes.tolist() == [(n - 3) // 10 for n in lengths]
    classes = length_classes([words(n) for n in [4] * 50 + [5] * 3 + [9] * 3], bins=6)
    assert classes.tolist() == [0] * 50 + [1] * 3 + [1] * 3  # equal lengths stay together


def test_top_constituent_classes_count_the_frequent_and_pool_the_rest():
    sentences = [RUN, BIRD, BIRD, NOW, BIRD, RUN, YES]
    assert top_constituent_classes(sentences, frequent=2).tolist() == [1, 0, 0, 2, 0, 1, 2]
    with pytest.raises(InputError, match="no constituency tree for 'w w'"):
        top_constituent_classes([BIRD, words(2)])


def labelled(rng, n=600, n_documents=40, n_classes=4):
    return rng.integers(n_classes, size=n), np.sort(rng.integers(n_documents, size=n))


def test_probe_reads_what_is_there():
    rng = np.random.default_rng(0)
    classes, documents = labelled(rng)
    vectors = np.eye(4)[classes] + 0.01 * rng.standard_normal((600, 4))
    found = probe(vectors, classes, documents)
    assert found.accuracy.value == 1
    assert found.accuracy.count == 600
    assert 0.25 < found.majority.value < 0.35


def test_probe_reads_nothing_from_noise():
    rng = np.random.default_rng(1)
    classes, documents = labelled(rng)
    found = probe(rng.standard_normal((600, 8)), classes, documents)
    assert found.accuracy.low <= 0.25 <= found.accuracy.high


def test_probe_never_trains_on_the_documents_it_is_tested_on():
    """The vector names the document and the class goes with the document: only a leak could find it."""
    rng = np.random.default_rng(2)
    documents = np.sort(rng.integers(40, size=800))
    class_of = rng.permutation(np.arange(40) % 2)
    found = probe(np.eye(40)[documents], class_of[documents], documents)
    assert found.accuracy.value < 0.75


def test_probe_refuses_what_it_cannot_use():
    rng = np.random.default_rng(4)
    classes, documents = labelled(rng)
    vectors = rng.standard_normal((600, 3))
    with pytest.raises(InputError, match="3 documents are too few for 5 folds"):
        probe(vectors, classes, documents % 3)
    with pytest.raises(InputError, match="same class"):
        probe(vectors, np.zeros(600, int), documents)
    vectors[5, 1] = np.inf
    with pytest.raises(InputError, match="NaN or infinite"):
        probe(vectors, classes, documents)
