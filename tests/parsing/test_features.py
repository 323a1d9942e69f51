import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structviews.parsing.features import SPECIALS, UNKNOWN, Featuriser, normalise, shape

WORDS = ["the", "bird", "0000", "don't"]


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("Bird", "bird"),
        ("1984", "0000"),
        ("3.5%", "0.0%"),
        ("٣", "0"),
        ("-LRB-", "("),
        ("-rsb-", "]"),
        ("``", '"'),
        ("''", '"'),
        ("“", '"'),
        ("‘", "'"),
        ("`", "'"),
        ("Don’t", "don't"),
        ("ÉTÉ", "été"),
    ],
)
def test_normalise(word, form):
    assert normalise(word) == form


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("bird", "x"),
        ("Bird", "Xx"),
        ("NASA", "X"),
        ("McDonald", "XxXx"),
        ("Word-9s", "Xx-dx"),
        ("1,000", "d,d"),
        ("...", "."),
        ("Don’t", "Xx'x"),
        ("😀😀", "😀"),
        ("", ""),
    ],
)
def test_shape(word, expected):
    assert shape(word) == expected


@pytest.mark.parametrize(
    ("word", "row"),
    [
        ("bird", (3, 3037, 1392, 3374, 2324, 2768, 1327)),
        ("Bird", (3, 3037, 1392, 3374, 2324, 2768, 3112)),
        ("1984", (4, 3781, 3279, 932, 33, 1324, 512)),
        ("Don’t", (5, 136, 1963, 1691, 676, 3421, 605)),
        ("naïve", (1, 2902, 1281, 988, 3088, 2851, 1327)),
        ("😀", (1, 3434, 3434, 2458, 2458, 2458, 619)),
    ],
)
def test_rows_stay_as_the_shipped_weights_were_trained(word, row):
    assert Featuriser(WORDS, 4000).row(word) == row


def test_ids_start_after_the_special_ones():
    featuriser = Featuriser(WORDS, 10)
    assert featuriser(["the", "don't", "unseen"])[:, 0].tolist() == [SPECIALS, SPECIALS + 3, UNKNOWN]


@given(st.lists(st.text()))
def test_remembered_rows_are_the_computed_ones(words):
    featuriser = Featuriser(WORDS, 50)
    first = featuriser(words)
    assert first.dtype == np.int32
    assert first.shape == (len(words), 7)
    assert (first >= 0).all()
    assert (first[:, 1:] < 50).all()
    np.testing.assert_array_equal(featuriser(words), first)
    for word, row in zip(words, first.tolist(), strict=True):
        assert tuple(row) == Featuriser(WORDS, 50).row(word)


def test_case_is_kept_apart_in_memory():
    featuriser = Featuriser(WORDS, 4000)
    words = ["Bird", "bird", "BIRD"]
    assert [len({row[-1] for row in map(featuriser.row, order)}) for order in (words, words[::-1])] == [3, 3]
    assert featuriser.row("bird") == Featuriser(WORDS, 4000).row("bird")


def test_a_lone_surrogate_has_a_row():
    assert Featuriser(WORDS, 50).row("a\ud800")[0] == UNKNOWN
