"""Binary N-ary Tree-LSTM, level by level; words enter at the leaves only.

Shapes: N nodes, n leaves, H hidden size, X input size. Letters as in Tai et al. 2015 (eqs. 9-14),
with separate forget matrices for each pair of children.
"""

import torch
from torch import Tensor, nn

from structviews.initialisation import xavier
from structviews.kernels.pieces import Pieces
from structviews.trees import TreeBatch


class BinaryCell(nn.Module):
    """Parameters of a binary Tree-LSTM.

    Args:
        input_dim: length X of a word vector.
        hidden: length H of a state.
    """

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.input = nn.Linear(input_dim, 3 * hidden, bias=False)  # Wi Wo Wu
        self.recurrent = nn.Linear(2 * hidden, 5 * hidden, bias=False)  # Ui Uo Uu Ufl Ufr, [left ; right]
        self.bias = nn.Parameter(torch.zeros(3 * hidden))  # bi bo bu, at leaves and inside
        self.bias_forget = nn.Parameter(torch.zeros(hidden))  # bf, for both children
        xavier(self, {"input.weight": 3, "recurrent.weight": 5})


def run(cell: BinaryCell, inputs: Tensor, trees: TreeBatch) -> Tensor:
    """States ``(N, H)`` in sorted order; ``inputs (n, X)`` are word vectors in text order."""
    iou = cell.input(inputs).to(inputs.dtype) + cell.bias
    i, o, u = iou[_leaf_words(trees)].chunk(3, dim=1)
    c = torch.sigmoid(i) * torch.tanh(u)
    pieces = Pieces(torch.sigmoid(o) * torch.tanh(c), c, trees)
    all_left, all_right = trees.sides()
    bias = torch.cat([cell.bias, cell.bias_forget, cell.bias_forget])
    for start, end, slices, _ in trees.upper_levels():
        rows = slice(start - trees.n_leaves, end - trees.n_leaves)
        left, right = all_left[rows], all_right[rows]
        h, c = pieces.children(slices)
        gates = cell.recurrent(torch.cat([h[left], h[right]], dim=1)).to(inputs.dtype) + bias
        i, o, u, f_left, f_right = gates.chunk(5, dim=1)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_left) * c[left] + torch.sigmoid(f_right) * c[right]
        pieces.add(start, torch.sigmoid(o) * torch.tanh(c), c)
    return pieces.states()


def _leaf_words(trees: TreeBatch) -> Tensor:
    """Word number, in text order, of each leaf of the sorted order."""
    leaves = trees.order[: trees.n_leaves]
    words = torch.empty_like(leaves)
    # Leaves are numbered in text order, with internal nodes in between.
    words[leaves.argsort()] = torch.arange(len(leaves), device=leaves.device)
    return words
