"""Child-Sum Tree-GRU (Zhou et al. 2016).

For a node with the word vector x and the children k:

    b = sum_k h_k
    z = sigmoid(Wz x + Uz b + bz)
    r_k = sigmoid(Wr x + Ur h_k + br)
    n = tanh(Wn x + Un sum_k r_k h_k + bn)
    h = z b + (1 - z) n

This is the Child-Sum Tree-GRU of Modelling sentence pairs with tree-structured attentive encoder (COLING), as their
code has it: each child has a reset gate, as it has a forget gate in the Child-Sum Tree-LSTM. The cell of pytree,
Simoulin's toolkit, is the same with z and 1 - z exchanged. Others have one reset gate, which reads and resets the sum
of the children, so that the cell is a GRU of that sum. States add up without bound, as cells of a Tree-LSTM do.
"""

import torch
from torch import Tensor

from structviews.kernels.cells import Children, State, TreeCell, tanh
from structviews.kernels.initialisation import xavier
from structviews.runtime.products import PackedLinear


class ChildSumGruCell(TreeCell):
    """Child-Sum Tree-GRU.

    Args:
        input_dim: dimension X of a word vector.
        hidden: dimension H of a state.
    """

    binary = False

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = PackedLinear(input_dim, 3 * hidden)  # Wn Wz Wr, bn bz br
        self.new = PackedLinear(hidden, hidden, bias=False)  # Un
        self.update = PackedLinear(hidden, hidden, bias=False)  # Uz
        self.reset = PackedLinear(hidden, hidden, bias=False)  # Ur
        xavier(self, {"input.weight": 3})

    def gate_biases(self) -> list[Tensor]:
        return [self.input.bias[self.hidden :]]

    def of_words(self, vectors: Tensor) -> Tensor:
        return self.input(vectors)

    def leaf(self, x: Tensor) -> State:
        n, z, _ = x.chunk(3, dim=1)
        h = (1 - torch.sigmoid(z)) * tanh(n)
        return h, self.reset(h)  # sent along: leaves of one word share the product

    def node(self, x: Tensor, children: Children) -> State:
        n, z, r = x.chunk(3, dim=1)
        h_k, sent = children.states
        b = children.sum(h_k)
        z = torch.sigmoid(z + self.update(b))
        r_k = torch.sigmoid(children.of_parent(r) + sent)
        n = tanh(n + self.new(children.sum(r_k * h_k)))
        h = torch.lerp(n, b, z)  # z b + (1 - z) n
        return h, self.reset(h)
