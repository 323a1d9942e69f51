"""The cells by plain recursion, one node at a time: the slow, simple reference for the fast implementations.

Every line is an equation of METHODS: Tai et al. 2015 (eqs. 2-14), structured views 3.2; for recurrent networks, of
``recurrent_cells``.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from structviews.batches.trees import TreeBatch
from structviews.kernels.cells import Cell
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.recurrent_cells import GruResetBefore, Lstm, RecurrentCell
from structviews.kernels.steps import EPSILON

State = tuple[Tensor, Tensor]


def run(cell: Cell, inputs: Tensor, trees: TreeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
    """States ``(N, H)`` in sorted order, root states ``(B, H)``, and attention ``(E,)`` or None.

    Attention is in the order of ``TreeBatch.children``.
    """
    words = trees.words.tolist()
    children = _children(trees)
    states: dict[int, State] = {}
    weights: dict[int, Tensor] = {}

    def visit(node: int) -> State:
        below = [visit(child) for child in children[node]]
        if isinstance(cell, BinaryCell):
            states[node] = binary_node(cell, below) if below else binary_leaf(cell, inputs[words[node]])
        else:
            states[node], alpha = child_sum_node(cell, inputs[words[node]], below)
            weights.update(zip(children[node], alpha, strict=True))
        return states[node]

    for root in trees.roots.tolist():
        visit(root)
    hidden = torch.stack([states[node][0] for node in range(len(children))])
    if not (isinstance(cell, ChildSumCell) and cell.attention):
        return hidden, hidden[trees.roots], None
    attention = [weights[node] for node in trees.children.tolist()]
    return hidden, hidden[trees.roots], torch.stack(attention) if attention else inputs.new_zeros(0)


def _children(trees: TreeBatch) -> list[list[int]]:
    """The children of each node; the left child first in binary trees."""
    children: list[list[int]] = [[] for _ in trees.parent]
    for child in trees.children.tolist():
        children[trees.parent[child]].append(child)
    return children


def child_sum_node(cell: ChildSumCell, x: Tensor, children: list[State]) -> tuple[State, list[Tensor]]:
    """State of a node of a Child-Sum Tree-LSTM, and the weights of its children."""
    i, o, u = (cell.input.weight @ x + cell.input.bias).chunk(3)
    alpha = [x.new_ones(())] * len(children)
    if cell.attention and children:
        q = cell.query.weight @ x + cell.query.bias
        p = [cell.key.weight @ h + cell.key.bias for h, _ in children]
        a = [(q @ p_k) / ((q @ q + EPSILON).sqrt() * (p_k @ p_k + EPSILON).sqrt()) for p_k in p]
        alpha = list(torch.stack(a).softmax(dim=0))
    c = torch.zeros_like(i)
    if children:
        h_sum = torch.stack([a_k * h for a_k, (h, _) in zip(alpha, children, strict=True)]).sum(dim=0)
        u_i, u_o, u_u = (cell.recurrent.weight @ h_sum).chunk(3)
        i, o, u = i + u_i, o + u_o, u + u_u
        w_f = cell.input_forget.weight @ x + cell.input_forget.bias
        for h_k, c_k in children:
            c = c + torch.sigmoid(w_f + cell.recurrent_forget.weight @ h_k) * c_k
    c = c + torch.sigmoid(i) * torch.tanh(u)
    return (torch.sigmoid(o) * torch.tanh(c), c), alpha


def binary_leaf(cell: BinaryCell, x: Tensor) -> State:
    """State of a leaf of a binary Tree-LSTM."""
    i, o, u = (cell.input.weight @ x + cell.bias).chunk(3)
    c = torch.sigmoid(i) * torch.tanh(u)
    return torch.sigmoid(o) * torch.tanh(c), c


def binary_node(cell: BinaryCell, children: list[State]) -> State:
    """State of an internal node of a binary Tree-LSTM."""
    (h_l, c_l), (h_r, c_r) = children
    h = cell.hidden
    b_i, b_o, b_u = cell.bias.chunk(3)
    gate = [cell.recurrent.weight[k * h : (k + 1) * h] @ torch.cat([h_l, h_r]) for k in range(5)]
    i, o, u = gate[0] + b_i, gate[1] + b_o, gate[2] + b_u
    f_l, f_r = gate[3] + cell.bias_forget, gate[4] + cell.bias_forget
    c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_l) * c_l + torch.sigmoid(f_r) * c_r
    return torch.sigmoid(o) * torch.tanh(c), c


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


def lstm_step(weights: Sequence[Tensor], x: Tensor, h: Tensor, c: Tensor) -> State:
    """The next state and cell of an LSTM."""
    w_word, w_state, b_word, b_state = weights
    i, f, g, o = (w_word @ x + b_word + w_state @ h + b_state).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c
