"""The decoders sentence by sentence, by recursion, and cell by cell: what the fast ones are held to."""

import numpy as np

from structviews.parsing.decoding import FORBIDDEN


def spanning_tree(scores):
    """Heads ``(n + 1,)`` of the best tree with exactly one child of the root; ``scores[d, h]``, 0 = root."""
    scores = np.array(scores, dtype=np.float64)
    np.fill_diagonal(scores, FORBIDDEN)
    allowed = scores[1:][np.isfinite(scores[1:])]
    scores[1:, 0] -= 1 + len(scores) * np.ptp(allowed)
    return arborescence(scores)


def arborescence(scores):
    """Heads of the maximum spanning arborescence rooted at 0, by Chu-Liu-Edmonds."""
    scores = scores.copy()
    np.fill_diagonal(scores, FORBIDDEN)
    heads = scores.argmax(axis=1)
    heads[0] = 0
    cycle = find_cycle(heads)
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
    contracted = arborescence(small)
    for i, node in enumerate(outside):
        head = contracted[i]
        heads[node] = cycle[leave[i]] if head == len(outside) else outside[head]
    entered = contracted[-1]
    heads[cycle[enter[entered]]] = outside[entered]
    heads[0] = 0
    return heads


def find_cycle(heads):
    """The nodes of some cycle, or None."""
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


def best_constituents(scores, n):
    """``(start, split, end)`` of every node of the best left-factored tree, in post-order.

    Args:
        scores: ``scores[w, i]`` of the words ``i .. i + w - 1``, float32.
        n: number of words.
    """
    left = {(i, i + 1): np.float32(0) for i in range(n)}
    right = dict(left)
    splits = {}
    for width in range(2, n + 1):
        for start in range(n - width + 1):
            end = start + width
            totals = [left[start, k] + right[k, end] for k in range(start + 1, end)]
            best = max(totals)
            splits[start, end] = start + 1 + totals.index(best)
            left[start, end] = best + max(scores[width, start], np.float32(0))
            right[start, end] = best + scores[width, start]

    def below(start, end):
        if end - start == 1:
            return []
        split = splits[start, end]
        return [*below(start, split), *below(split, end), (start, split, end)]

    return below(0, n)


def children(n, nodes):
    """Left and right child of every node in post-order, words being nodes ``0 .. n - 1``."""
    number = {(i, i + 1): i for i in range(n)} | {(a, b): n + i for i, (a, _, b) in enumerate(nodes)}
    return [number[a, k] for a, k, _ in nodes], [number[k, b] for _, k, b in nodes]


def constituents(n, nodes, scores):
    """Which nodes are constituents: the root, right children and whatever gains."""
    right = {(k, b) for _, k, b in nodes}
    return [(a, b) in right or b - a == n or scores[b - a, a] > 0 for a, _, b in nodes]
