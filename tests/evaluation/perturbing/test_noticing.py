"""The measures against loops over sentences, with bags of words as the control."""

import numpy as np
import pytest
from scipy.spatial.distance import cosine

from structviews.evaluation.perturbing.noticing import (
    WHOLE,
    Moved,
    Sample,
    as_rich,
    examples,
    moved_by,
    notice,
    outcomes,
    rows_of_runs,
    with_contrasts,
)
from structviews.evaluation.perturbing.perturbations import KINDS
from structviews.evaluation.scores.intervals import holm, mean_difference, proportion
from structviews.runtime.terminal import Terminal

ORIGINALS = [("The", "dog", "bit", "the", "man", "."), ("A", "cat", "saw", "one", "bird", "."), ("Two", "men", "ran")]
SWAPPED = [("The", "man", "bit", "the", "dog", "."), ("One", "bird", "saw", "a", "cat", "."), ("Men", "two", "ran")]
PASSIVE = [(*words[::-1], "by", "was") for words in ORIGINALS]


class Bags:
    """A run whose views are a bag of words and the words' places."""

    view_names = ("bag", "places")

    def encode_views(self, sentences, progress=None):
        sentences = list(sentences)
        if progress:
            progress(len(sentences), len(sentences))
        bags = [sum(vector(word.lower()) for word in words) for words in sentences]
        places = [sum(place * vector(word.lower()) for place, word in enumerate(words)) for words in sentences]
        return [np.array(bags, dtype=np.float32), np.array(places, dtype=np.float32)]

    def joined(self, views):
        return np.concatenate(views, axis=1)


def vector(word):
    return np.random.default_rng(list(word.encode())).standard_normal(20)


def samples():
    groups = with_contrasts([KINDS["passive"], KINDS["swapped-arguments"]])
    forms = [[PASSIVE], [SWAPPED], [PASSIVE, SWAPPED]]
    documents = np.array([0, 1, 2])
    return [Sample(kinds, documents, ORIGINALS, altered) for kinds, altered in zip(groups, forms, strict=True)]


def test_distances_are_shares_of_those_to_other_sentences():
    rng = np.random.default_rng(0)
    original, altered = rng.standard_normal((2, 7, 5)).astype(np.float32)
    found = moved_by(original, altered)
    for i in range(7):
        others = [cosine(original[i], original[j]) for j in range(7) if j != i]
        assert found.distances[i] == pytest.approx(cosine(original[i], altered[i]), rel=1e-5)
        assert found.relative[i] == pytest.approx(cosine(original[i], altered[i]) / np.mean(others), rel=1e-5)


def test_equal_vectors_and_vectors_of_zeros():
    vectors = np.array([[1, 2, 3], [3, 2, 1], [0, 0, 0]], dtype=np.float32)
    found = moved_by(vectors, vectors[:, ::-1] * np.array([[0], [0], [1]]) + vectors * np.array([[1], [2], [0]]))
    assert found.distances.tolist() == [0, 0, 1]
    assert found.others[2] == 1


def test_a_bag_of_words_does_not_notice_a_swap():
    rows = {(row.sample, row.view): row.found[0] for row in rows_of_runs(samples(), [notice(Bags(), samples())])}
    bag = rows["swapped-arguments", "bag"]
    assert (bag.value, bag.low, bag.high) == (0, 0, 0)
    assert rows["swapped-arguments", "places"].value > 0.01
    assert rows["passive", "bag"].value > 0.01
    assert rows["passive nearer than swapped-arguments", "bag"].value == 0


def test_joined_vectors_come_first_and_progress_reaches_the_total():
    seen = []
    found = notice(Bags(), samples(), lambda done, total: seen.append((done, total)))
    assert [list(each) for each in found] == [[WHOLE, "bag", "places"]] * 3
    assert [len(each["bag"]) for each in found] == [1, 1, 2]
    assert seen == [(6, 21), (12, 21), (21, 21)]
    whole = Bags().joined(Bags().encode_views([ORIGINALS[0], PASSIVE[0]]))
    assert found[0][WHOLE][0].distances[0] == pytest.approx(cosine(*whole), rel=1e-5)


def test_nearer_is_a_half_where_both_are_equally_near():
    keeping, changing = (Moved(np.array(values), np.ones(4)) for values in ([1, 2, 3, 4], [2, 1, 3, 4 + 1e-9]))
    assert outcomes([keeping, changing]).tolist() == [1, 0, 0.5, 0.5]


def moved(values):
    return [Moved(np.array(values), np.full(len(values), 0.5))]


def test_rows_of_two_runs_have_paired_differences_and_corrected_ps():
    rng = np.random.default_rng(1)
    first, second, third = rng.random((3, 40))
    documents = np.arange(40) // 2
    sample = Sample((KINDS["passive"],), documents, ORIGINALS, [PASSIVE])
    runs = [[{WHOLE: moved(first), "dep": moved(second)}], [{WHOLE: moved(third), "dep": moved(second - 0.1)}]]
    runs[0][0]["sif"] = moved(third)
    whole, dep, sif = rows_of_runs([sample], runs)
    assert whole.found == {0: proportion(first / 0.5, documents), 1: proportion(third / 0.5, documents)}
    assert whole.difference == mean_difference(first / 0.5, third / 0.5, documents)
    assert dep.difference.low == pytest.approx(0.2)
    assert [whole.adjusted, dep.adjusted] == holm([whole.difference.p, dep.difference.p])
    assert (sif.found.keys(), sif.difference) == ({0}, None)


def test_sentences_of_one_document_are_drawn_singly():
    values = np.arange(30) / 30
    sample = Sample((KINDS["passive"],), np.zeros(30, dtype=int), ORIGINALS, [PASSIVE])
    (row,) = rows_of_runs([sample], [[{WHOLE: moved(values)}]])
    assert row.found[0] == proportion(values / 0.5, np.arange(30))


def test_tables_and_examples():
    found = notice(Bags(), samples())
    terminal = Terminal(width=120)
    with terminal.capture() as one:
        terminal.print(as_rich(rows_of_runs(samples(), [found]), two=False))
    assert "- swapped-arguments" in one.get()
    assert "[0.0, 0.0]" in one.get()
    with terminal.capture() as both:
        terminal.print(as_rich(rows_of_runs(samples(), [found, found]), two=True))
    assert "+0.0" in both.get()
    assert examples(samples()[2], 1) == [
        "passive nearer than swapped-arguments",
        "  The dog bit the man .",
        "  -> . man the bit dog The by was",
        "  -> The man bit the dog .",
    ]
