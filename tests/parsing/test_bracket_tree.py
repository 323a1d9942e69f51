import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.tree import Tree as NltkTree
from nltk_trees import as_nltk

from structviews.parsing.bracket_tree import Tree, read_tree


@given(st.text("(( )) ab\t", max_size=30))
@example("( (S (NP (PRP I)) (VP (VB go))) )")
@example("(NP)")
def test_a_text_is_read_as_nltk_reads_it(text):
    try:
        theirs = NltkTree.fromstring(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"outside the tree|not closed|no brackets"):
            read_tree(text)
    else:
        assert as_nltk(read_tree(text)) == theirs


def test_real_trees_are_read_as_nltk_reads_them(treebanks):
    for line in (treebanks / "gum/dev.ptb").read_text("utf-8").splitlines():
        assert as_nltk(read_tree(line)) == NltkTree.fromstring(line)


def test_trees_are_equal_if_labels_and_children_are():
    tree = read_tree("(S (NP a) (VP b))")
    assert tree == Tree("S", [Tree("NP", ["a"]), Tree("VP", ["b"])])
    assert tree != Tree("X", tree)
    assert tree != Tree("S", [Tree("NP", ["a"]), Tree("VP", ["c"])])
    assert tree != list(tree)
    assert repr(tree) == "(S (NP a) (VP b))"
