"""Our bracket trees as nltk's, which is the oracle of several tests."""

from nltk.tree import Tree

from structviews.parsing import binarise


def as_nltk(tree):
    """nltk's tree with the same labels and words."""
    assert isinstance(tree, binarise.Tree)
    return Tree(tree.label(), [child if isinstance(child, str) else as_nltk(child) for child in tree])
