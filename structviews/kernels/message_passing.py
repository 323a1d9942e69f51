"""The cells by message passing in DGL, for projects built on DGL and as a baseline for benchmarks.

A batch of trees is one graph with an edge from each child to its parent. Input products are computed for all nodes at
once. DGL then passes messages level by level, as ``dgl.prop_nodes_topo`` does, without the leaves, which receive none.
It runs any cell's equations; the Child-Sum Tree-LSTM without labels has messages of its own, which are faster.

Letters as in Tai et al. 2015. Shapes: N nodes, E edges, H hidden size; K children of a level.
"""

import os
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.batches.trees import TreeBatch
from structviews.errors import InputError
from structviews.kernels.cells import Children, Results, TreeCell, inputs_in_text, lstm_state
from structviews.kernels.child_sum import ChildSumCell, cosine


def load() -> Any:
    """Import and return ``dgl``; raises InputError if it is missing or does not work with this version of PyTorch."""
    # Without this, DGL writes a default backend into the user's home.
    os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        import dgl  # noqa: PLC0415 - an extra, imported on use
    except (ImportError, OSError) as error:
        raise InputError(f"tree backend 'dgl': DGL did not load ({error}): pip install 'structviews[dgl]'") from None
    return dgl


def require(device: torch.device) -> None:
    """Check that DGL is installed and supports the device; raises InputError if it is not or does not."""
    dgl = load()
    try:
        dgl.graph(([], []), num_nodes=1, device=device)
    except dgl.DGLError as error:
        reason = str(error).splitlines()[-1]
        raise InputError(
            f"tree backend 'dgl': DGL cannot use {device} ({reason}): install its build for {device.type}, "
            "or use the backend 'level'"
        ) from None


def run(cell: TreeCell, inputs: Tensor, trees: TreeBatch) -> Results:
    """The results of a cell, with states ``(N, H)`` in sorted order; raises InputError if DGL is missing."""
    graph = load().graph((trees.children, trees.parent[trees.children]), num_nodes=len(trees))
    if type(cell) is ChildSumCell and not cell.labelled:
        attention = _child_sum(cell, inputs, trees, graph)
    else:
        attention = _by_mailbox(cell, inputs, trees, graph)
    states = graph.ndata["h"]
    return states, states[trees.roots], attention


def _by_mailbox(cell: TreeCell, inputs: Tensor, trees: TreeBatch, graph: Any) -> Tensor | None:
    """Compute the states of the graph by a cell's equations; returns the attention.

    DGL builds a mailbox ``(M, k, ...)`` for the nodes with k children of each level.
    """
    x = inputs_in_text(cell, inputs, trees)[trees.words]
    leaves = cell.leaf(x[: trees.n_leaves])
    names = ["h", *(f"state_{number}" for number in range(1, len(leaves)))]
    for name, state in zip(names, leaves, strict=True):
        graph.ndata[name] = F.pad(state, (0, 0, 0, len(trees) - trees.n_leaves))
    graph.ndata["node"] = torch.arange(len(trees), device=x.device)
    graph.edata["number"] = torch.arange(trees.n_edges, device=x.device)
    weights, numbers = [x.new_zeros(0)], [trees.rank[:0]]

    def message(edges: Any) -> dict[str, Tensor]:
        return {name: edges.src[name] for name in names} | {"number": edges.data["number"]}

    def reduce(nodes: Any) -> dict[str, Tensor]:
        box, count = nodes.mailbox, nodes.mailbox["number"].shape[1]
        parent = torch.arange(len(box["number"]), device=x.device).repeat_interleave(count)
        family = Children(
            tuple(box[name].flatten(0, 1) for name in names),
            len(box["number"]),
            parent,
            lambda v: v.unflatten(0, (-1, count)).sum(dim=1),
        )
        # In edge order, so a left child stands before its right one.
        state = cell.node(x[:0] if cell.binary else x[nodes.data["node"]], family)
        if family.attention is not None:
            weights.append(family.attention)
            numbers.append(box["number"].flatten())
        return dict(zip(names, state, strict=True))

    graph.prop_nodes(_levels(trees), message, reduce)
    return torch.cat(weights)[torch.cat(numbers).argsort()] if cell.attention else None


def _child_sum(cell: ChildSumCell, inputs: Tensor, trees: TreeBatch, graph: Any) -> Tensor | None:
    """Compute the states of the graph; returns the attention."""
    # Messages compute the forget gates, and DGL's own kernel sums over children. This is faster than
    # mailboxes, which DGL builds for every number of children on every level.
    dgl = load()
    x = inputs[trees.words]
    inner = x[trees.n_leaves :]
    graph.ndata["iou"] = cell.input(x).to(x.dtype)
    graph.ndata["forget"] = F.pad(cell.input_forget(inner).to(x.dtype), (0, 0, trees.n_leaves, 0))  # none of leaves
    graph.ndata["h"], graph.ndata["c"] = lstm_state(*graph.ndata["iou"].chunk(3, dim=1))  # final for leaves
    if cell.attention:
        graph.ndata["query"] = F.pad(cell.query(inner).to(x.dtype), (0, 0, trees.n_leaves, 0))
        graph.edata["number"] = torch.arange(trees.n_edges, device=x.device)
    cosines, numbers = [x.new_zeros(0)], [trees.rank[:0]]

    def message(edges: Any) -> dict[str, Tensor]:
        h, c = edges.src["h"], edges.src["c"]
        f = torch.sigmoid(edges.dst["forget"] + cell.recurrent_forget(h))
        if not cell.attention:
            return {"sums": torch.cat([h, f * c], dim=1)}
        cosines.append(cosine(edges.dst["query"], cell.key(h).to(x.dtype)))
        numbers.append(edges.data["number"])
        # A cosine is at most 1, so its exponential cannot overflow.
        weight = cosines[-1].exp()[:, None]
        return {"sums": torch.cat([weight * h, f * c, weight], dim=1)}

    def update(nodes: Any) -> dict[str, Tensor]:
        h, c, total = nodes.data["sums"].tensor_split([cell.hidden, 2 * cell.hidden], dim=1)
        if cell.attention:
            h = h / total
        i, o, u = (nodes.data["iou"] + cell.recurrent(h)).chunk(3, dim=1)
        return dict(zip(("h", "c"), lstm_state(i, o, u, c), strict=True))

    graph.prop_nodes(_levels(trees), message, dgl.function.sum("sums", "sums"), update)
    if not cell.attention:
        return None
    by_edge = torch.cat(cosines)[torch.cat(numbers).argsort()]
    return dgl.ops.edge_softmax(graph, by_edge[:, None])[:, 0]


def _levels(trees: TreeBatch) -> list[Tensor]:
    """The nodes of each level above the leaves."""
    return [torch.arange(start, end, device=trees.rank.device) for start, end in pairwise(trees.levels[1:])]
