"""Groups of sentences, counted by hand, and the sentences that trust a view most."""

from itertools import pairwise

import numpy as np
import pytest
from trees_for_tests import with_trees

from structviews.corpus.sentence import ParsedSentence
from structviews.evaluation.gating.trust import either, groups, has_clause, most_trusting, thirds, trust_by_group


def flat(words, relations=(), labels=()):
    n = len(words)
    relations = tuple(relations) or ("root",) + ("dep",) * (n - 1)
    return ParsedSentence(tuple(words), (), (0, *[1] * (n - 1)), relations)


SENTENCES = [flat("a"), flat("ab"), flat("abc"), flat("ab?"), flat("abcdef", ["root", *["dep"] * 4, "csubj:pass"])]


def test_groups_of_sentences():
    found = {name: np.flatnonzero(mask).tolist() for name, mask in groups(SENTENCES)}
    assert found == {
        "all": [0, 1, 2, 3, 4],
        "words 1-2": [0, 1],
        "words 3": [2, 3],
        "words 6": [4],
        "dependency height 0-1": [0, 1, 2, 3, 4],
        "with a subordinate clause": [4],
        "without a subordinate clause": [0, 1, 2, 3],
        "with a question": [3],
        "without a question": [0, 1, 2, 4],
    }


def test_trees_that_a_corpus_does_not_have_are_not_asked_for():
    names = [name for name, _ in groups([ParsedSentence(("a",)), ParsedSentence(("a", "b", "c"))])]
    assert names == ["all", "words 1", "words 3", "with a question", "without a question"]
    with_both = [with_trees(("a", "b"), (0, 1), lambda start, end: start + 1)]
    assert "constituency height 1" in [name for name, _ in groups(with_both)]


@pytest.mark.parametrize(
    ("relation", "is_clause"), [("advcl", 1), ("acl:relcl", 1), ("acl", 0), ("ccomp", 1), ("csubj:pass", 1), ("obj", 0)]
)
def test_clauses_by_dependencies(relation, is_clause):
    assert has_clause(flat("ab", ["root", relation])) == bool(is_clause)


@pytest.mark.parametrize(("label", "is_clause"), [("SBAR", True), ("SBAR+S", True), ("SBARQ", False), ("S", False)])
def test_clauses_by_constituents(label, is_clause):
    sentence = ParsedSentence(("a", "b"), left=(0,), right=(1,), labels=("", "", label))
    assert has_clause(sentence) == is_clause


def test_thirds_are_about_equal_and_keep_equals_together():
    assert [name for name, _ in thirds("x", range(9))] == ["x 0-2", "x 3-5", "x 6-8"]
    assert [name for name, _ in thirds("x", [4] * 5)] == ["x 4"]
    values = np.random.default_rng(0).integers(0, 30, 500)
    parts = [values[mask] for _, mask in thirds("x", values)]
    assert sum(map(len, parts)) == 500
    assert all(a.max() < b.min() for a, b in pairwise(parts))
    assert [mask.tolist() for _, mask in either("x", [True, False])] == [[True, False], [False, True]]


def test_weights_of_groups():
    weights = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.4, 0.6], [1, 0]])
    rows = {row.group: row for row in trust_by_group(SENTENCES, weights)}
    assert rows["words 1-2"].count == 2
    np.testing.assert_allclose(rows["words 1-2"].means, [0.7, 0.3])
    np.testing.assert_allclose(rows["words 1-2"].deviations, [0.2, 0.2])
    np.testing.assert_allclose(rows["all"].means, [0.6, 0.4])
    assert "with a question" not in [row.group for row in trust_by_group(SENTENCES[:3], weights[:3])]


def test_each_sentence_is_shown_once():
    sentences = [flat("a"), flat("b"), flat("a"), flat("c"), flat("d")]
    found = most_trusting(sentences, np.array([0.7, 0.2, 0.9, 0.3, 0.1]))
    assert found == [(0.9, "a"), (0.3, "c"), (0.2, "b")]
    assert most_trusting(sentences[:1], np.ones(1)) == [(1.0, "a")]
