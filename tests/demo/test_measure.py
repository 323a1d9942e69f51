"""The demo's measures, probes and table, with vectors made for the purpose and trees written by hand."""

import io

import numpy as np
import pytest
from rich.console import Console

from structviews.corpus.sentence import ParsedSentence
from structviews.demo.measure import Yardstick, probe, random_bag, result_table
from structviews.evaluation.retrieval.next_sentence import Passages


def right_branching(rng, n, label):
    """A sentence of ``n`` words under one clause whose children are the words, tagged by ``label``."""
    left = [n - 2, *range(n - 3, -1, -1)]
    right = [n - 1, *range(n, 2 * n - 2)]
    words = tuple(str(word) for word in rng.integers(5_000, size=n))
    tags = ("DT", "NN")[label : label + 1] * n
    return ParsedSentence(words, tags=tags, left=tuple(left), right=tuple(right), labels=("",) * (2 * n - 2) + ("S",))


@pytest.fixture(scope="module")
def yardstick():
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(20), 15)
    positions = np.tile(np.arange(15), 20)
    sentences = [right_branching(rng, rng.integers(3, 9), rng.integers(2)) for _ in range(300)]
    return Yardstick(Passages(sentences, documents, positions, "all"))


def test_views_that_know_everything_score_everything(yardstick):
    n = len(yardstick.passages.sentences)
    # A row says which sentence it is and, but at the end of a document, which comes next.
    successors = np.eye(n) + np.eye(n, k=1) * (yardstick.passages.positions < 14)[:, None]
    classes = np.eye(6)[yardstick.length_classes], np.eye(10)[yardstick.constituent_classes]
    vectors = np.concatenate([*classes, 1000 * successors], axis=1)
    row = yardstick.measure("dep,const", vectors)
    assert (row.name, row.across, row.joined.value, row.joined.count) == ("dep,const", None, 1, 20 * 14)
    assert min(row.length.accuracy.value, row.constituents.accuracy.value) > 0.9


def test_one_view_finds_the_next_sentence_in_the_other(yardstick):
    """The second view of a sentence says what stands beside it, which is found by the first view of that alone."""
    n = len(yardstick.passages.sentences)
    itself, after = np.eye(n), np.eye(n, k=1) * (yardstick.passages.positions < 14)[:, None]
    row = yardstick.measure("", itself, after + after.T)
    assert (row.across.value, row.across.count) == (1, 20 * 14)
    assert yardstick.measure("", itself, itself).across.value == pytest.approx(0.01)


def test_an_untrained_bag_is_in_the_table_and_finds_no_neighbours_of_random_words(yardstick):
    row = yardstick.measure("untrained", random_bag([sentence.tokens for sentence in yardstick.passages.sentences], 8))
    assert row.joined.low <= 0.01 <= row.joined.high
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(result_table([row]))
    text = console.export_text()
    half = 50 * (row.joined.high - row.joined.low)
    for shown in (row.name, "n = 280", "n = 300", f"{100 * row.joined.value:.1f} ±{half:4.1f}"):
        assert shown in text
    (chance,) = [line for line in text.splitlines() if "chance " in line]
    assert " 1.0 " in chance
    assert f" {100 * row.constituents.majority.value:.1f} ±" in chance


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def labelled(rng, n=600, n_documents=40, n_classes=4):
    return rng.integers(n_classes, size=n), np.sort(rng.integers(n_documents, size=n))


def test_probe_reads_what_is_there_and_nothing_from_noise(rng):
    classes, documents = labelled(rng)
    found = probe(np.eye(4)[classes] + 0.01 * rng.standard_normal((600, 4)), classes, documents)
    assert (found.accuracy.value, found.accuracy.count) == (1, 600)
    assert 0.25 < found.majority.value < 0.35
    found = probe(rng.standard_normal((600, 8)), classes, documents)
    assert found.accuracy.low <= 0.25 <= found.accuracy.high


def test_probe_never_trains_on_the_documents_it_is_tested_on(rng):
    """The vector names the document and the class goes with the document: only a leak could find it."""
    documents = np.sort(rng.integers(40, size=800))
    class_of = rng.permutation(np.arange(40) % 2)
    found = probe(np.eye(40)[documents], class_of[documents], documents)
    assert found.accuracy.value < 0.75
