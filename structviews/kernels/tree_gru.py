"""Tree-GRUs, cells by their equations alone. Their states add up without bound, as cells of a Tree-LSTM do.

They are made from the dimensions X of a word vector and H of a state.
"""

import torch
from torch import Tensor, nn

from structviews.kernels.cells import Children, State, TreeCell, tanh, xavier
from structviews.runtime.products import PackedLinear


class ChildSumGruCell(TreeCell):
    """Child-Sum Tree-GRU (Zhou et al. 2016).

    For a node with the word vector x and the children k:

        b = sum_k h_k
        z = sigmoid(Wz x + Uz b + bz)
        r_k = sigmoid(Wr x + Ur h_k + br)
        n = tanh(Wn x + Un sum_k r_k h_k + bn)
        h = z b + (1 - z) n

    Each child has a reset gate, as in the code of Modelling sentence pairs with tree-structured attentive encoder
    (COLING), and as it has a forget gate in the Child-Sum Tree-LSTM. pytree, Simoulin's toolkit, exchanges z and 1 - z;
    others have one reset gate, which reads and resets the sum of the children.
    """

    binary = False
    opened = "input.bias"

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = PackedLinear(input_dim, 3 * hidden)  # Wn Wz Wr, bn bz br
        self.new = PackedLinear(hidden, hidden, bias=False)  # Un
        self.update = PackedLinear(hidden, hidden, bias=False)  # Uz
        self.reset = PackedLinear(hidden, hidden, bias=False)  # Ur
        xavier(self, {"input.weight": 3})

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


class BinaryGruCell(TreeCell):
    """Binary Tree-GRU (after Kokkinos and Potamianos 2017); only leaves have words.

    For a leaf with the word vector x, and a parent of the children l and r, whose states side by side are [h_l; h_r]:

        leaf:      z = sigmoid(Wz x + bz)                   n = tanh(Wn x + bn)
                   h = (1 - z) n
        parent:    z = sigmoid(Uz [h_l; h_r] + bz)          n = tanh(Un [g h_l; g h_r] + bn)
                   g = sigmoid(Ug [h_l; h_r] + bg)          h = z (h_l + h_r) + (1 - z) n

    Here g is the reset gate. Left and right children have their own matrices, as in the N-ary Tree-LSTM of Tai et al.
    2015. The paper is Structural attention neural networks for improved sentiment analysis (EACL). Implementations
    differ: both children share the reset and the update gate, as here, or each has its own; z and 1 - z may be
    exchanged; and a parent's z may read tanh(h).
    """

    binary = True
    opened = "bias"

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = PackedLinear(input_dim, 2 * hidden, bias=False)  # Wn Wz
        self.gates = PackedLinear(2 * hidden, 2 * hidden, bias=False)  # Uz Ug, [left ; right]
        self.new = PackedLinear(2 * hidden, hidden, bias=False)  # Un, [left ; right]
        self.bias = nn.Parameter(torch.zeros(3 * hidden))  # bn bz bg; bn and bz for leaves and parents
        xavier(self, {"input.weight": 2, "gates.weight": 2})

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
