"""Child-Sum Tree-LSTM, plain or attentive, level by level.

Shapes: N nodes, H hidden size, X input size; on one level M nodes with K children in all.
Letters as in Tai et al. 2015 (eqs. 2-8), and for the attention structured views 3.2.
"""

import torch
from torch import Tensor, nn

from structviews.initialisation import xavier
from structviews.kernels.pieces import Pieces
from structviews.trees import TreeBatch

# Under the roots of the cosine: the query of an unknown word may be the zero vector.
EPSILON = 1e-8


class ChildSumCell(nn.Module):
    """Parameters of a Child-Sum Tree-LSTM.

    Args:
        input_dim: length X of a word vector.
        hidden: length H of a state, and of the attention's space.
        attention: weigh the children by attention instead of summing their states.
    """

    def __init__(self, input_dim: int, hidden: int, attention: bool = False):
        super().__init__()
        self.hidden = hidden
        self.attention = attention
        self.input = nn.Linear(input_dim, 3 * hidden)  # Wi Wo Wu, bi bo bu
        self.input_forget = nn.Linear(input_dim, hidden)  # Wf, bf
        self.recurrent = nn.Linear(hidden, 3 * hidden, bias=False)  # Ui Uo Uu
        self.recurrent_forget = nn.Linear(hidden, hidden, bias=False)  # Uf
        if attention:
            self.query = nn.Linear(input_dim, hidden)  # Wq, bq
            self.key = nn.Linear(hidden, hidden)  # Wp, bp
        xavier(self, {"input.weight": 3, "recurrent.weight": 3})


def run(cell: ChildSumCell, inputs: Tensor, trees: TreeBatch) -> tuple[Tensor, Tensor | None]:
    """States ``(N, H)`` in sorted order, and attention ``(E,)`` or None.

    ``inputs (N, X)`` are word vectors in text order. Leaves take part in no recurrent product and
    have no forget gate or query.
    """
    x = inputs[trees.order]
    iou = cell.input(x).to(inputs.dtype)
    inner = x[trees.n_leaves :]
    forget = cell.input_forget(inner).to(inputs.dtype)
    query = cell.query(inner).to(inputs.dtype) if cell.attention else None
    h, c = _gates(iou[: trees.n_leaves], None)
    pieces = Pieces(h, c, trees)
    weights = []
    for start, end, slices, edges in trees.upper_levels():
        rows = slice(start - trees.n_leaves, end - trees.n_leaves)
        parent = trees.parent_row[edges]
        h_children, c_children = pieces.children(slices)
        f = torch.sigmoid(forget[rows][parent] + cell.recurrent_forget(h_children).to(inputs.dtype))
        weighted = h_children
        if query is not None:
            alpha = _attention(query[rows], cell.key(h_children).to(inputs.dtype), parent)
            weights.append(alpha)
            weighted = alpha[:, None] * h_children
        h_sum = _sum_by_parent(weighted, parent, end - start)
        c_sum = _sum_by_parent(f * c_children, parent, end - start)
        h, c = _gates(iou[start:end] + cell.recurrent(h_sum).to(inputs.dtype), c_sum)
        pieces.add(start, h, c)
    attention = torch.cat([*weights, inputs.new_zeros(0)]) if query is not None else None
    return pieces.states(), attention


def _gates(iou: Tensor, c_sum: Tensor | None) -> tuple[Tensor, Tensor]:
    i, o, u = iou.chunk(3, dim=1)
    c = torch.sigmoid(i) * torch.tanh(u)
    if c_sum is not None:
        c = c + c_sum
    return torch.sigmoid(o) * torch.tanh(c), c


def _sum_by_parent(values: Tensor, parent: Tensor, size: int) -> Tensor:
    """Sum ``(K, ...)`` over equal parents into ``(size, ...)``."""
    return values.new_zeros(size, *values.shape[1:]).index_add(0, parent, values)


def _attention(query: Tensor, key: Tensor, parent: Tensor) -> Tensor:
    """Softmax over siblings ``(K,)`` of the cosine between a parent's query and a child's key."""
    q_norm = (query.square().sum(dim=1) + EPSILON).sqrt()
    k_norm = (key.square().sum(dim=1) + EPSILON).sqrt()
    cosine = (query[parent] * key).sum(dim=1) / (q_norm[parent] * k_norm)
    # A cosine is at most 1, so its exponential needs no shift.
    weight = cosine.exp()
    return weight / _sum_by_parent(weight, parent, len(query))[parent]
