"""A parsed sentence: words, dependency tree, binarised constituency tree."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


class InvalidSentence(ValueError):  # noqa: N818 - named for the state of the sentence
    """A sentence whose annotation is not a tree over its tokens; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """The tokens of a sentence and the trees over them, validated on construction.

    With ``n`` tokens, the constituency tree has ``2n - 1`` nodes: leaves are nodes ``0..n-1``,
    internal nodes ``n..2n-2`` in post-order (so children precede their parent and the last node
    is the root). If a kind of tree is missing, all its fields are empty.

    Attributes:
        tokens: the ``n >= 1`` words, shared by both trees.
        tags: ``n`` part-of-speech tags, or empty.
        heads: ``n`` 1-based heads, 0 for the root; exactly one root, no cycles.
        relations: ``n`` dependency relations.
        left: left child of each of the ``n - 1`` internal nodes.
        right: right child of each internal node.
        labels: ``2n - 1`` labels. A unary chain is one label, joined by ``+`` from the top
            (``S+VP``); a leaf carries the chain above its tag; an internal node introduced by
            binarisation has an empty label.

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

    @classmethod
    def unchecked(cls, *fields: tuple[str, ...] | tuple[int, ...]) -> "ParsedSentence":
        """A sentence from all its fields, in order, without validation; check them with ``are_trees``."""
        sentence = cls.__new__(cls)
        for name, value in zip(cls.__slots__, fields, strict=True):
            object.__setattr__(sentence, name, value)
        return sentence

    @property
    def has_dependencies(self) -> bool:
        return bool(self.heads or self.relations)

    @property
    def has_constituents(self) -> bool:
        return bool(self.labels or self.left or self.right)

    @property
    def dependency_heights(self) -> list[int]:
        """Height of each word in the dependency tree, with leaves at 0; length ``n``."""
        return dependency_heights(self.heads)

    @property
    def constituency_heights(self) -> list[int]:
        """Height of each constituency node, with leaves at 0; length ``2n - 1``."""
        return constituency_heights(len(self.tokens), self.left, self.right)

    def spans(self) -> list[tuple[int, int, str]]:
        """Labelled constituents as ``(start, end, label)``, ends exclusive, in node order.

        Nodes without a label are left out; a leaf's unary chain (``NP`` over a single word) is a
        span of length one.
        """
        if not self.has_constituents:
            return []
        bounds = [(i, i + 1) for i in range(len(self.tokens))]
        for l_child, r_child in zip(self.left, self.right, strict=True):
            bounds.append((bounds[l_child][0], bounds[r_child][1]))
        return [(*b, label) for b, label in zip(bounds, self.labels, strict=True) if label]


def check_tokens(tokens: Sequence[str]) -> None:
    """Raise InvalidSentence if there are no tokens, or if any is empty or contains white space."""
    if not tokens:
        raise InvalidSentence("a sentence needs at least one token")
    # Joining and splitting returns the same tokens if none is empty or contains white space.
    if " ".join(tokens).split() == list(tokens):
        return
    for i, token in enumerate(tokens, 1):
        if token.split() != [token]:
            raise InvalidSentence(f"token {i} is {token!r}: a token must not be empty or contain white space")


def check_dependencies(n: int, heads: Sequence[int], relations: Sequence[str]) -> None:
    """Raise InvalidSentence unless ``heads`` (1-based, 0 = root) is one tree over ``n`` words."""
    if len(heads) != n or len(relations) != n:
        raise InvalidSentence(f"{len(heads)} heads and {len(relations)} relations for {n} tokens")
    roots = [i for i, head in enumerate(heads, 1) if head == 0]
    if len(roots) != 1:
        raise InvalidSentence(f"{len(roots)} dependency roots (words {roots[:5]}): a sentence must have exactly one")
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
        # The walk stopped at a word reached before; if that was on this walk, there is a cycle.
        if here in path:
            raise InvalidSentence(f"dependency cycle through word {here}")


def check_constituents(n: int, left: Sequence[int], right: Sequence[int], labels: Sequence[str]) -> None:
    """Raise InvalidSentence unless this is one binary tree whose leaves are the words 0..n-1 in order."""
    if len(left) != n - 1 or len(right) != n - 1 or len(labels) != 2 * n - 1:
        raise InvalidSentence(
            f"{len(left)} left and {len(right)} right children and {len(labels)} labels for {n} tokens: "
            f"a binary tree has {n - 1}, {n - 1} and {2 * n - 1}"
        )
    # In post-order every node takes the two most recently completed subtrees without a parent.
    bounds = [(i, i + 1) for i in range(n)]
    last_end = 0
    last_width = 0
    for node, (l_child, r_child) in enumerate(zip(left, right, strict=True), n):
        if not (0 <= l_child < node and 0 <= r_child < node):
            raise InvalidSentence(f"node {node} has children {l_child}, {r_child}: children must precede their parent")
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


def are_trees(lengths: np.ndarray, heads: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether each of many sentences passes ``check_dependencies`` and ``check_constituents``, vectorised.

    Args:
        lengths: ``(B,)`` number of words of each sentence.
        heads: ``(S,)`` heads of all words, sentences concatenated.
        left: ``(S - B,)`` left children of all internal nodes.
        right: ``(S - B,)`` right children.

    Returns:
        ``(B,)`` bool.
    """
    both: np.ndarray = _are_dependencies(lengths, heads) & _are_constituents(lengths, left, right)
    return both


def _are_dependencies(lengths: np.ndarray, heads: np.ndarray) -> np.ndarray:
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    inside = (heads >= 0) & (heads <= lengths[sentence])
    one_root = np.bincount(sentence[heads == 0], minlength=len(lengths)) == 1
    # Following the heads from each word must end at a root; roots are their own heads.
    above = np.where(inside & (heads > 0), starts[sentence] + heads - 1, np.arange(len(heads)))
    trees: np.ndarray = one_root & _all(inside & (heads[_follow(above, lengths)] == 0), sentence, len(lengths))
    return trees


def _are_constituents(lengths: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    batch = len(lengths)
    sentence = np.repeat(np.arange(batch), lengths - 1)
    inner = lengths - 1
    starts = np.cumsum(lengths + inner) - lengths - inner
    # Nodes numbered across all sentences.
    node = np.arange(len(left)) + np.repeat(starts + lengths - np.cumsum(inner) + inner, inner)
    first = starts[sentence]
    inside = (np.minimum(left, right) >= 0) & (np.maximum(left, right) < node - first)
    left, right = (np.where(inside, child, 0) + first for child in (left, right))
    parents = np.bincount(np.concatenate([left, right]), minlength=int((lengths + inner).sum()))
    parents[starts + 2 * inner] += 1  # count the root as having a parent
    one_parent = np.minimum.reduceat(parents == 1, starts) if batch else np.zeros(0, dtype=bool)
    # The first and the last word of each node.
    begin, end = (np.arange(len(parents)) for _ in range(2))
    begin[node], end[node] = left, right
    begin, end = _follow(begin, lengths), _follow(end, lengths)
    adjacent = end[left] + 1 == begin[right]
    # In post-order, ends ascend, and among nodes with the same end the narrower come first.
    place = end[node] * len(parents) - begin[node]
    in_order = np.diff(place, prepend=-1 - len(parents) ** 2) > 0
    trees: np.ndarray = one_parent & _all(inside & adjacent & in_order, sentence, batch)
    return trees


def _follow(pointers: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Follow pointers for at least as many steps as the longest sentence has words, by pointer doubling."""
    for _ in range(int(lengths.max(initial=0)).bit_length()):
        pointers = pointers[pointers]
    return pointers


def _all(right: np.ndarray, sentence: np.ndarray, batch: int) -> np.ndarray:
    """Whether all items of each sentence are right."""
    whole: np.ndarray = np.bincount(sentence[~right], minlength=batch) == 0
    return whole


def dependency_heights(heads: Sequence[int]) -> list[int]:
    """Height of each word (leaf 0) from 1-based heads, bottom up."""
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


def heights_below(parents: np.ndarray) -> np.ndarray:
    """Height of every node of a forest, with leaves at 0, computed level by level.

    Args:
        parents: ``(N,)`` the parent of each node, -1 for a root.

    Returns:
        ``(N,)``, int16.
    """
    heights = np.zeros(len(parents), dtype=np.int16)
    above, level = parents[parents >= 0], 0
    while len(above):
        level += 1
        heights[above] = level
        above = parents[above]
        above = above[above >= 0]
    return heights
