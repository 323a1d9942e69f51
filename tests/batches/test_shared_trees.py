"""Equal subtrees of a batch against a recursion that writes each subtree out."""

from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees_for_tests import SHAPES, gum, related, sentences

from structviews.batches.batch import collate
from structviews.corpus.relations import RELATIONS, SIDES
from structviews.parsing.specification import load
from structviews.words.vocabulary import UNKNOWN, Vocabulary


def family(word, below):
    return f"{word}[{' '.join(sorted(below))}]"


def pair(left, right):
    return f"({left} {right})"


def labelled(sentence):
    """Each word with its relation and the side of its head; the relations are those of ``related``."""
    known = {"nsubj:other": "nsubj", "zzz": "_"}
    words = enumerate(zip(sentence.tokens, sentence.heads, sentence.relations, strict=True), 1)
    return [
        f"{token}/{known.get(relation, relation)}/{'root' if head == 0 else 'left' if place < head else 'right'}"
        for place, (token, head, relation) in words
    ]


def name_of(label):
    """The relation and the side of a label, as above."""
    relation, side = divmod(label, len(SIDES))
    return f"{['_', *RELATIONS][relation]}/{SIDES[side]}"


def subtrees(sentence, kind):
    """The subtree of each node written out, and the root; Child-Sum cells do not see the order of children."""
    if kind == "constituency":
        written = list(sentence.tokens)
        for left, right in zip(sentence.left, sentence.right, strict=True):
            written.append(pair(written[left], written[right]))
        return written, len(written) - 1

    tokens = labelled(sentence) if kind == "labelled" else sentence.tokens

    def write(word):
        return family(tokens[word], (write(n) for n, head in enumerate(sentence.heads) if head == word + 1))

    return [write(word) for word in range(len(sentence.tokens))], sentence.heads.index(0)


def merged(some, kind, compared_from):
    """The merged trees, and the words, or their pairs with labels, by index."""
    words = list(dict.fromkeys(token for sentence in some for token in sentence.tokens))
    with mock.patch("structviews.batches.trees.COMPARED_FROM", compared_from):
        ids = collate(some, {"words": Vocabulary([UNKNOWN, *words])}, [kind], merged=True).ids["words"]
    trees, of_words = getattr(ids, kind), [words[number - 1] for number in ids.distinct.tolist()]
    if trees.pairs is None:
        return trees, of_words
    pairs = zip(trees.pairs.words.tolist(), trees.pairs.labels.tolist(), strict=True)
    return trees, [f"{of_words[word]}/{name_of(label)}" for word, label in pairs]


def check(some, kind, *, compared=True):
    some = [*map(related, some)] if kind == "labelled" else some
    trees, words = merged(some, kind, 0 if compared else 10**6)
    written, roots = zip(*(subtrees(sentence, kind) for sentence in some), strict=True)
    nodes = [subtree for sentence in written for subtree in sentence]
    meaning = dict(zip(trees.of_nodes.tolist(), nodes, strict=True))
    # A row for each different subtree, or at least for each different leaf.
    assert [meaning[row] for row in trees.of_nodes.tolist()] == nodes
    assert sorted(meaning) == list(range(trees.levels[-1]))
    assert trees.levels[1] == len({meaning[row] for row in range(trees.levels[1])})
    if compared:
        assert len(meaning) == len(set(nodes))
    assert [meaning[row] for row in trees.roots.tolist()] == [w[r] for w, r in zip(written, roots, strict=True)]
    below = check_pairs(trees, words, meaning) if kind == "constituency" else check_families(trees, words, meaning)
    level = {row: n for n, (start, stop) in enumerate(pairwise(trees.levels)) for row in range(start, stop)}
    height = [max((1 + level[child] for child in children), default=0) for children in below]
    assert height == [level[row] for row in range(len(below))]


def check_pairs(trees, words, meaning):
    """The children of each row."""
    n = trees.levels[1]
    assert [meaning[row] for row in range(n)] == words
    children = trees.children.view(-1, 2).tolist()
    assert [pair(meaning[a], meaning[b]) for a, b in children] == [meaning[n + i] for i in range(len(children))]
    for side, (leaves, places) in enumerate(zip(trees.leaves, trees.places, strict=True)):
        of_side = [row[side] for row in children]
        assert leaves.tolist() == sorted({child for child in of_side if child < n})
        found = [(child, leaves[place]) for child, place in zip(of_side, places.tolist(), strict=True) if child < n]
        assert all(child == leaf for child, leaf in found)
    for (start, stop), inner in zip(pairwise(trees.levels[1:]), trees.inner, strict=True):
        found = [(left >= n, right >= n) for left, right in children[start - n : stop - n]]
        assert found == sorted(found, key=[(True, False), (True, True), (False, True), (False, False)].index)
        for side, (first, end) in enumerate(inner):
            assert [first <= row < end for row in range(stop - start)] == [both[side] for both in found]
    return [[]] * n + children


def check_families(trees, words, meaning):
    """The children of each row."""
    starts, of_row = trees.starts.tolist(), [words[word] for word in trees.words.tolist()]
    below = [[]] * trees.levels[1] + [trees.children.tolist()[start:stop] for start, stop in pairwise(starts)]
    written = [family(of_row[i], (meaning[n] for n in children)) for i, children in enumerate(below)]
    assert written == [meaning[row] for row in range(len(below))]
    head_words = [of_row[i] for i, each in enumerate(below) for _ in each]
    assert [words[word] for word in trees.head_words.tolist()] == head_words
    children = set(trees.children.tolist())
    for (start, stop), count in zip(pairwise(trees.levels[1:]), trees.n_children, strict=True):
        assert [row in children for row in range(start, stop)] == [True] * count + [False] * (stop - start - count)
    return below


kinds = pytest.mark.parametrize("kind", ["dependency", "labelled", "constituency"])


@kinds
@settings(max_examples=60, deadline=None)
@given(some=st.lists(sentences(max_words=8), min_size=1, max_size=8))
def test_random_trees(kind, some):
    check(some, kind)
    check(some, kind, compared=False)


@kinds
@pytest.mark.parametrize("shape", [*SHAPES, "real"])
def test_shapes(kind, shape):
    check(gum(150) if shape == "real" else SHAPES[shape] * 2, kind)


def test_a_tree_may_be_deeper_than_a_quarter_of_what_16_bits_hold():
    trees, _ = merged(load("trivial:chain").parse([["a"] * 8_200]), "constituency", compared_from=10**6)
    assert len(trees.levels) == 8_200 + 1
