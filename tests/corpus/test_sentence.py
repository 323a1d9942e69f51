from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees_for_tests import sentences

from structviews.corpus.sentence import InvalidSentence, ParsedSentence, plain_text
from structviews.parsing.tokenising import tokenise_all

BIRD = ParsedSentence(
    tokens=("A", "black", "bird", "sings"), tags=("DT", "JJ", "NN", "VBZ"),
    heads=(3, 3, 4, 0), relations=("det", "amod", "nsubj", "root"),
    left=(0, 4, 5), right=(1, 2, 3), labels=("", "", "", "VP", "", "NP", "S"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tokens": ()}, "at least one token"),
        ({"tokens": ("A", "", "bird", "sings")}, "token 2 is ''"),
        ({"tags": ("DT",)}, "1 tags for 4 tokens"),
        ({"heads": (3, 3, 0)}, "3 heads and 4 relations for 4 tokens"),
        ({"heads": (0, 3, 4, 0)}, r"2 dependency roots \(words \[1, 4\]\)"),
        ({"heads": (5, 3, 4, 0)}, r"head 5 of word 1 is outside 0\.\.4"),
        ({"heads": (2, 3, 2, 0)}, "dependency cycle through word 2"),
        ({"left": (0, 4)}, "2 left and 3 right children and 7 labels for 4 tokens.* 3, 3 and 7"),
        ({"left": (0, 5, 4)}, "node 5 has children 5, 2: children must precede"),
        ({"right": (2, 1, 3)}, "children 0, 2 of constituency node 4 are not adjacent"),
        ({"left": (0, 0, 5), "right": (1, 1, 3)}, "node 5 is not in post-order"),
        ({"left": (0, 1, 2), "right": (1, 2, 3)}, "two parents or none"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_reason(change, reason):
    with pytest.raises(InvalidSentence, match=reason) as error:
        replace(BIRD, **change)
    assert "\n" not in str(error.value)


def is_accepted(n, **trees):
    """Whether there is such a sentence of so many words."""
    try:
        return bool(ParsedSentence(("x",) * n, **trees))
    except InvalidSentence:
        return False


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n)))
def test_heads_are_accepted_exactly_when_every_word_reaches_the_one_root(heads):
    n = len(heads)
    reached = range(n + 1)
    for _ in heads:
        reached = [heads[word - 1] if word else 0 for word in reached]
    is_tree = heads.count(0) == 1 and not any(reached)
    assert is_accepted(n, heads=tuple(heads), relations=("dep",) * n) == is_tree


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
    assert is_accepted(n, left=left, right=right, labels=("",) * (2 * n - 1)) == is_tree


@given(sentences(max_words=20))
def test_heights_and_spans_are_those_of_recursion(sentence):
    n = len(sentence.tokens)
    sentence = replace(sentence, labels=tuple("" if node % 3 == 1 else f"L{node}" for node in range(2 * n - 1)))

    def word_height(word):
        return 1 + max([word_height(i) for i, head in enumerate(sentence.heads, 1) if head == word], default=-1)

    def node_height(node):
        children = (sentence.left[node - n], sentence.right[node - n]) if node >= n else ()
        return 1 + max(map(node_height, children), default=-1)

    def leaves(node):
        return [node] if node < n else leaves(sentence.left[node - n]) + leaves(sentence.right[node - n])

    assert sentence.dependency_heights == [word_height(word) for word in range(1, n + 1)]
    assert sentence.constituency_heights == [node_height(node) for node in range(2 * n - 1)]
    below = [(leaves(node), label) for node, label in enumerate(sentence.labels) if label]
    assert sentence.spans() == [(min(some), max(some) + 1, label) for some, label in below]
    assert ParsedSentence(sentence.tokens).spans() == []


# Text from tokens: as its writer had it, wherever tokens tell.
TEXTS = [
    "The five-lobed leaves (of the maple), and its seeds, don't fall.",
    '"True," said Mr. Bennet, "but it is a comfort."',
    'No," returned the stranger, "but once and away."',
    "The birds' nests cost $5, or 40% of what he'd pay; cannot you?",
    "It is 'good', isn't it -- or so she says...",
    'To prevent this, "secret scanning" was added.',
    "“Here‘s one”, she wrote, and/or read.",
]


def test_text_comes_back_as_it_was():
    assert list(map(plain_text, tokenise_all(TEXTS, "en"))) == TEXTS
    # Brackets and quotes of treebanks, and scripts without spaces.
    assert plain_text(["``", "A", "-LRB-", "b", "-RRB-", "''"]) == "“A (b)”"
    assert plain_text(["我", "喜欢", "鸟", "。"]) == "我喜欢鸟。"
    lines = Path(__file__).parents[2].joinpath("data/corpus.txt").read_text("utf-8").splitlines()
    texts = [" ".join(line.split()) for line in lines if line][:400]
    assert sum(map(str.__eq__, map(plain_text, tokenise_all(texts, "en")), texts)) >= 0.98 * len(texts)
