import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees_for_tests import WORD, gum, sentences

from structviews.corpus.sentence import (
    InvalidSentence,
    ParsedSentence,
    are_trees,
    check_constituents,
    check_dependencies,
    check_tokens,
)

BIRD = {
    "tokens": ("A", "black", "bird", "sings"),
    "tags": ("DT", "JJ", "NN", "VBZ"),
    "heads": (3, 3, 4, 0),
    "relations": ("det", "amod", "nsubj", "root"),
    "left": (0, 4, 5),
    "right": (1, 2, 3),
    "labels": ("", "", "", "VP", "", "NP", "S"),
}


@given(sentences(max_words=20))
def test_random_trees_are_accepted(sentence):
    assert sentence.has_dependencies
    assert sentence.has_constituents


def test_real_trees_are_accepted():
    assert len(gum(50)) == 50


def test_a_kind_of_tree_may_be_missing():
    bare = ParsedSentence(BIRD["tokens"])
    assert not bare.has_dependencies
    assert not bare.has_constituents
    assert bare.spans() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tokens": ()}, "at least one token"),
        ({"tokens": ("A", "", "bird", "sings")}, "token 2 is ''"),
        ({"tokens": ("A", "black", "bi\u00a0rd", "sings")}, r"token 3 is 'bi\\xa0rd'"),
        ({"tokens": ("A", "black", "bird", "sings\n")}, "token 4"),
        ({"tags": ("DT",)}, "1 tags for 4 tokens"),
        ({"heads": (3, 3, 0)}, "3 heads and 4 relations for 4 tokens"),
        ({"heads": ()}, "0 heads and 4 relations for 4 tokens"),
        ({"relations": ("det",)}, "4 heads and 1 relations for 4 tokens"),
        ({"heads": (3, 3, 4, 3)}, "0 dependency roots"),
        ({"heads": (0, 3, 4, 0)}, r"2 dependency roots \(words \[1, 4\]\)"),
        ({"heads": (5, 3, 4, 0)}, r"head 5 of word 1 is outside 0\.\.4"),
        ({"heads": (3, -1, 4, 0)}, r"head -1 of word 2 is outside 0\.\.4"),
        ({"heads": (1, 3, 4, 0)}, "dependency cycle through word 1"),
        ({"heads": (2, 3, 1, 0)}, "dependency cycle through word 1"),
        ({"heads": (2, 3, 2, 0)}, "dependency cycle through word 2"),
        ({"left": (0, 4)}, "2 left and 3 right children and 7 labels for 4 tokens.* 3, 3 and 7"),
        ({"right": ()}, "3 left and 0 right children"),
        ({"labels": ("S",)}, "and 1 labels"),
        ({"labels": ()}, "and 0 labels"),
        ({"left": (0, 5, 4)}, "node 5 has children 5, 2: children must precede"),
        ({"left": (-1, 4, 5)}, "node 4 has children -1, 1: children must precede"),
        ({"right": (1, 2, 7)}, "node 6 has children 5, 7: children must precede"),
        ({"right": (2, 1, 3)}, "children 0, 2 of constituency node 4 are not adjacent"),
        ({"left": (1, 4, 5), "right": (0, 2, 3)}, "children 1, 0 of constituency node 4 are not adjacent"),
        ({"left": (2, 0, 5), "right": (3, 1, 4)}, "node 5 is not in post-order"),
        ({"left": (0, 0, 5), "right": (1, 1, 3)}, "node 5 is not in post-order"),
        ({"left": (0, 1, 4), "right": (1, 2, 5)}, "are not adjacent"),
        ({"left": (0, 1, 2), "right": (1, 2, 3)}, "two parents or none"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_reason(change, reason):
    ParsedSentence(**BIRD)
    with pytest.raises(InvalidSentence, match=reason) as error:
        ParsedSentence(**(BIRD | change))
    assert "\n" not in str(error.value)


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n)))
def test_heads_are_accepted_exactly_when_every_word_reaches_the_one_root(heads):
    n = len(heads)

    def reaches_root(word):
        for _ in range(n):
            word = heads[word - 1] if word else 0
        return word == 0

    is_tree = heads.count(0) == 1 and all(reaches_root(word) for word in range(1, n + 1))
    try:
        ParsedSentence(("x",) * n, heads=tuple(heads), relations=("dep",) * n)
    except InvalidSentence:
        assert not is_tree
    else:
        assert is_tree


@given(st.integers(2, 4).flatmap(lambda n: st.tuples(*[st.tuples(*[st.integers(0, 2 * n - 3)] * (n - 1))] * 2)))
def test_constituents_are_accepted_exactly_when_they_are_a_tree_in_post_order(children):
    left, right = children
    n = len(left) + 1
    order = []

    def leaves(node, depth=0):
        if depth > n:
            raise RecursionError
        if node < n:
            return [node]
        below = leaves(left[node - n], depth + 1) + leaves(right[node - n], depth + 1)
        order.append(node)
        return below

    try:
        is_tree = leaves(2 * n - 2) == list(range(n)) and order == list(range(n, 2 * n - 1))
    except RecursionError:
        is_tree = False
    try:
        ParsedSentence(("x",) * n, left=left, right=right, labels=("",) * (2 * n - 1))
    except InvalidSentence:
        assert not is_tree
    else:
        assert is_tree


@given(sentences(max_words=20))
def test_heights_are_those_of_recursion(sentence):
    n = len(sentence.tokens)

    def word_height(word):
        below = [i for i, head in enumerate(sentence.heads, 1) if head == word]
        return 1 + max(map(word_height, below)) if below else 0

    def node_height(node):
        if node < n:
            return 0
        return 1 + max(node_height(sentence.left[node - n]), node_height(sentence.right[node - n]))

    assert sentence.dependency_heights == [word_height(word) for word in range(1, n + 1)]
    assert sentence.constituency_heights == [node_height(node) for node in range(2 * n - 1)]


@given(sentences(max_words=20))
def test_spans_are_the_leaves_below_each_labelled_node(sentence):
    n = len(sentence.tokens)
    labels = tuple("" if node % 3 == 1 else f"L{node}" for node in range(2 * n - 1))
    sentence = ParsedSentence(sentence.tokens, left=sentence.left, right=sentence.right, labels=labels)

    def leaves(node):
        return {node} if node < n else leaves(sentence.left[node - n]) | leaves(sentence.right[node - n])

    below = [(leaves(node), label) for node, label in enumerate(labels) if label]
    assert sentence.spans() == [(min(some), max(some) + 1, label) for some, label in below]
    assert all(max(some) - min(some) + 1 == len(some) for some, _ in below)


def test_spans_of_an_example():
    assert ParsedSentence(**BIRD).spans() == [(3, 4, "VP"), (0, 3, "NP"), (0, 4, "S")]


def test_a_single_word_is_leaf_and_root():
    assert WORD.dependency_heights == [0]
    assert WORD.constituency_heights == [0]
    assert WORD.spans() == [(0, 1, "S")]


def passes(check, *fields):
    try:
        check(*fields)
    except InvalidSentence:
        return False
    return True


@given(st.lists(sentences(max_words=7), min_size=1, max_size=5), st.data())
def test_many_sentences_at_once_are_checked_as_one_by_one(batch, data):
    trees = [[list(each) for each in (s.heads, s.left, s.right)] for s in batch]
    for _ in range(data.draw(st.integers(0, 3))):
        changed = data.draw(st.sampled_from([each for tree in trees for each in tree if each]))
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(-1, 2 * len(changed) + 2))
    lengths = [len(heads) for heads, _, _ in trees]
    flat = [np.array([n for tree in trees for n in tree[field]], dtype=np.int64) for field in range(3)]
    expected = [
        passes(check_dependencies, n, heads, ["dep"] * n)
        and passes(check_constituents, n, left, right, [""] * (2 * n - 1))
        for n, (heads, left, right) in zip(lengths, trees, strict=True)
    ]
    assert are_trees(np.array(lengths), *flat).tolist() == expected


def test_an_unchecked_sentence_is_the_same():
    assert ParsedSentence.unchecked(*BIRD.values()) == ParsedSentence(**BIRD)


@given(st.lists(st.text(max_size=3), max_size=4))
def test_tokens_are_not_empty_and_without_white_space(tokens):
    assert passes(check_tokens, tokens) == (tokens != [] and all(t and not any(map(str.isspace, t)) for t in tokens))
