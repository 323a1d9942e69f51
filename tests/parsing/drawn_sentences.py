"""Sentences to draw: random trees over words of every kind, and what reads a tree back and dissolves it."""

from dataclasses import replace

from hypothesis import strategies as st
from nltk.tree import Tree
from trees_for_tests import sentences

from structviews.corpus.sentence import ParsedSentence

BIRD = ParsedSentence(
    tokens=("A", "black", "bird", "sings", "."), tags=("DT", "JJ", "NN", "VBZ", "."),
    heads=(3, 3, 4, 0, 4), relations=("det", "amod", "nsubj", "root", "punct"),
    left=(0, 5, 6, 7), right=(1, 2, 3, 4), labels=("", "", "", "VP", "", "", "NP", "", "S"),
)  # fmt: skip
WORDS = ("a", "bird", "红色", "東京都", "é", "e\u0301", "한국어", "x" * 14, "שלום", "مرحبا", "🐦", "&lt;b>", "¹")


@st.composite
def labelled(draw, max_words: int = 8):
    """Words of many scripts, a dependency tree with crossing arcs, and labels on any node."""
    sentence = draw(sentences(max_words))
    n = len(sentence.tokens)
    chains = st.sampled_from(["", "NP", "S+VP"])
    tokens = tuple(draw(st.sampled_from(WORDS)) for _ in range(n))
    return replace(sentence, tokens=tokens, labels=(*(draw(chains) for _ in range(2 * n - 2)), "S"))


def dissolved(tree: Tree) -> Tree:
    """The n-ary tree of a binarised one as it is drawn, slowly."""
    if isinstance(tree[0], str):
        children = list(tree)
    else:
        children = []
        for child in map(dissolved, tree):
            children += list(child) if child.label() == "·" else [child]
    *above, label = tree.label().split("+")
    tree = Tree(label, children)
    for name in reversed(above):
        tree = Tree(name, [tree])
    return tree
