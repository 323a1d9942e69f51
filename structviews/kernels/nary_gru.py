"""Binary N-ary Tree-GRU (after Kokkinos and Potamianos 2017); only leaves have words.

For a leaf with the word vector x, and a parent of the children l and r, whose states side by side are [h_l; h_r]:

    leaf:      z = sigmoid(Wz x + bz)                   n = tanh(Wn x + bn)
               h = (1 - z) n
    parent:    z = sigmoid(Uz [h_l; h_r] + bz)          n = tanh(Un [g h_l; g h_r] + bn)
               g = sigmoid(Ug [h_l; h_r] + bg)          h = z (h_l + h_r) + (1 - z) n

Here g is the reset gate. Left and right children have their own matrices, as in the N-ary Tree-LSTM of Tai et al.
2015. The paper is Structural attention neural networks for improved sentiment analysis (EACL). Implementations differ:
both children share the reset and the update gate, as here, or each has its own; z and 1 - z may be exchanged; and a
parent's z may read tanh(h). States add up without bound, as cells of a Tree-LSTM do.
"""

import torch
from torch import Tensor, nn

from structviews.kernels.cells import Children, State, TreeCell, tanh
from structviews.kernels.initialisation import xavier
from structviews.runtime.products import PackedLinear


class BinaryGruCell(TreeCell):
    """Binary Tree-GRU.

    Args:
        input_dim: dimension X of a word vector.
        hidden: dimension H of a state.
    """

    binary = True

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = PackedLinear(input_dim, 2 * hidden, bias=False)  # Wn Wz
        self.gates = PackedLinear(2 * hidden, 2 * hidden, bias=False)  # Uz Ug, [left ; right]
        self.new = PackedLinear(2 * hidden, hidden, bias=False)  # Un, [left ; right]
        self.bias = nn.Parameter(torch.zeros(3 * hidden))  # bn bz bg; bn and bz for leaves and parents
        xavier(self, {"input.weight": 2, "gates.weight": 2})

    def gate_biases(self) -> list[Tensor]:
        return [self.bias[self.hidden :]]

    def of_words(self, vectors: Tensor) -> Tensor:
        return self.input(vectors)

    def leaf(self, x: Tensor) -> State:
        n, z = (x + self.bias[: 2 * self.hidden]).chunk(2, dim=1)
        return ((1 - torch.sigmoid(z)) * tanh(n),)

    def node(self, x: Tensor, children: Children) -> State:
        (h,) = children.pairs
        z, g = torch.sigmoid(self.gates(h.flatten(1)) + self.bias[self.hidden :]).chunk(2, dim=1)
        n = tanh(self.new((g[:, None] * h).flatten(1)) + self.bias[: self.hidden])
        return (torch.lerp(n, h.sum(dim=1), z),)  # z (h_l + h_r) + (1 - z) n
