"""Recurrent networks by their equations, one word at a time."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from structviews.kernels.recurrent import GruResetBefore, Lstm, RecurrentCell


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
