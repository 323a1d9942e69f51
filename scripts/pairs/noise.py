"""Noise in trees: what a worse parser would give."""

import random
from collections.abc import Sequence
from dataclasses import replace

from structviews.corpus.sentence import ParsedSentence

# Of the built-in parser's errors of attachment or label, the share that are of attachment: (100 - UAS) / (100 - LAS).
OF_ATTACHMENT = 0.82


def noised(sentence: ParsedSentence, share: float) -> ParsedSentence:
    """A sentence with errors in both of its trees.

    A share of the words is drawn. Each gets another head, a random one that keeps the tree a tree, or, in 18 of 100
    cases, another relation, that of a random other word. If a root is drawn, a random dependent takes its place. The
    same share of the constituents below the root is drawn: such a constituent loses one of its two parts, and its
    sibling joins the other part, so that the words keep their order. The draw is seeded with the words and the share.

    Args:
        sentence: with both trees.
        share: between 0 and 1.
    """
    rng = random.Random(f"{share:.4f} {' '.join(sentence.tokens)}")
    heads, relations = list(sentence.heads), list(sentence.relations)
    for word in rng.sample(range(len(heads)), len(heads)):
        if rng.random() < share:
            if rng.random() < OF_ATTACHMENT:
                attach(heads, word, rng)
            else:
                relabel(relations, word, rng)
    left, right, labels = rotated(sentence, share, rng)
    return replace(sentence, heads=tuple(heads), relations=tuple(relations), left=left, right=right, labels=labels)


def attach(heads: list[int], word: int, rng: random.Random) -> None:
    """Give a word, counted from 0, another head in place; of a root, make a dependent the root."""
    if not heads[word]:
        dependents = [other for other, head in enumerate(heads) if head == word + 1]
        if dependents:
            root = rng.choice(dependents)
            heads[root], heads[word] = 0, root + 1
        return
    others = [head for head in range(1, len(heads) + 1) if head != heads[word] and not is_below(heads, head, word + 1)]
    if others:
        heads[word] = rng.choice(others)


def is_below(heads: Sequence[int], word: int, other: int) -> bool:
    """Whether a word is another one or depends on it, directly or not; both counted from 1."""
    while word and word != other:
        word = heads[word - 1]
    return bool(word)


def relabel(relations: list[str], word: int, rng: random.Random) -> None:
    """Give a word the relation of a random other one that differs, in place."""
    others = [relation for relation in relations if relation != relations[word]]
    if others:
        relations[word] = rng.choice(others)


def rotated(
    sentence: ParsedSentence, share: float, rng: random.Random
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """Children and labels of a binary tree in which a share of the nodes below the root was rotated.

    ``((a b) c)`` becomes ``(a (b c))`` and the reverse; the node keeps its label.
    """
    n = len(sentence.tokens)
    children = [[-1, -1]] * n + [list(pair) for pair in zip(sentence.left, sentence.right, strict=True)]
    for parent in range(2 * n - 2, n - 1, -1):
        for side in rng.sample((0, 1), 2):
            node = children[parent][side]
            if node >= n and rng.random() < share:
                # The node gives its outer part to the parent, and takes the parent's other part.
                outer, inner = children[node][side], children[node][1 - side]
                sibling = children[parent][1 - side]
                children[parent][side], children[parent][1 - side] = outer, node
                children[node][side], children[node][1 - side] = inner, sibling
                break
    return in_post_order(n, children, sentence.labels)


def in_post_order(
    n: int, children: Sequence[Sequence[int]], labels: Sequence[str]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """A binary tree with its nodes renumbered, children before their parents; leaves are the nodes below ``n``."""
    order: list[int] = []
    waiting = [2 * n - 2] if n > 1 else []
    while waiting:  # parents first, right before left: the reverse of post-order
        node = waiting.pop()
        order.append(node)
        waiting += [child for child in children[node] if child >= n]
    order.reverse()
    place = {node: n + i for i, node in enumerate(order)}
    left, right = (tuple(place.get(children[node][side], children[node][side]) for node in order) for side in (0, 1))
    return left, right, (*labels[:n], *(labels[node] for node in order))
