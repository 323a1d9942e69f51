"""Bracket trees as treebanks write them, and their conversion to binary ones and back.

They have the methods of nltk's trees, which will do as well; nltk takes a second to import. First, function labels,
traces and the ``ROOT`` wrapper are removed. Then unary chains are collapsed into one node, and nodes with more than
two children are left-factored without markovisation::

    (X A B C D)   ->   (X (. (. A B) C) D)

so that ``n`` words give ``2n - 1`` nodes (structured views 3.2; docs/parser.md has an example). ``headed`` makes such
trees from dependencies instead.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import nan
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from structviews.corpus.sentence import InvalidSentence, ParsedSentence

ROOT_LABELS = frozenset({"ROOT", "TOP", "VROOT", ""})
TRACE = "-NONE-"
CHAIN = "+"
# The suffix after the category (NP-SBJ, NP=2, S|<VP>); labels that start with a hyphen are kept as they are.
FUNCTION = re.compile(r"^([^-=|]+)[-=|].*$")

# An opening bracket with its label, a closing one, or a word.
BRACKET = re.compile(r"\(\s*(?P<label>[^\s()]*)|(?P<end>\))|(?P<word>[^\s()]+)")


class Tree(list["Tree | str"]):
    """A node: the list of its children, which are nodes or words, with a label."""

    def __init__(self, label: str, children: "Iterable[Tree | str]" = ()):
        super().__init__(children)
        self._label = label

    def label(self) -> str:
        """The label; empty if it has none."""
        return self._label


# A tree of ours or of nltk.
AnyTree: TypeAlias = Any


def read_tree(text: str) -> Tree:
    """The tree of a text such as ``(S (NP (DT the) (NN end)))``.

    Raises ValueError if the text is not one tree in brackets.
    """
    whole = Tree("")
    open_nodes = [whole]
    for found in BRACKET.finditer(text):
        if len(open_nodes) == 1 and (whole or found.lastgroup != "label"):
            raise ValueError(f"{found[0]!r} at character {found.start() + 1} is outside the tree")
        if found.lastgroup == "label":
            node = Tree(found["label"])
            open_nodes[-1].append(node)
            open_nodes.append(node)
        elif found.lastgroup == "end":
            open_nodes.pop()
        else:
            open_nodes[-1].append(found["word"])
    if len(open_nodes) > 1:
        raise ValueError(f"{len(open_nodes) - 1} brackets are not closed")
    if not whole:
        raise ValueError("it has no brackets")
    return cast(Tree, whole[0])  # a word outside brackets was refused above


class BinaryTree(NamedTuple):
    """The constituency fields of a ParsedSentence, with the words and tags at its leaves."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    labels: tuple[str, ...]


def strip(tree: AnyTree) -> Tree:
    """The tree without function labels, traces, emptied nodes and its ``ROOT`` wrapper.

    Raises InvalidSentence if the tree has no words but traces.
    """
    stripped = _strip(tree)
    if stripped is None:
        raise InvalidSentence("the bracket tree has no words")
    while stripped.label() in ROOT_LABELS and len(stripped) == 1 and isinstance(stripped[0], Tree):
        stripped = stripped[0]
    return Tree("", stripped) if stripped.label() in ROOT_LABELS else stripped


def _strip(node: AnyTree) -> Tree | None:
    if node.label() == TRACE:
        return None
    if len(node) == 1 and isinstance(node[0], str):
        return Tree(node.label(), [node[0]])
    if any(isinstance(child, str) for child in node):
        raise InvalidSentence(f"a word has siblings under {node.label()!r}")
    children = [child for child in map(_strip, node) if child is not None]
    return Tree(FUNCTION.sub(r"\1", node.label()), children) if children else None


def binarise(tree: AnyTree) -> BinaryTree:
    """Collapse unary chains and left-factor a tree as ``strip`` leaves it; the module docstring has an example."""
    n = _count_words(tree)
    tokens: list[str] = []
    tags: list[str] = []
    chains: list[str] = []
    internal: list[tuple[int, int, str]] = []

    # Like nltk's collapse_unary and chomsky_normal_form(factor="left", horzMarkov=0), which nests a flat sentence as
    # deep as it is long.
    def number(node: AnyTree) -> int:
        names = [node.label()]
        while len(node) == 1 and not isinstance(node[0], str):
            node = node[0]
            names.append(node.label())
        if isinstance(node[0], str):
            tokens.append(node[0])
            tags.append(names.pop())
            chains.append(CHAIN.join(names))
            return len(tokens) - 1
        here = number(node[0])
        for i, child in enumerate(node[1:], 2):
            internal.append((here, number(child), CHAIN.join(names) if i == len(node) else ""))
            here = n + len(internal) - 1
        return here

    number(tree)
    left, right, labels = zip(*internal, strict=True) if internal else ((), (), ())
    return BinaryTree(tuple(tokens), tuple(tags), left, right, (*chains, *labels))


def _count_words(node: AnyTree) -> int:
    return sum(1 if isinstance(child, str) else _count_words(child) for child in node)


def unbinarise(sentence: ParsedSentence) -> Tree:
    """The n-ary tree behind a binary one: nodes without a label, except the root, are removed.

    A sentence without tags gets the preterminal ``X`` over each word.
    """
    n = len(sentence.tokens)
    forests = [[_chain(chain, [word]) if chain else word] for chain, word in _preterminals(sentence)]
    for node, (left, right) in enumerate(zip(sentence.left, sentence.right, strict=True), n):
        children, label = forests[left] + forests[right], sentence.labels[node]
        forests.append([_chain(label, children)] if label or node == 2 * n - 2 else children)
    return forests[-1][0]


def binary_tree(sentence: ParsedSentence) -> Tree:
    """The binarised tree itself: a unary chain is one label, and nodes added by binarisation have none.

    A preterminal's label is its chain and its tag (``NP+NNP``); a sentence without tags gets the tag ``X``.
    """
    n = len(sentence.tokens)
    nodes = [Tree(CHAIN.join(filter(None, (chain, word.label()))), word) for chain, word in _preterminals(sentence)]
    for left, right, label in zip(sentence.left, sentence.right, sentence.labels[n:], strict=True):
        nodes.append(Tree(label, [nodes[left], nodes[right]]))
    return nodes[-1]


def _preterminals(sentence: ParsedSentence) -> Iterator[tuple[str, Tree]]:
    """The chain above each word, and the node of its tag, which may have a ``+``, too."""
    tags = sentence.tags or ("X",) * len(sentence.tokens)
    for chain, tag, token in zip(sentence.labels, tags, sentence.tokens, strict=False):
        yield chain, Tree(tag, [token])


def _chain(label: str, children: Sequence[Tree | str]) -> Tree:
    """``S+VP`` over children: ``(S (VP ...))``."""
    *above, lowest = label.split(CHAIN)
    tree = Tree(lowest, children)
    for name in reversed(above):
        tree = Tree(name, [tree])
    return tree


def headed(sentence: ParsedSentence) -> ParsedSentence:
    """The sentence with constituents made from its dependencies: each head joined with its dependents, nearest first.

    A node's label is the relation, without its subtype, of the dependent that it adds; words have none. Where arcs
    cross, the tree is that of ``projective`` heads. Raises InvalidSentence if the sentence has no dependencies.
    """
    if not sentence.has_dependencies:
        raise InvalidSentence("it has no dependencies to make constituents from")
    n, heads = len(sentence.tokens), projective(sentence.heads)
    dependents: list[list[int]] = [[] for _ in range(n + 1)]  # of the root and of each word, by number from 1
    for word, head in enumerate(heads, 1):
        dependents[head].append(word)
    downwards = list(dependents[0])
    for word in downwards:
        downwards += dependents[word]
    bounds = {word: (word - 1, word) for word in downwards}
    nodes = []
    for head in reversed(downwards):
        start, end = bounds[head]
        for word in sorted(dependents[head], key=lambda word: abs(word - head)):
            first, last = bounds[word]
            split, start, end = max(start, first), min(start, first), max(end, last)
            nodes.append((end, -start, split, sentence.relations[word - 1].partition(":")[0]))
        bounds[head] = start, end
    nodes.sort()  # in post-order
    number = {(word - 1, word): word - 1 for word in downwards}
    left, right = [], []
    for node, (end, start, split, _) in enumerate(nodes, n):
        left.append(number[-start, split])
        right.append(number[split, end])
        number[-start, end] = node
    labels = ("",) * n + tuple(label for *_, label in nodes) if nodes else ("root",)
    sure = sentence.confidence and (*sentence.confidence[:2], nan, nan)  # none of these labels
    return replace(sentence, left=tuple(left), right=tuple(right), labels=labels, confidence=sure)


def projective(heads: Sequence[int]) -> list[int]:
    """Heads ``(n,)``, from 1, of which no arcs cross: the shortest that covers words outside its head's subtree goes.

    It is lifted to the head's head, and so on (Nivre and Nilsson 2005, section 2).
    """
    up = np.array([0, *heads])
    places = np.arange(len(up))
    while True:
        below = np.zeros((len(up), len(up)), dtype=bool)  # whether the row's word is above the column's, or is it
        above = places
        while not below[above, places].all():
            below[above, places] = True
            above = up[above]
        first, last = np.minimum(places, up)[:, None], np.maximum(places, up)[:, None]
        crossing = np.flatnonzero(((places > first) & (places < last) & ~below[up]).any(axis=1))
        if not len(crossing):
            return up[1:].tolist()
        word = crossing[np.abs(crossing - up[crossing]).argmin()]
        up[word] = up[up[word]]
