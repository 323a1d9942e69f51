"""Probes: their classes against trees written by hand, and their scores on vectors of known content."""

import numpy as np
import pytest

from structviews.errors import InputError
from structviews.evaluation.probing import length_classes, probe, top_constituent_classes, top_constituents
from structviews.sentence import ParsedSentence


def words(n):
    return ParsedSentence(tuple("w" for _ in range(n)))


def test_length_classes_split_equally_and_in_order():
    lengths = np.random.default_rng(0).permutation(np.arange(3, 63))
    classes = length_classes([words(n) for n in lengths], bins=6)
    assert classes.tolist() == [(n - 3) // 10 for n in lengths]


def test_length_classes_never_part_equal_lengths():
    classes = length_classes([words(n) for n in [4] * 50 + [5] * 3 + [9] * 3], bins=6)
    assert classes.tolist() == [0] * 50 + [1] * 3 + [1] * 3


# (S (NP the bird) (VP sat) (. .)), left-factored: (S (· (NP the bird) (VP sat)) .)
BIRD = ParsedSentence(
    ("the", "bird", "sat", "."),
    tags=("DT", "NN", "VBD", "."),
    left=(0, 4, 5),
    right=(1, 2, 3),
    labels=("", "", "VP", "", "NP", "", "S"),
)
# (S (ADVP Now) (, ,) (NP (NP it)) (VP sat (ADVP down)) (. .)): a chain on a child counts by its top.
NOW = ParsedSentence(
    ("Now", ",", "it", "sat", "down", "."),
    tags=("RB", ",", "PRP", "VBD", "RB", "."),
    left=(0, 6, 3, 7, 9),
    right=(1, 2, 4, 8, 5),
    labels=("ADVP", "", "NP+NP", "", "ADVP", "", "", "", "VP", "", "S"),
)
CHAIN = ParsedSentence(
    ("Run", "it"),
    tags=("VB", "PRP"),
    left=(0,),
    right=(1,),
    labels=("", "NP", "S+VP"),
    heads=(0, 1),
    relations=("r", "o"),
)
NO_TAGS = ParsedSentence(("Run", "!"), left=(0,), right=(1,), labels=("VP", "", "S"))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (BIRD, ("NP", "VP", ".")),
        (NOW, ("ADVP", ",", "NP", "VP", ".")),
        (CHAIN, ("VP",)),
        (NO_TAGS, ("VP", "!")),
        (ParsedSentence(("Yes",), tags=("UH",), labels=("INTJ",)), ("UH",)),
        (ParsedSentence(("Yes",), tags=("UH",), labels=("FRAG+INTJ",)), ("INTJ",)),
        (ParsedSentence(("Yes",), tags=("UH",), labels=("",)), ("UH",)),
    ],
)
def test_top_constituents(sentence, expected):
    assert top_constituents(sentence) == expected


def test_top_constituents_need_a_tree():
    with pytest.raises(InputError, match="no constituency tree for 'w w'"):
        top_constituents(words(2))


def test_top_constituent_classes_count_the_frequent_and_pool_the_rest():
    sentences = [CHAIN, BIRD, BIRD, NOW, BIRD, CHAIN, NO_TAGS]
    assert top_constituent_classes(sentences, frequent=2).tolist() == [1, 0, 0, 2, 0, 1, 2]


def labelled(rng, n=600, n_documents=40, n_classes=4):
    return rng.integers(n_classes, size=n), np.sort(rng.integers(n_documents, size=n))


def test_probe_reads_what_is_there():
    rng = np.random.default_rng(0)
    classes, documents = labelled(rng)
    vectors = np.eye(4)[classes] + 0.01 * rng.standard_normal((600, 4))
    found = probe(vectors, classes, documents)
    assert found.accuracy.value == 1
    assert found.accuracy.count == 600
    assert found.majority.value < 0.35


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


def test_majority_is_what_plain_loops_count():
    from sklearn.model_selection import GroupKFold

    rng = np.random.default_rng(3)
    documents = np.sort(rng.integers(30, size=500))
    classes = (rng.random(500) < rng.random(30)[documents]).astype(int)
    right = 0
    for train, test in GroupKFold(5).split(classes, groups=documents):
        answers = classes[train].tolist()
        most = max(set(answers), key=answers.count)
        right += sum(classes[i] == most for i in test)
    assert probe(rng.standard_normal((500, 3)), classes, documents).majority.value == pytest.approx(right / 500)


def test_probe_refuses_what_it_cannot_use():
    rng = np.random.default_rng(4)
    classes, documents = labelled(rng)
    vectors = rng.standard_normal((600, 3))
    with pytest.raises(InputError, match="3 documents are too few for 5 folds"):
        probe(vectors, classes, documents % 3)
    with pytest.raises(InputError, match="one class"):
        probe(vectors, np.zeros(600, int), documents)
    vectors[5, 1] = np.inf
    with pytest.raises(InputError, match="not finite"):
        probe(vectors, classes, documents)
