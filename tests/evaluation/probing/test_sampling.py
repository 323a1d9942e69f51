"""Sampling: parts that share nothing, classes that are balanced, and no more than was asked for."""

from collections import Counter

import numpy as np
import pytest

from structviews.evaluation.probing.sampling import (
    PARTS,
    SHARES,
    balance,
    correlation,
    deal_documents,
    deal_words,
    decorrelate,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_documents_are_dealt_whole_and_by_share(rng):
    documents = np.repeat(np.arange(300), rng.integers(1, 30, size=300))
    parts = deal_documents(documents, rng)
    assert all(len(set(parts[documents == d])) == 1 for d in range(300))
    assert np.bincount(parts) / len(parts) == pytest.approx(SHARES, abs=0.02)


def test_no_word_is_a_target_in_two_parts(rng):
    words, parts = rng.zipf(1.5, size=5000) % 900, rng.choice(3, p=SHARES, size=5000)
    kept = deal_words(words, parts, rng)
    homes = {(word, part) for word, part in zip(words[kept].tolist(), parts[kept].tolist(), strict=True)}
    assert len(homes) == len(np.unique(words))
    assert len({part for _, part in homes}) == len(PARTS)


def test_a_word_goes_where_it_is_most_frequent(rng):
    words, parts = np.array([7] * 6 + [8] * 9 + [9] * 85), np.array([1] * 2 + [0] * 4 + [2] * 3 + [0] * 91)
    assert deal_words(words, parts, rng).tolist() == [True] * 2 + [False] * 4 + [True] * 3 + [False] * 6 + [True] * 85


def cells_of(taken, *columns):
    return Counter(zip(*(column[taken].tolist() for column in columns), strict=True))


def test_classes_are_balanced_in_every_part_and_stratum(rng):
    parts, strata, classes = (
        rng.integers(-1, 3, 4000),
        rng.integers(5, size=4000),
        rng.choice(3, p=(0.6, 0.3, 0.1), size=4000),
    )
    taken = balance(classes, strata, parts, (10_000,) * 3, rng)
    counts, there = cells_of(taken, parts, strata, classes), cells_of(np.arange(4000), parts, strata, classes)
    assert len(set(taken.tolist())) == len(taken)
    for part in range(3):
        for stratum in range(5):
            least = min(there[part, stratum, c] for c in range(3))
            assert [counts[part, stratum, c] for c in range(3)] == [least] * 3
    assert np.all(np.diff(parts[taken]) >= 0)


def test_no_more_than_asked_for(rng):
    parts, strata, classes = rng.integers(3, size=4000), rng.integers(40, size=4000), rng.integers(2, size=4000)
    taken = balance(classes, strata, parts, (500, 50, 51), rng)
    assert np.bincount(parts[taken]).tolist() == [500, 50, 50]
    counts = cells_of(taken, parts, strata, classes)
    assert all(counts[part, stratum, 0] == counts[part, stratum, 1] for part, stratum, _ in counts)


def test_rows_and_columns_of_a_sample_do_not_correlate(rng):
    pairs = rng.multivariate_normal([15, 8], [[25, 7], [7, 4]], size=20_000).round().astype(int)
    available = np.zeros((40, 20), dtype=int)
    np.add.at(available, tuple(pairs.clip(0, (39, 19)).T), 1)
    taken = decorrelate(available, 10_000)
    assert correlation(available) > 0.6
    assert abs(correlation(taken)) <= 0.1
    assert (taken <= available).all()
    assert 300 < taken.sum() <= 10_000 + taken.size
