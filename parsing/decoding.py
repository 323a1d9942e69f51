"""Trees from scores: CKY for constituents, maximum spanning trees for dependencies.

Both decode a padded batch and are well-formed by construction.

Shapes: B sentences, n words of the longest (n_b of one), L = n + 1 positions (0 is the root).
"""

import numpy as np

# The score of an edge that no tree has; every word can hang on the root, so there always is another.
FORBIDDEN = -np.inf


def spanning_trees(scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Best dependency tree with a single root for each sentence.

    Every word's best head is tried first: where that is a tree with one root it is the maximum
    (no tree can score higher); the others go through Chu-Liu-Edmonds.

    Args:
        scores: ``(B, n + 1, n + 1)``; ``scores[b, d, h]`` for head ``h`` of word ``d``, 0 = root.
        lengths: ``(B,)`` number of words.

    Returns:
        ``(B, n + 1)`` heads; column 0 and padding hold 0.
    """
    scores = np.array(scores, dtype=np.float64)
    size = scores.shape[1]
    positions = np.arange(size)
    scores[:, positions, positions] = FORBIDDEN
    scores = np.where(positions[None, None, :] > lengths[:, None, None], FORBIDDEN, scores)
    heads = scores.argmax(axis=2)
    words = (positions >= 1) & (positions <= lengths[:, None])
    heads[~words] = 0
    one_root = ((heads == 0) & words).sum(axis=1) == 1
    for b in np.flatnonzero(~(one_root & _acyclic(heads))):
        length = int(lengths[b])
        heads[b, : length + 1] = single_root_tree(scores[b, : length + 1, : length + 1])
    return heads


def _acyclic(heads: np.ndarray) -> np.ndarray:
    """Whether following heads ``(B, L)`` from everywhere ends at 0, by doubling the steps."""
    reach = heads
    steps = 1
    while steps < heads.shape[1]:
        reach = np.take_along_axis(reach, reach, axis=1)
        steps *= 2
    return (reach == 0).all(axis=1)


def single_root_tree(scores: np.ndarray) -> np.ndarray:
    """Heads ``(n + 1,)`` of the best tree with exactly one child of the root.

    Lowering every root edge by more than all other scores differ leaves the ranking of trees with
    equally many root edges as it was and puts those with one first (Stanojevic and Cohen 2021).
    """
    scores = scores.copy()
    np.fill_diagonal(scores, FORBIDDEN)
    allowed = scores[1:][np.isfinite(scores[1:])]
    scores[1:, 0] -= 1 + len(scores) * np.ptp(allowed)
    return chu_liu_edmonds(scores)


def chu_liu_edmonds(scores: np.ndarray) -> np.ndarray:
    """Heads of the maximum spanning arborescence rooted at 0.

    Args:
        scores: ``(L, L)``; ``scores[d, h]`` for head ``h`` of ``d``; row 0 is ignored.

    Returns:
        ``(L,)`` heads, 0 for the root itself.
    """
    scores = scores.copy()
    np.fill_diagonal(scores, FORBIDDEN)
    heads = scores.argmax(axis=1)
    heads[0] = 0
    cycle = _find_cycle(heads)
    if cycle is None:
        return heads
    inside = np.zeros(len(heads), dtype=bool)
    inside[cycle] = True
    outside = np.flatnonzero(~inside)
    gain = scores[cycle] - scores[cycle, heads[cycle]][:, None]
    # The cycle becomes one node, last in the contracted graph: the best way in breaks one of its
    # edges, and each outside node takes the best of its members as head.
    enter = gain[:, outside].argmax(axis=0)
    leave = scores[np.ix_(outside, cycle)].argmax(axis=1)
    small = np.full((len(outside) + 1,) * 2, FORBIDDEN)
    small[:-1, :-1] = scores[np.ix_(outside, outside)]
    small[-1, :-1] = gain[enter, outside]
    small[:-1, -1] = scores[outside, cycle[leave]]
    contracted = chu_liu_edmonds(small)
    for i, node in enumerate(outside):
        head = contracted[i]
        heads[node] = cycle[leave[i]] if head == len(outside) else outside[head]
    entered = contracted[-1]
    heads[cycle[enter[entered]]] = outside[entered]
    heads[0] = 0
    return heads


def _find_cycle(heads: np.ndarray) -> np.ndarray | None:
    state = np.zeros(len(heads), dtype=np.int64)  # 0 = not seen, otherwise the walk that saw it
    state[0] = -1
    for start in range(1, len(heads)):
        node = start
        while state[node] == 0:
            state[node] = start
            node = heads[node]
        if state[node] == start:
            cycle = [node]
            while heads[cycle[-1]] != node:
                cycle.append(heads[cycle[-1]])
            return np.array(cycle)
    return None


def cky(scores: np.ndarray, lengths: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Best n-ary tree for each sentence, as the left-factored binary tree that stands for it.

    A span with no constituent may only be a left child, which is how left factoring binarises
    (``(X A B C)`` -> ``(X (. A B) C)``): so each n-ary tree is one derivation, and the best
    derivation is the best n-ary tree. A tree scores the sum of its labelled spans.

    Args:
        scores: ``(B, n, n + 1)``; ``scores[b, i, w]`` is the best label's score for the words
            ``i .. i + w - 1``, relative to no constituent there; columns 0 and 1 are not read.
        lengths: ``(B,)`` number of words.

    Returns:
        For each sentence its internal nodes in post-order: ``spans`` of shape ``(n_b - 1, 2)``
        as ``(start, end)``, end exclusive, and ``splits`` of shape ``(n_b - 1,)``.
    """
    batch, n, _ = scores.shape
    # By start and by end, so that the two parts of every split of a span lie side by side.
    left = np.zeros((batch, n + 1, n + 1), dtype=np.float32)
    right = np.zeros((batch, n + 1, n + 1), dtype=np.float32)
    split = np.zeros((batch, n + 1, n + 1), dtype=np.int16)
    for width in range(2, n + 1):
        starts = n - width + 1
        total = left[:, :starts, 1:width] + right[:, width : n + 1, width - 1 : 0 : -1]
        best = total.argmax(axis=2)
        inside = np.take_along_axis(total, best[..., None], axis=2)[..., 0]
        label = scores[:, :starts, width]
        split[:, :starts, width] = best + 1
        left[:, :starts, width] = inside + np.maximum(label, 0)
        right[:, width : n + 1, width] = inside + label
    return _trace_back(split, lengths)


def _trace_back(split: np.ndarray, lengths: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Follow the splits of all sentences at once, widest spans first."""
    batch, size, _ = split.shape
    chosen = np.zeros(split.shape, dtype=bool)
    chosen[np.arange(batch), 0, lengths] = True
    for width in range(size - 1, 1, -1):
        sentence, start = np.nonzero(chosen[:, :, width])
        first = split[sentence, start, width]
        chosen[sentence, start, first] = True
        chosen[sentence, start + first, width - first] = True
    sentence, start, widths = np.nonzero(chosen[:, :, 2:])
    widths = widths + 2
    end = start + widths
    order = np.lexsort((widths, end, sentence))
    spans = np.stack([start, end], axis=1)[order]
    splits = (start + split[sentence, start, widths])[order]
    bounds = np.cumsum(lengths - 1)[:-1]
    return list(zip(np.split(spans, bounds), np.split(splits, bounds), strict=True))
