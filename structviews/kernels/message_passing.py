"""The cells by message passing in DGL, for projects built on DGL and as a baseline for benchmarks.

A batch of trees is one graph with an edge from each child to its parent. Input products are computed
for all nodes at once. DGL then passes messages level by level, as ``dgl.prop_nodes_topo`` does, without
the leaves, which receive none.

Letters as in Tai et al. 2015. Shapes: N nodes, E edges, H hidden size; K children of a level.
"""

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.batches.trees import TreeBatch
from structviews.errors import InputError
from structviews.kernels.cells import TreeCell
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.child_sum_gru import ChildSumGruCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.nary_gru import BinaryGruCell
from structviews.kernels.steps import EPSILON


def load() -> Any:
    """Import and return ``dgl``.

    Raises:
        InputError: if it is missing or does not work with this version of PyTorch.
    """
    # Without this, DGL writes a default backend into the user's home.
    os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        import dgl  # noqa: PLC0415 - an extra, imported on use
    except (ImportError, OSError) as error:
        raise InputError(f"tree backend 'dgl': DGL did not load ({error}): pip install 'structviews[dgl]'") from None
    return dgl


def require(device: torch.device) -> None:
    """Check that DGL is installed and supports the device.

    Raises:
        InputError: if it is not or does not.
    """
    dgl = load()
    try:
        dgl.graph(([], []), num_nodes=1, device=device)
    except dgl.DGLError as error:
        reason = str(error).splitlines()[-1]
        raise InputError(
            f"tree backend 'dgl': DGL cannot use {device} ({reason}): install its build for {device.type}, "
            "or use the backend 'level'"
        ) from None


def run(cell: TreeCell, inputs: Tensor, trees: TreeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
    """States ``(N, H)`` in sorted order, root states ``(B, H)``, and attention ``(E,)`` or None.

    Attention is in the order of ``TreeBatch.children``.

    Raises:
        InputError: if DGL is missing, or a plug-in's cell is not written for it.
    """
    if type(cell) not in _CELLS:
        raise InputError(f"tree backend 'dgl': it has no {type(cell).__name__}: use the backend 'level'")
    graph = load().graph((trees.children, trees.parent[trees.children]), num_nodes=len(trees))
    attention = _CELLS[type(cell)](cell, inputs, trees, graph)
    states = graph.ndata["h"]
    return states, states[trees.roots], attention


def _child_sum(cell: ChildSumCell, inputs: Tensor, trees: TreeBatch, graph: Any) -> Tensor | None:
    """Compute the states of the graph; returns the attention."""
    # Messages compute the forget gates, and DGL's own kernel sums over children. This is faster than
    # mailboxes, which DGL builds for every number of children on every level.
    dgl = load()
    x = inputs[trees.words]
    inner = x[trees.n_leaves :]
    graph.ndata["iou"] = cell.input(x).to(x.dtype)
    graph.ndata["forget"] = _below_leaves(cell.input_forget(inner).to(x.dtype), trees)
    graph.ndata["h"], graph.ndata["c"] = _gates(graph.ndata["iou"])  # final for leaves
    if cell.attention:
        graph.ndata["query"] = _below_leaves(cell.query(inner).to(x.dtype), trees)
        graph.edata["number"] = torch.arange(trees.n_edges, device=x.device)
    cosines, numbers = [x.new_zeros(0)], [trees.rank[:0]]

    def message(edges: Any) -> dict[str, Tensor]:
        h, c = edges.src["h"], edges.src["c"]
        f = torch.sigmoid(edges.dst["forget"] + cell.recurrent_forget(h))
        if not cell.attention:
            return {"sums": torch.cat([h, f * c], dim=1)}
        cosine = _cosine(edges.dst["query"], cell.key(h).to(x.dtype))
        cosines.append(cosine)
        numbers.append(edges.data["number"])
        # A cosine is at most 1, so its exponential cannot overflow.
        weight = cosine.exp()[:, None]
        return {"sums": torch.cat([weight * h, f * c, weight], dim=1)}

    def update(nodes: Any) -> dict[str, Tensor]:
        h, c, total = nodes.data["sums"].tensor_split([cell.hidden, 2 * cell.hidden], dim=1)
        if cell.attention:
            h = h / total
        h, c = _gates(nodes.data["iou"] + cell.recurrent(h), c)
        return {"h": h, "c": c}

    graph.prop_nodes(_levels(trees), message, dgl.function.sum("sums", "sums"), update)
    if not cell.attention:
        return None
    by_edge = torch.cat(cosines)[torch.cat(numbers).argsort()]
    weights: Tensor = dgl.ops.edge_softmax(graph, by_edge[:, None])[:, 0]
    return weights


def _binary(cell: BinaryCell, inputs: Tensor, trees: TreeBatch, graph: Any) -> None:
    """Compute the states of the graph."""
    h, c = _gates(cell.input(inputs[trees.words]) + cell.bias)
    graph.ndata["h"], graph.ndata["c"] = (F.pad(leaves, (0, 0, 0, len(trees) - len(leaves))) for leaves in (h, c))
    bias = torch.cat([cell.bias, cell.bias_forget, cell.bias_forget])

    def message(edges: Any) -> dict[str, Tensor]:
        return {"h": edges.src["h"], "c": edges.src["c"]}

    def reduce(nodes: Any) -> dict[str, Tensor]:
        # A mailbox (M, 2, H) is in edge order: the left child first.
        gates = cell.recurrent(nodes.mailbox["h"].flatten(1)) + bias
        iou, forget = gates.tensor_split([3 * cell.hidden], dim=1)
        f = torch.sigmoid(forget).view_as(nodes.mailbox["c"])
        h, c = _gates(iou, (f * nodes.mailbox["c"]).sum(dim=1))
        return {"h": h, "c": c}

    graph.prop_nodes(_levels(trees), message, reduce)


def _child_sum_gru(cell: ChildSumGruCell, inputs: Tensor, trees: TreeBatch, graph: Any) -> None:
    """Compute the states of the graph."""
    dgl = load()
    x = inputs[trees.words]
    graph.ndata["gates"] = cell.input(x).to(x.dtype)
    graph.ndata["reset"] = _below_leaves(cell.input_reset(x[trees.n_leaves :]).to(x.dtype), trees)
    graph.ndata["h"] = _new_state(graph.ndata["gates"])  # final for leaves
    w_reset, w_total = cell.recurrent.weight.chunk(2)

    def message(edges: Any) -> dict[str, Tensor]:
        h = edges.src["h"]
        r = torch.sigmoid(edges.dst["reset"] + cell.recurrent_reset(h))
        return {"sums": torch.cat([r * h, h], dim=1)}

    def update(nodes: Any) -> dict[str, Tensor]:
        reset, h_sum = nodes.data["sums"].chunk(2, dim=1)
        recurrent = torch.cat([F.linear(reset, w_reset), F.linear(h_sum, w_total)], dim=1)
        return {"h": _new_state(nodes.data["gates"] + recurrent, h_sum)}

    graph.prop_nodes(_levels(trees), message, dgl.function.sum("sums", "sums"), update)


def _binary_gru(cell: BinaryGruCell, inputs: Tensor, trees: TreeBatch, graph: Any) -> None:
    """Compute the states of the graph."""
    leaves = _new_state(cell.input(inputs[trees.words]) + cell.bias)
    graph.ndata["h"] = F.pad(leaves, (0, 0, 0, len(trees) - len(leaves)))
    w_new, w_gates = cell.recurrent.weight.tensor_split([cell.hidden])
    b_new, b_update = cell.bias.chunk(2)
    bias = torch.cat([b_update, cell.bias_reset])

    def message(edges: Any) -> dict[str, Tensor]:
        return {"h": edges.src["h"]}

    def reduce(nodes: Any) -> dict[str, Tensor]:
        pair = nodes.mailbox["h"]  # (M, 2, H) in edge order: the left child first
        z, g = (F.linear(pair.flatten(1), w_gates) + bias).chunk(2, dim=1)
        n = F.linear((torch.sigmoid(g)[:, None] * pair).flatten(1), w_new) + b_new
        return {"h": _new_state(torch.cat([n, z], dim=1), pair.sum(dim=1))}

    graph.prop_nodes(_levels(trees), message, reduce)


def _levels(trees: TreeBatch) -> list[Tensor]:
    """The nodes of each level above the leaves."""
    return [torch.arange(start, end, device=trees.rank.device) for start, end in pairwise(trees.levels[1:])]


def _below_leaves(values: Tensor, trees: TreeBatch) -> Tensor:
    """Rows ``(N - leaves, H)`` of inner nodes, preceded by zeros for the leaves."""
    return F.pad(values, (0, 0, trees.n_leaves, 0))


def _gates(iou: Tensor, c_sum: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
    i, o, u = iou.chunk(3, dim=1)
    c = torch.sigmoid(i) * torch.tanh(u) + c_sum
    return torch.sigmoid(o) * torch.tanh(c), c


def _cosine(query: Tensor, key: Tensor) -> Tensor:
    """Cosine ``(K,)`` of the rows of ``(K, H)``."""
    norms = (query.square().sum(dim=1) + EPSILON).sqrt() * (key.square().sum(dim=1) + EPSILON).sqrt()
    return (query * key).sum(dim=1) / norms


def _new_state(gates: Tensor, h_sum: Tensor | float = 0.0) -> Tensor:
    n, z = gates.chunk(2, dim=1)
    z = torch.sigmoid(z)
    return z * h_sum + (1 - z) * torch.tanh(n)


_CELLS: dict[type[TreeCell], Callable[..., Tensor | None]] = {
    ChildSumCell: _child_sum,
    BinaryCell: _binary,
    ChildSumGruCell: _child_sum_gru,
    BinaryGruCell: _binary_gru,
}
