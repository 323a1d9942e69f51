"""Floating-point operations of the matrix products required by forward and backward passes.

A product of ``(m, k)`` and ``(k, n)`` is ``2 m k n`` operations, and so are the two products of its
backward pass, which give the gradients of both factors. What depends on a word alone, and with it what
a leaf brings to its parent's gates, is wanted once for each different word of a batch; leaves take part
in no other recurrent product, and roots bring nothing; gradients of the inputs are wanted. What is not a
product counts as nothing.
"""

from torch import nn

from structviews.batches.batch import Batch, WordIds
from structviews.batches.trees import TreeBatch
from structviews.kernels.cells import TreeCell
from structviews.kernels.nary_gru import BinaryGruCell
from structviews.views.view import View

# Forward and backward, for each multiplication of the forward pass.
OPERATIONS = 6


def of_view(view: View, batch: Batch) -> int:
    """Operations of an encoder on a batch."""
    ids = next(iter(batch.ids.values()))
    if view.needs == "tokens":
        return of_recurrent(view.network, len(ids.distinct), len(ids) - len(batch))
    trees = batch.dependency_trees if view.needs == "dependency" else batch.constituency_trees
    return of_tree_cell(view.cell, ids, trees)


def of_tree_cell(cell: TreeCell, ids: WordIds, trees: TreeBatch) -> int:
    """Operations of a Tree-LSTM or a Tree-GRU on a batch of trees and their words."""
    n_distinct, inner = len(ids.distinct), len(trees) - trees.n_leaves
    x, h, gates = cell.input.in_features, cell.hidden, cell.input.out_features
    # What a node brings to its parent's gates; of leaves once for each different one, on either side.
    senders = len(ids.nodes_of(trees).of_nodes[trees.children].unique())
    if isinstance(cell, BinaryGruCell):  # the candidate is of what the reset gate lets through
        return OPERATIONS * (n_distinct * x * gates + senders * h * 2 * h + inner * 2 * h * h)
    if cell.binary:
        return OPERATIONS * (n_distinct * x * gates + senders * h * 5 * h)
    heads = len(ids.inverse[trees.words[trees.n_leaves :]].unique())
    own = n_distinct * x * gates + inner * h * gates
    of_children = heads * x * h + senders * h * h
    return OPERATIONS * (own + (2 if cell.attention else 1) * of_children)  # queries and keys are as large


def of_recurrent(network: nn.RNNBase, n_distinct: int, n_steps: int) -> int:
    """Operations of a GRU or LSTM; ``n_steps`` excludes the sentences' first steps, which multiply no state."""
    directions = 2 if network.bidirectional else 1
    x, h, gates = network.input_size, network.hidden_size, len(network.bias_ih_l0)
    return OPERATIONS * directions * gates * (n_distinct * x + n_steps * h)


def of_pairwise(n_sentences: int, dim: int) -> int:
    """Operations of the pairwise objective: one score matrix, whose transpose serves the other direction."""
    return OPERATIONS * n_sentences * n_sentences * dim
