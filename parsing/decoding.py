"""Decode trees from scores: CKY for constituents, maximum spanning trees for dependencies.

Both decode a padded batch at once, and their trees are well-formed by construction.

Shapes: B sentences, n words in the longest sentence (n_b in sentence b), L = n + 1 positions (0 is the root).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from structviews.runtime.arrays import Array

# Score of an edge that no tree may have; every word can attach to the root, so there is always an alternative.
FORBIDDEN = -np.inf


def spanning_trees(scores: Array, lengths: Array) -> Array:
    """Best single-root dependency tree for each sentence: ``(B, L)`` heads; column 0 and padding hold 0.

    ``scores[b, d, h] (B, L, L)`` are of head ``h`` for word ``d``, 0 = root; ``lengths (B,)`` are numbers of words.
    Each word's best head is tried first. If these heads form a tree with one root, no tree can score higher; the other
    sentences go through Chu-Liu-Edmonds.
    """
    positions = np.arange(scores.shape[1])
    forbidden = (positions > lengths[:, None, None]) | np.eye(len(positions), dtype=bool)
    scores = np.where(forbidden, FORBIDDEN, scores)
    words = (positions >= 1) & (positions <= lengths[:, None])
    heads = np.where(words, scores.argmax(axis=2), 0)
    one_root = ((heads == 0) & words).sum(axis=1) == 1
    hard = np.flatnonzero(~(one_root & ~_ends(heads).any(axis=1)))
    if len(hard):
        heads[hard] = single_root_trees(scores[hard], words[hard])
    return heads


def marginals(scores: Array, lengths: Array) -> Array:
    """The probability ``(B, L, L)``, float64, of each arc in a random tree, for arguments as in ``spanning_trees``.

    A tree has one root, and a probability proportional to the exponential of its arcs' scores (Koo et al. 2007, section
    3.2, by the matrix-tree theorem).
    """
    positions = np.arange(scores.shape[1])
    forbidden = (positions > lengths[:, None, None]) | (positions == positions[:, None])
    scores = np.where(forbidden, FORBIDDEN, scores.astype(np.float64))[:, 1:]
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))  # of each word's arcs, which every tree has one of
    padding = positions[1:] > lengths[:, None]
    weights[padding] = 0
    root, arcs = weights[:, :, 0], weights[:, :, 1:]
    # The Laplacian, heads in rows, whose first row has the arcs from the root instead.
    laplacian = -arcs.transpose(0, 2, 1)
    diagonal = np.arange(scores.shape[1])
    laplacian[:, diagonal, diagonal] = np.where(padding, 1, arcs.sum(axis=2))
    laplacian[:, 0] = root
    inverse = np.linalg.inv(laplacian)
    found = np.zeros((len(scores), len(positions), len(positions)))
    found[:, 1:, 0] = root * inverse[:, :, 0]
    of_word = inverse[:, diagonal, diagonal]
    of_word[:, 0] = inverse[:, :, 0] = 0
    found[:, 1:, 1:] = arcs * (of_word[:, :, None] - inverse)
    return found


def _ends(heads: Array) -> Array:
    """The node reached by following heads ``(B, L)`` for at least L steps: 0, or a node on a cycle."""
    first = heads.shape[1] * np.arange(len(heads))[:, None]
    ends = (first + heads).ravel()
    steps = 1
    while steps < heads.shape[1]:
        ends = ends[ends]
        steps *= 2
    return ends.reshape(heads.shape) - first


def single_root_trees(scores: Array, words: Array) -> Array:
    """Heads ``(B, L)`` of the best trees in which the root has exactly one child; ``words (B, L)`` is true at words.

    Lowering the scores of all root edges equally does not change the ranking of trees with one root edge. So if the
    best tree has several root edges, their scores are lowered further and further until it has one. (Lowering them
    by a large amount at once would also work, but without good root edges nearly every word is part of a cycle.)
    Scores as in ``spanning_trees``: of edges between different words finite, and ``FORBIDDEN`` where padding is a head.
    """
    scores = scores.astype(np.float64)
    scores[~words] = FORBIDDEN
    scores[~words, 0] = 0  # padding attaches to the root
    heads = chu_liu_edmonds(scores)
    step = 1.0
    while len(several := np.flatnonzero(((heads == 0) & words).sum(axis=1) > 1)):
        scores[several, :, 0] -= step * words[several]
        heads[several] = chu_liu_edmonds(scores[several])
        step *= 2
    return heads


def chu_liu_edmonds(scores: Array) -> Array:
    """Heads ``(B, L)`` of the maximum spanning arborescences rooted at 0, for scores as in ``spanning_trees``.

    While the best heads of a sentence contain a cycle, one of its cycles is contracted, in all such
    sentences at once; then the contractions are undone in reverse order.
    """
    scores = scores.copy()
    scores[:, np.arange(scores.shape[1]), np.arange(scores.shape[1])] = FORBIDDEN
    scores[:, 0] = FORBIDDEN
    undoing: list[Callable[[Array], None]] = []
    heads: Array = scores.argmax(axis=2)  # 0 for the root, which has no scores
    rows = np.arange(len(scores))
    while True:
        ends = _ends(heads[rows]).max(axis=1, initial=0)
        rows, node = rows[ends > 0], ends[ends > 0]
        if not len(rows):
            break
        scores[rows], undo = _contract(scores[rows], rows, heads[rows], node)
        undoing.append(undo)
        heads[rows] = scores[rows].argmax(axis=2)
    for undo in reversed(undoing):
        undo(heads)
    return heads


def _contract(scores: Array, rows: Array, heads: Array, node: Array) -> tuple[Array, Callable[[Array], None]]:
    """Contract the cycle through ``node`` into one node, in each of R sentences, whose indices are ``rows``.

    The best edge into the cycle replaces one of the cycle's edges, and each outside node takes the best of
    the cycle's members as head. The other members keep no edges, and so get head 0. Returns the scores, and what turns
    heads ``(B, L)`` in the contracted graphs into those in the original ones, in place.
    """
    each = np.arange(len(rows))
    inside = np.zeros(heads.shape, dtype=bool)
    member = node
    while not inside[each, member].all():
        inside[each, member] = True
        member = heads[each, member]
    replaced = np.where(inside, np.take_along_axis(scores, heads[:, :, None], axis=2)[..., 0], 0)
    into = np.where(inside[:, :, None], scores - replaced[:, :, None], FORBIDDEN)
    out_of = np.where(inside[:, None, :], scores, FORBIDDEN)
    enter, leave = into.argmax(axis=1), out_of.argmax(axis=2)

    def undo(found: Array) -> None:
        now = found[rows]
        entered = now[each, node]
        now = np.where(now == node[:, None], leave, now)
        now = np.where(inside, heads, now)
        now[each, enter[each, entered]] = entered
        found[rows] = now

    scores = np.where(inside[:, :, None] | inside[:, None, :], FORBIDDEN, scores)
    scores[each, node] = np.where(inside, FORBIDDEN, into.max(axis=1))
    scores[each, :, node] = np.where(inside, FORBIDDEN, out_of.max(axis=2))
    return scores, undo


class BinaryTrees(NamedTuple):
    """Binary trees over sentences: their N internal nodes, sentence by sentence, in post-order; ``(N,)`` each.

    In a sentence, words are the nodes ``0 .. n_b - 1`` and internal nodes ``n_b .. 2 n_b - 2``.
    """

    sentence: Array
    start: Array  # its first word
    split: Array  # the first word of its right child
    end: Array  # the word after its last
    left: Array  # its children
    right: Array
    whole: Array  # whether it is a right child or the root, and therefore a constituent


def cky(scores: Array, lengths: Array) -> BinaryTrees:
    """Best n-ary tree for each sentence, as a left-factored binary tree.

    Spans that are not constituents may only be left children, as in left factoring
    (``(X A B C)`` -> ``(X (. A B) C)``). So each n-ary tree has exactly one derivation, and the best
    derivation is the best n-ary tree. A tree's score is the sum over its labelled spans.

    ``scores[w, i, b] (n + 1, n, B)``, float32, is the best label's score for the words ``i .. i + w - 1``, relative to
    no constituent; rows 0 and 1 are not read. ``lengths (B,)`` are numbers of words.
    """
    _, n, batch = scores.shape
    scores = scores.reshape(n + 1, -1)
    above_0 = np.maximum(scores, 0)
    # By width, and by start or end and sentence. The right parts' rows are in reverse (n - width): so the two parts of
    # all splits of a span are plain slices.
    left = np.zeros((n + 1, (n + 1) * batch), dtype=np.float32)
    right = np.zeros_like(left)
    for width in range(2, n + 1):
        end = width * batch
        label = scores[width, : len(left[0]) - end]
        best = np.maximum.reduce(left[1:width, : len(label)] + right[n - width + 1 : n, end:])
        np.add(best, above_0[width, : len(label)], out=left[width, : len(label)])
        np.add(best, label, out=right[n - width, end:])
    # From the top, the best split of each span in the tree; few are, so that it is computed again. ``splits`` has the
    # width of each node's left child; 1 as long as only the node is known, and for words; 0 elsewhere.
    splits = np.zeros(left.shape, dtype=np.int64)
    splits[lengths, np.arange(batch)] = 1
    for width in range(n, 1, -1):
        (place,) = splits[width].nonzero()
        if len(place):
            total = left[1:width].take(place, 1) + right[n - width + 1 : n].take(place + width * batch, 1)
            best_split = total.argmax(axis=0) + 1
            splits[width][place] = best_split
            splits[best_split, place] = 1
            splits[width - best_split, place + best_split * batch] = 1
    above_2, place = splits[2:].nonzero()
    start, sentence = np.divmod(place, batch)
    split, end = start + splits[above_2 + 2, place], start + above_2 + 2
    # Post-order means ascending ends; of nodes with the same end, the narrower come first.
    size = n + 1
    order = np.argsort(((sentence * size) + end) * size - start)
    sentence, start, split, end = (each[order] for each in (sentence, start, split, end))
    node = np.zeros((batch, size, size), dtype=np.int64)
    words = np.arange(n)
    node[:, words, words + 1] = words
    internal = lengths - 1
    # Of a sentence's first internal node among all, less its number in the sentence.
    offset = (np.cumsum(internal) - internal - lengths)[sentence]
    node[sentence, start, end] = np.arange(len(sentence)) - offset
    left_child, right_child = node[sentence, start, split], node[sentence, split, end]
    whole = end - start == lengths[sentence]
    whole[(right_child + offset)[split + 1 < end]] = True
    return BinaryTrees(sentence, start, split, end, left_child, right_child, whole)
