"""The decoders sentence by sentence, and cell by cell: what the fast ones are held to."""

from functools import cache
from itertools import product

import networkx as nx
import numpy as np


def spanning_tree(scores):
    """Heads ``(n + 1,)`` of the best tree with exactly one child of the root; ``scores[d, h]``, 0 = root."""
    scores = np.array(scores, dtype=np.float64)
    scores[1:, 0] -= 1 + len(scores) * np.ptp(scores)
    return arborescence(scores)


def arborescence(scores):
    """Heads of the maximum spanning arborescence rooted at 0, by networkx."""
    graph = nx.DiGraph()
    for dependent in range(1, len(scores)):
        heads = [head for head in range(len(scores)) if head != dependent]
        graph.add_weighted_edges_from((head, dependent, scores[dependent, head]) for head in heads)
    tree = nx.maximum_spanning_arborescence(graph)
    return np.array([0, *(next(tree.predecessors(word)) for word in range(1, len(scores)))])


def best_constituents(scores, n):
    """``(start, split, end)`` of every node of the best left-factored tree over ``n`` words, in post-order.

    ``scores[w, i]``, float32, are of the words ``i .. i + w - 1``.
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


def is_tree(heads):
    """Whether heads ``(n + 1,)`` lead from every word to 0."""
    nodes = range(len(heads))
    for _ in heads:
        nodes = [heads[node] for node in nodes]
    return heads[0] == 0 and not any(nodes)


@cache
def all_trees(n):
    """Heads ``(n,)`` of every dependency tree with exactly one child of the root."""
    return [heads for heads in product(range(n + 1), repeat=n) if heads.count(0) == 1 and is_tree((0, *heads))]
