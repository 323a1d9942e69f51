"""A parsed sentence: words, dependency tree, binarised constituency tree."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from structviews.corpus.tree_arrays import constituency_parents, dependency_parents, heights

# What ``plain_text`` makes of tokens.
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": "“", "''": "”"}
# Nothing stands before the one, nor after the other; nor on either side of what joins.
NO_SPACE_BEFORE = re.compile(r"[.,;:!?)\]}’”…%°。，、：；！？）」』]+|['’](s|m|d|ll|re|ve|t)|n['’]t", re.IGNORECASE)
NO_SPACE_AFTER = re.compile(r"[(\[{“‘¿¡£€#（「『]|\w*\$")
JOINS = frozenset("-‐‑/—_")
QUOTES = frozenset("\"'")
ENDS = frozenset(".,!?")
# Words that tokenisers take apart.
HALVES = {("can", "not"), ("gon", "na"), ("wan", "na"), ("got", "ta"), ("gim", "me"), ("lem", "me")}
# Scripts without spaces: Chinese and Japanese.
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
# Of the heads' marginals, and of the probabilities of the constituents' labels: the product and the mean; NaN where a
# sentence has no such tree.
CONFIDENCE = ("heads product", "heads mean", "labels product", "labels mean")


class InvalidSentence(ValueError):  # noqa: N818 - named for the state of the sentence
    """A sentence whose annotation is not a tree over its tokens; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """The tokens of a sentence and the trees over them, validated on construction.

    With ``n`` tokens, the constituency tree has ``2n - 1`` nodes: leaves are nodes ``0..n-1``, internal nodes
    ``n..2n-2`` in post-order (so children precede their parent and the last node is the root). If a kind of tree is
    missing, all its fields are empty. InvalidSentence is raised for fields that are no trees over the tokens.

    Attributes:
        tokens: the ``n >= 1`` words, shared by both trees.
        tags: ``n`` part-of-speech tags, or empty.
        heads: ``n`` 1-based heads, 0 for the root; exactly one root, no cycles.
        relations: ``n`` dependency relations.
        left, right: the children of each of the ``n - 1`` internal nodes.
        labels: ``2n - 1`` labels. A unary chain is one label, joined by ``+`` from the top (``S+VP``); a leaf carries
            the chain above its tag; an internal node introduced by binarisation has an empty label.
        confidence: how sure the parser is, or empty: see ``CONFIDENCE``. Sentences that differ in it alone are equal.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...] = ()
    heads: tuple[int, ...] = ()
    relations: tuple[str, ...] = ()
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    confidence: tuple[float, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        if self.tags and len(self.tags) != len(self.tokens):
            raise InvalidSentence(f"{len(self.tags)} tags for {len(self.tokens)} tokens")
        if self.has_dependencies:
            check_dependencies(len(self.tokens), self.heads, self.relations)
        if self.has_constituents:
            check_constituents(len(self.tokens), self.left, self.right, self.labels)

    @classmethod
    def unchecked(cls, *fields: tuple[str, ...] | tuple[int, ...], confidence: tuple[float, ...] = ()) -> Self:
        """A sentence from its fields, in order, without validation, for fields that were checked before."""
        sentence = cls.__new__(cls)
        for name, value in zip(cls.__slots__, (*fields, confidence), strict=True):
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
        return heights(dependency_parents(np.array(self.heads, int), np.array([len(self.heads)]))).tolist()

    @property
    def constituency_heights(self) -> list[int]:
        """Height of each constituency node, with leaves at 0; length ``2n - 1``."""
        lengths = np.array([len(self.tokens)] * self.has_constituents, int)
        parents = constituency_parents(np.array(self.left, int), np.array(self.right, int), lengths)
        return heights(parents).tolist()

    def spans(self) -> list[tuple[int, int, str]]:
        """Labelled constituents as ``(start, end, label)``, ends exclusive, in node order.

        Nodes without a label are left out; a leaf's unary chain (``NP`` over a single word) has length one.
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
    reached = [True] + [False] * n
    for word in range(1, n + 1):
        path, here = [], word
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
    last_end = last_width = 0
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
    if sorted([*left, *right]) != list(range(2 * n - 2)):
        raise InvalidSentence("a constituency node has two parents or none")


def plain_text(tokens: Sequence[str]) -> str:
    """The text that tokens were probably made from.

    Quotation marks that do not say whether they open or close do so in turn; a hyphen joins the words beside it. Tokens
    alone cannot tell ``well-known`` from ``well - known``: of a text's sentences some come out with other white space.
    """
    text = ""
    open_quotes: list[str] = []
    glued = True  # nothing comes between the text so far and the next token
    words = [ESCAPES.get(token, token) for token in tokens]
    for i, word in enumerate(words):
        if word in QUOTES:
            closes = word in open_quotes or _closes_an_earlier(words, i)
            text += word if closes or glued else f" {word}"
            glued = not closes
            if not closes:
                open_quotes.append(word)
            elif word in open_quotes:
                open_quotes.remove(word)
            continue
        joins = word in JOINS and 0 < i < len(words) - 1
        before = words[i - 1] if i else ""
        unspaced = UNSPACED.match(before[-1:]) and UNSPACED.match(word)
        attached = glued or joins or unspaced or NO_SPACE_BEFORE.fullmatch(word) or (before.lower(), word) in HALVES
        text += word if attached else f" {word}"
        glued = joins or bool(NO_SPACE_AFTER.fullmatch(word))
    return text


def _closes_an_earlier(words: Sequence[str], i: int) -> bool:
    """Whether a mark that nothing opened ends a quotation of the sentence before, or is an apostrophe."""
    before, after = words[:i], words[i + 1 :]
    if not before:
        return False
    if words[i] == "'" and "'" not in after and before[-1][-1].isalpha():
        return True  # the birds' nests, mornin'
    if before[-1][-1] not in ENDS or words[i] in before:
        return False
    if words[i] in after:  # "It is," he said, "so.": the next one opens, after a comma
        return after[0][0].islower() and after[after.index(words[i]) - 1] in ENDS
    return not after or after[0][0].islower()
