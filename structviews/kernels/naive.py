"""Tree cells by plain recursion, one node at a time: the slow, simple reference for the fast implementations.

The equations are the cell's own.
"""

import torch
from torch import Tensor

from structviews.batches.trees import TreeBatch
from structviews.kernels.cells import Children, State, TreeCell


def run(cell: TreeCell, inputs: Tensor, trees: TreeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
    """States ``(N, H)`` in sorted order, root states ``(B, H)``, and attention ``(E,)`` or None.

    Attention is in the order of ``TreeBatch.children``.
    """
    words, n_words = trees.words.tolist(), len(trees.words)
    of_words = cell.of_words(inputs).to(inputs.dtype)
    children = _children(trees)
    states: dict[int, State] = {}
    weights: dict[int, Tensor] = {}

    def visit(node: int) -> None:
        below = children[node]
        for child in below:
            visit(child)
        x = of_words[words[node], None] if node < n_words else of_words[:0]  # nodes with words come first
        if not below:
            states[node] = cell.leaf(x)
            return
        sent = tuple(torch.cat(each) for each in zip(*(states[child] for child in below), strict=True))
        family = Children(sent, 1, torch.zeros(len(below), dtype=torch.long, device=x.device), _total)
        states[node] = cell.node(x, family)
        if family.attention is not None:
            weights.update(zip(below, family.attention, strict=True))

    for root in trees.roots.tolist():
        visit(root)
    hidden = torch.cat([states[node][0] for node in range(len(children))])
    if not cell.attention:
        return hidden, hidden[trees.roots], None
    attention = [weights[node] for node in trees.children.tolist()]
    return hidden, hidden[trees.roots], torch.stack(attention) if attention else inputs.new_zeros(0)


def _total(values: Tensor) -> Tensor:
    return values.sum(dim=0, keepdim=True)


def _children(trees: TreeBatch) -> list[list[int]]:
    """The children of each node; the left child first in binary trees."""
    children: list[list[int]] = [[] for _ in trees.parent]
    for child in trees.children.tolist():
        children[trees.parent[child]].append(child)
    return children
