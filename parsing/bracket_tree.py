"""Bracket trees: labelled nodes over words, as treebanks write them.

They have those of nltk's methods that are used here, so that trees of nltk will do as well. nltk itself takes a second
to import.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

# An opening bracket with its label, a closing one, or a word.
PART = re.compile(r"\(\s*(?P<label>[^\s()]*)|(?P<end>\))|(?P<word>[^\s()]+)")


class Tree(list["Tree | str"]):
    """A node: the list of its children, which are nodes or words, with a label."""

    def __init__(self, label: str, children: "Iterable[Tree | str]" = ()):
        super().__init__(children)
        self._label = label

    def label(self) -> str:
        """The label; empty if it has none."""
        return self._label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._label == other._label and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of lists compares the children alone

    __hash__ = None  # as of any list

    def __repr__(self) -> str:
        return f"({' '.join([self._label, *map(str, self)])})"


# A tree of ours or of nltk.
AnyTree: TypeAlias = Any


def read_tree(text: str) -> Tree:
    """The tree of a text such as ``(S (NP (DT the) (NN end)))``.

    Raises:
        ValueError: if the text is not one tree in brackets.
    """
    whole = Tree("")
    open_nodes = [whole]
    for part in PART.finditer(text):
        if len(open_nodes) == 1 and (whole or part.lastgroup != "label"):
            raise ValueError(f"{part[0]!r} at character {part.start() + 1} is outside the tree")
        if part.lastgroup == "label":
            node = Tree(part["label"])
            open_nodes[-1].append(node)
            open_nodes.append(node)
        elif part.lastgroup == "end":
            open_nodes.pop()
        else:
            open_nodes[-1].append(part["word"])
    if len(open_nodes) > 1:
        raise ValueError(f"{len(open_nodes) - 1} brackets are not closed")
    if not whole:
        raise ValueError("it has no brackets")
    return cast(Tree, whole[0])  # a word outside brackets was refused above
