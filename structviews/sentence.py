"""One parsed sentence: words, dependency tree, binarised constituency tree."""

from collections.abc import Sequence
from dataclasses import dataclass


class InvalidSentence(ValueError):  # noqa: N818 - says what it is
    """A sentence whose annotation is not a tree over its tokens; the message says why."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """The tokens of a sentence and the trees over them, checked once when it is made.

    With ``n`` tokens, the constituency tree has ``2n - 1`` nodes: leaves are nodes ``0..n-1``,
    internal nodes ``n..2n-2`` in post-order (so children precede their parent and the last node
    is the root). A kind of tree that is missing has all its fields empty.

    Attributes:
        tokens: the ``n >= 1`` words, as both trees see them.
        tags: ``n`` part-of-speech tags, or empty.
        heads: ``n`` 1-based heads, 0 for the root; exactly one root, no cycle.
        relations: ``n`` dependency relations.
        left: left child of each of the ``n - 1`` internal nodes.
        right: right child of each internal node.
        labels: ``2n - 1`` labels. A unary chain is one label joined with ``+`` from the top
            (``S+VP``); a leaf carries the chain above its tag; an internal node that only exists
            through binarisation has the empty label.

    Raises:
        InvalidSentence: if the fields do not describe trees over the tokens.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...] = ()
    heads: tuple[int, ...] = ()
    relations: tuple[str, ...] = ()
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        if self.tags and len(self.tags) != len(self.tokens):
            raise InvalidSentence(f"{len(self.tags)} tags for {len(self.tokens)} tokens")
        if self.has_dependencies:
            check_dependencies(len(self.tokens), self.heads, self.relations)
        if self.has_constituents:
            check_constituents(len(self.tokens), self.left, self.right, self.labels)

    @property
    def has_dependencies(self) -> bool:
        return bool(self.heads or self.relations)

    @property
    def has_constituents(self) -> bool:
        return bool(self.labels or self.left or self.right)

    @property
    def dependency_heights(self) -> list[int]:
        """Height of each word in the dependency tree, a leaf having height 0; length ``n``."""
        return dependency_heights(self.heads)

    @property
    def constituency_heights(self) -> list[int]:
        """Height of each constituency node, a leaf having height 0; length ``2n - 1``."""
        return constituency_heights(len(self.tokens), self.left, self.right)

    def spans(self) -> list[tuple[int, int, str]]:
        """Labelled constituents as ``(start, end, label)``, ends exclusive, in node order.

        Nodes without a label are left out; a leaf's own chain (``NP`` over a single word) is a
        span of length one.
        """
        if not self.has_constituents:
            return []
        bounds = [(i, i + 1) for i in range(len(self.tokens))]
        for l_child, r_child in zip(self.left, self.right, strict=True):
            bounds.append((bounds[l_child][0], bounds[r_child][1]))
        return [(*b, label) for b, label in zip(bounds, self.labels, strict=True) if label]


def check_tokens(tokens: Sequence[str]) -> None:
    """Raise InvalidSentence unless there are tokens and none is empty or holds white space."""
    if not tokens:
        raise InvalidSentence("a sentence needs at least one token")
    for i, token in enumerate(tokens, 1):
        if not token or any(c.isspace() for c in token):
            raise InvalidSentence(f"token {i} is {token!r}: a token is not empty and has no white space")


def check_dependencies(n: int, heads: Sequence[int], relations: Sequence[str]) -> None:
    """Raise InvalidSentence unless ``heads`` (1-based, 0 = root) is one tree over ``n`` words."""
    if len(heads) != n or len(relations) != n:
        raise InvalidSentence(f"{len(heads)} heads and {len(relations)} relations for {n} tokens")
    roots = [i for i, head in enumerate(heads, 1) if head == 0]
    if len(roots) != 1:
        raise InvalidSentence(f"{len(roots)} dependency roots (words {roots[:5]}): there must be exactly one")
    for i, head in enumerate(heads, 1):
        if not 0 <= head <= n:
            raise InvalidSentence(f"head {head} of word {i} is outside 0..{n}")
    reached = [False] * (n + 1)
    reached[0] = True
    for word in range(1, n + 1):
        path = []
        here = word
        while not reached[here]:
            reached[here] = True
            path.append(here)
            here = heads[here - 1]
        # The walk stopped at a word that was reached before: on this very walk means a cycle.
        if here in path:
            raise InvalidSentence(f"dependency cycle through word {here}")


def check_constituents(n: int, left: Sequence[int], right: Sequence[int], labels: Sequence[str]) -> None:
    """Raise InvalidSentence unless this is one binary tree whose leaves are words 0..n-1 in order."""
    if len(left) != n - 1 or len(right) != n - 1 or len(labels) != 2 * n - 1:
        raise InvalidSentence(
            f"{len(left)} left and {len(right)} right children and {len(labels)} labels for {n} tokens: "
            f"a binary tree has {n - 1}, {n - 1} and {2 * n - 1}"
        )
    # In post-order every node takes the two most recent finished subtrees that have no parent yet.
    bounds = [(i, i + 1) for i in range(n)]
    last_end = 0
    last_width = 0
    for node, (l_child, r_child) in enumerate(zip(left, right, strict=True), n):
        if not (0 <= l_child < node and 0 <= r_child < node):
            raise InvalidSentence(f"constituency node {node} has children {l_child}, {r_child}: children come first")
        start, middle = bounds[l_child]
        right_start, end = bounds[r_child]
        if middle != right_start:
            raise InvalidSentence(f"children {l_child}, {r_child} of constituency node {node} are not adjacent")
        if (end, end - start) <= (last_end, last_width):
            raise InvalidSentence(f"constituency node {node} is not in post-order")
        last_end, last_width = end, end - start
        bounds.append((start, end))
    children = sorted([*left, *right])
    if children != list(range(2 * n - 2)):
        raise InvalidSentence("a constituency node has two parents or none")


def dependency_heights(heads: Sequence[int]) -> list[int]:
    """Height of each word (leaf 0) from 1-based heads; any tree, one pass per level."""
    n = len(heads)
    heights = [0] * n
    missing = [0] * n
    for head in heads:
        if head:
            missing[head - 1] += 1
    ready = [i for i in range(n) if not missing[i]]
    for word in ready:
        parent = heads[word] - 1
        if parent >= 0:
            heights[parent] = max(heights[parent], heights[word] + 1)
            missing[parent] -= 1
            if not missing[parent]:
                ready.append(parent)
    return heights


def constituency_heights(n: int, left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Height of each of the ``2n - 1`` nodes (leaf 0)."""
    heights = [0] * n
    for l_child, r_child in zip(left, right, strict=True):
        heights.append(1 + max(heights[l_child], heights[r_child]))
    return heights
