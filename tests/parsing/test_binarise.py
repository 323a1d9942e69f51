"""Binarisation: a chain becomes one node, then the leftmost children pair up first; docs/parser.md has an example.

And constituents from dependencies: a head pairs up with its nearest dependents first.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.tree import Tree
from nltk_trees import as_nltk
from trees_for_tests import sentences

from structviews.corpus.sentence import InvalidSentence, ParsedSentence
from structviews.parsing.binarise import binarise, headed, projective, read_tree, strip, unbinarise


def parsed(tree):
    return ParsedSentence(**binarise(tree)._asdict())


def bracketing(sentence):
    """The binary tree as nested tuples of node labels and words."""
    nodes = list(sentence.tokens)
    for left, right, label in zip(sentence.left, sentence.right, sentence.labels[len(sentence.tokens) :], strict=True):
        nodes.append((label, nodes[left], nodes[right]))
    return nodes[-1]


def nltk_bracketing(tree):
    """The same of nltk's own output; the names of the nodes it adds hold a bar."""
    if isinstance(tree[0], str):
        return tree[0]
    return ("" if "|" in tree.label() else tree.label(), *map(nltk_bracketing, tree))


plain = Tree.fromstring


def test_the_drawing():
    tree = binarise(plain("(S (X (A a) (B b) (C c) (D d)))"))
    expected = ("a", "b", "c", "d"), ("A", "B", "C", "D"), (0, 4, 5), (1, 2, 3), (*[""] * 6, "S+X")
    assert tree == expected
    # What is a sentence of several parts has no label.
    assert binarise(plain("( (S (VB go)) (NP (NN home)) (. .))")).labels == ("S", "NP", "", "", "")


def test_a_flat_sentence_may_be_longer_than_python_nests():
    n = 3000
    flat = Tree("X", [Tree("T", [f"w{i}"]) for i in range(n)])
    assert binarise(flat).left == (0, *range(n, 2 * n - 2))
    assert as_nltk(unbinarise(parsed(flat))) == flat


LABELS = st.sampled_from(["S", "NP", "VP", "X"])
TAGS = st.sampled_from(["NN", "-LRB-", "``", "PRP$", "P+D"])
WORDS = st.builds(Tree, TAGS, st.tuples(st.text("ab", min_size=1)))
TREES = st.recursive(WORDS, lambda some: st.builds(Tree, LABELS, st.lists(some, min_size=1, max_size=5)), max_leaves=20)


@given(TREES)
@example(plain("(NN w)"))
@example(plain("(FRAG (S (NP (NP (PRP I))) (VP (VBP go))))"))
def test_round_trip(tree):
    sentence = parsed(tree)
    assert as_nltk(unbinarise(sentence)) == tree
    theirs = tree.copy(deep=True)
    theirs.collapse_unary(collapsePOS=True, collapseRoot=True)
    theirs.chomsky_normal_form(factor="left", horzMarkov=0)
    assert bracketing(sentence) == nltk_bracketing(theirs)
    # A node without a label exists through binarisation only, so it is a left child.
    right_or_root = [node for node in [*sentence.right, 2 * len(sentence.tokens) - 2] if node >= len(sentence.tokens)]
    assert all(sentence.labels[node] for node in right_or_root)


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("(ROOT (S (NP-SBJ (PRP I)) (VP (VBP go))))", "(S (NP (PRP I)) (VP (VBP go)))"),
        ("(TOP (S (NP=2 (PRP I)) (PP-LOC-CLR-3 (IN in))))", "(S (NP (PRP I)) (PP (IN in)))"),
        ("( (S|<NP-VP> (NP (PRP I))))", "(S (NP (PRP I)))"),
        ("(ROOT (TOP (S (VB go))))", "(S (VB go))"),
        ("(S (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *)))))", "(S (VP (VB go)))"),
        ("(NP (-LRB- -LRB-) (NN-X w) (-RRB- -RRB-))", "(NP (-LRB- -LRB-) (NN-X w) (-RRB- -RRB-))"),
        ("(ROOT (S (VB go)) (NP (NN home)) (. .))", "( (S (VB go)) (NP (NN home)) (. .))"),
    ],
)
def test_strip(text, stripped):
    assert as_nltk(strip(plain(text))) == plain(stripped)


@pytest.mark.parametrize("text", ["(ROOT (S (-NONE- *)))", "(S (NP ))", "(S (NP the (NN bird)))"])
def test_what_cannot_be_stripped(text):
    with pytest.raises(InvalidSentence, match=r"no words|siblings under 'NP'"):
        strip(plain(text))


@given(st.text("(( )) ab\t", max_size=30))
@example("( (S (NP (PRP I)) (VP (VB go))) )")
@example("(NP)")
def test_a_text_is_read_as_nltk_reads_it(text):
    try:
        theirs = Tree.fromstring(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"outside the tree|not closed|no brackets"):
            read_tree(text)
    else:
        assert as_nltk(read_tree(text)) == theirs


def test_a_head_is_joined_with_its_nearest_dependents_first():
    words = ["the", "old", "dog", "chased", "my", "cat", "yesterday"]
    relations = ("det", "amod", "nsubj", "root", "nmod:poss", "obj", "advmod")
    found = headed(ParsedSentence(tuple(words), (), (3, 3, 4, 0, 6, 4, 4), relations))
    cat, dog = ("nmod", "my", "cat"), ("det", "the", ("amod", "old", "dog"))
    assert bracketing(found) == ("advmod", ("obj", ("nsubj", dog, "chased"), cat), "yesterday")
    assert headed(ParsedSentence(("Go",), (), (0,), ("root",))).labels == ("root",)
    with pytest.raises(InvalidSentence, match="no dependencies"):
        headed(ParsedSentence(("Go",)))


def above(heads, word):
    """A word, its head, the head of this, ..., down to 0."""
    return [word, *above(heads, heads[word - 1])] if word else [0]


@given(sentences())
def test_every_subtree_of_a_head_is_a_constituent_once_no_arcs_cross(sentence):
    heads, n = projective(sentence.heads), len(sentence.tokens)

    def crosses(word):
        first, last = sorted((word, heads[word - 1]))
        return any(heads[word - 1] not in above(heads, between) for between in range(first + 1, last))

    assert not any(map(crosses, range(1, n + 1)))
    assert all(heads[word - 1] in above(sentence.heads, word)[1:] for word in range(1, n + 1))
    assert projective(heads) == heads
    nodes = [(word,) for word in range(1, n + 1)]
    found = headed(sentence)
    for left, right in zip(found.left, found.right, strict=True):
        nodes.append(nodes[left] + nodes[right])
    for word in range(1, n + 1):
        assert tuple(each for each in range(1, n + 1) if word in above(heads, each)) in nodes
    assert sorted(found.labels[n:]) == sorted(r for r, head in zip(found.relations, heads, strict=True) if head)
