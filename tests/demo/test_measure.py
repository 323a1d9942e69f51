"""The demo's measures and table, with vectors made for the purpose."""

import io

import numpy as np
import pytest
from rich.console import Console

from structviews.corpus.sentence import ParsedSentence
from structviews.demo.measure import Yardstick, random_bag, result_table


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
    return Yardstick(sentences, documents, positions)


def test_views_that_know_everything_score_everything(yardstick):
    n = len(yardstick.sentences)
    # A row says which sentence it is and, but at the end of a document, which comes next.
    successors = np.eye(n) + np.eye(n, k=1) * (yardstick.positions < 14)[:, None]
    vectors = np.concatenate(
        [np.eye(6)[yardstick.length_classes], np.eye(10)[yardstick.constituent_classes], 1000 * successors], axis=1
    )
    row = yardstick.measure("dep,const", vectors)
    assert (row.name, row.dim) == ("dep,const", n + 16)
    assert row.recall.value == 1
    assert row.recall.count == 20 * 14
    assert row.length.accuracy.value > 0.9
    assert row.constituents.accuracy.value > 0.9


def test_an_untrained_bag_finds_no_neighbours_of_random_words(yardstick):
    row = yardstick.measure_untrained(32)
    assert row.name == "untrained bag of words"
    assert row.dim == 32
    assert row.recall.low <= 0.01 <= row.recall.high


def test_random_bag_is_the_mean_of_a_vector_per_word():
    texts = [("a", "b", "a"), ("b",), ("c", "a")]
    bags = random_bag(texts, 4, seed=1)
    a_b_a, b, c_a = bags
    a = (3 * a_b_a - b) / 2
    assert np.allclose(2 * c_a - a, np.random.default_rng(1).standard_normal((3, 4), dtype=np.float32)[2], atol=1e-5)
    assert not np.allclose(a, b)
    assert np.array_equal(bags, random_bag(texts, 4, seed=1))


def test_table_shows_counts_intervals_and_chance(yardstick):
    rows = [yardstick.measure_untrained(8), yardstick.measure_untrained(16)]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(result_table(rows))
    text = console.export_text()
    assert text.count("untrained bag of words") == 2
    assert "n = 280" in text
    assert text.count("n = 300") == 2
    for row in rows:
        assert str(row.recall) in text
        assert str(row.length.accuracy) in text
    (chance,) = [line for line in text.splitlines() if "chance " in line]
    assert " 1.0 " in chance
    assert str(rows[0].constituents.majority) in chance
