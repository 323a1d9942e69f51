"""The cells by plain recursion, one node at a time: the slow, simple reference for the fast implementations.

The equations of a tree cell are its own; those of recurrent networks are those of ``recurrent_cells``.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from structviews.batches.trees import TreeBatch
from structviews.kernels.cells import Children, State, TreeCell
from structviews.kernels.recurrent_cells import GruResetBefore, Lstm, RecurrentCell


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


def sequence(network: nn.RNNBase, kind: type[RecurrentCell], inputs: Tensor) -> tuple[Tensor, Tensor]:
    """States ``(n, D H)`` of a recurrent network over one sentence's words ``(n, X)``, and final states ``(D, H)``."""
    directions, final = [], []
    for direction, weights in enumerate(network.all_weights):
        words: Iterable[Tensor] = inputs.flip(0) if direction else inputs
        h = c = inputs.new_zeros(network.hidden_size)
        states = []
        for x in words:
            h, c = lstm_step(weights, x, h, c) if kind is Lstm else (gru_step(weights, x, h, kind), c)
            states.append(h)
        directions.append(torch.stack(states[::-1] if direction else states))
        final.append(h)
    return torch.cat(directions, dim=1), torch.stack(final)


def gru_step(weights: Sequence[Tensor], x: Tensor, h: Tensor, kind: type[RecurrentCell]) -> Tensor:
    """The next state of a GRU."""
    w_word, w_state, b_word, b_state = (weight.chunk(3) for weight in weights)
    r = torch.sigmoid(w_word[0] @ x + b_word[0] + w_state[0] @ h + b_state[0])
    z = torch.sigmoid(w_word[1] @ x + b_word[1] + w_state[1] @ h + b_state[1])
    if kind is GruResetBefore:
        n = torch.tanh(w_word[2] @ x + b_word[2] + w_state[2] @ (r * h) + b_state[2])
    else:
        n = torch.tanh(w_word[2] @ x + b_word[2] + r * (w_state[2] @ h + b_state[2]))
    return (1 - z) * n + z * h


def lstm_step(weights: Sequence[Tensor], x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next state and cell of an LSTM."""
    w_word, w_state, b_word, b_state = weights
    i, f, g, o = (w_word @ x + b_word + w_state @ h + b_state).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c
