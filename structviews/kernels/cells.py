"""What a tree cell is: parameters and equations, which any backend runs over a batch of trees.

A cell is one file with a subclass of ``TreeCell``. Its equations take all nodes of a level at once, so they are
written once and run four ways: level by level in training (``run_levels``), over merged trees in encoding
(``run_merged``), node by node as the reference (``run_nodes``), and as messages in DGL. A cell may also have passes
written by hand, which give the same faster, see ``dispatch``.

Here too: how cells and other modules begin, by default with Xavier weights and zero biases (structured views 4.1).

Shapes: U distinct words, P dimensions of a word, B sentences, N nodes, R rows (``trees.NodeRows``), E edges, H hidden
size; M nodes of a level with K children in all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.trees import Level, NodeRows, Pairs, SharedTrees, TreeBatch, blocks
from structviews.kernels.steps import Function, sums_by_group
from structviews.runtime.products import ROWS

# What goes from a node to its parent: the hidden state ``(M, H)``, and whatever else the cell has.
State = tuple[Tensor, ...]
# States (R, H) of all rows, root states (B, H), and attention (E,) or None.
Results = tuple[Tensor, Tensor, Tensor | None]


@dataclass(eq=False)
class Children:
    """The children of the M nodes of a level, K in all."""

    states: State  # (K, H) each; in a binary tree a left child stands before the right one
    count: int  # M
    parent: Tensor  # (K,) the parent of each among the M nodes
    add: Callable[[Tensor], Tensor]  # sums (M, D) of (K, D) over the children of each node, without gradients
    attention: Tensor | None = None  # (K,) what `softmax` returned last; None if children are not weighed

    @property
    def pairs(self) -> list[Tensor]:
        """Of a binary tree the states as ``(M, 2, H)``, left and right."""
        return [each.unflatten(0, (-1, 2)) for each in self.states]

    def sum(self, values: Tensor) -> Tensor:
        """Sums ``(M, D)`` of ``values (K, D)`` over the children of each node."""
        return _Sum.apply(values, self.parent, self.add)

    def of_parent(self, values: Tensor) -> Tensor:
        """For each child the row ``(K, D)`` of its parent in ``values (M, D)``."""
        return values.index_select(0, self.parent)

    def softmax(self, scores: Tensor) -> Tensor:
        """Weights ``(K,)`` from ``scores (K,)``; those of one node's children add up to 1."""
        lowest = scores.new_full((self.count,), -torch.inf)
        largest = lowest.scatter_reduce(0, self.parent, scores.detach(), "amax")
        weights = (scores - self.of_parent(largest)).exp()
        self.attention = weights / self.of_parent(self.sum(weights[:, None]))[:, 0]
        return self.attention


class _Sum(Function):
    """Sums over children, which the caller knows the fastest way to."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, parent: Tensor, add: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(parent)
        return add(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (parent,) = ctx.saved_tensors
        return gradient.index_select(0, parent), None, None


class TreeCell(nn.Module, ABC):
    """A cell over trees: parameters, and equations from the leaves to the root."""

    binary: ClassVar[bool]  # whether trees are binary with words at the leaves only; others have one at each node
    attention: bool = False  # whether it weighs its children, see ``Children.softmax``
    labelled: bool = False  # whether it reads the labels of words, see ``of_labels``; its trees are not binary then
    hidden: int  # dimension H of a state
    opened: ClassVar[str] = ""  # the parameter whose values from H on are set by the setting `gate_bias`; none if empty

    def of_words(self, vectors: Tensor) -> Tensor:
        """``(U, P)`` what depends only on a word, computed once for each distinct one; by default its vector."""
        return vectors

    def of_labels(self) -> Tensor:
        """``(L, P)`` what each label of ``corpus.relations`` adds to ``of_words``; only of a labelled cell."""
        raise NotImplementedError

    @abstractmethod
    def leaf(self, x: Tensor) -> State:
        """The states of leaves from their rows ``x (M, P)`` of ``of_words``."""

    @abstractmethod
    def node(self, x: Tensor, children: Children) -> State:
        """The states of nodes with children; ``x (M, P)`` as for leaves, empty in binary trees."""


class _OfPairs(Function):
    @staticmethod
    def forward(ctx: Any, of_words: Tensor, of_labels: Tensor, pairs: Pairs) -> Tensor:
        ctx.pairs = pairs
        return of_words.index_select(0, pairs.words).add_(of_labels.index_select(0, pairs.labels))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        pairs, gradient = ctx.pairs, gradient.contiguous()
        places = torch.arange(len(pairs.words), device=gradient.device)
        by_word = sums_by_group(gradient, places, pairs.word_starts)
        return by_word, sums_by_group(gradient, pairs.by_label, pairs.label_starts), None


# Sums ``(P, D)`` of ``of_words (U, D)`` and ``of_labels (L, D)`` for each of the pairs.
of_pairs = _OfPairs.apply


def inputs(cell: TreeCell, vectors: Tensor, pairs: Pairs | None) -> Tensor:
    """What a cell makes of the distinct words with ``vectors (U, X)``, or of their pairs with labels, if any."""
    of_words = cell.of_words(vectors).to(vectors.dtype)
    return of_words if pairs is None else of_pairs(of_words, cell.of_labels().to(vectors.dtype), pairs)


def inputs_in_text(cell: TreeCell, vectors: Tensor, trees: TreeBatch) -> Tensor:
    """The same ``(n, P)`` for each word with ``vectors (n, X)``, in text order."""
    of_words = cell.of_words(vectors).to(vectors.dtype)
    return of_words if trees.labels is None else of_words + cell.of_labels()[trees.labels]


class _Tanh(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = torch.sigmoid(-2 * x).mul_(-2).add_(1)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        rest: Tensor = 1 - result.square()
        return gradient * rest


tanh = _Tanh.apply  # by a sigmoid, which PyTorch computes ten times as fast on a CPU


def lstm_state(i: Tensor, o: Tensor, u: Tensor, below: Tensor | float = 0.0) -> State:
    """State and cell ``(M, H)`` of an LSTM from the pre-activations of its gates and what children give to the cell."""
    c = torch.sigmoid(i) * torch.tanh(u) + below
    return torch.sigmoid(o) * torch.tanh(c), c


def run_levels(cell: TreeCell, vectors: Tensor, rows: NodeRows, trees: TreeBatch) -> Results:
    """Run a cell's equations level by level, with gradients; ``vectors (U, X)`` are those of the distinct words."""
    words = inputs(cell, vectors, rows.pairs)
    weights = [each for each in cell.parameters() if each.requires_grad and torch.is_grad_enabled()]
    states, roots, attention = _Levels.apply(cell, rows, trees, words, *weights)
    return states, roots, attention if cell.attention else None


class _Levels(Function):
    """A cell over a batch of trees.

    Autograd records each level by itself; states go up, and their gradients down, through one buffer for all nodes.
    Recorded as one graph, every level would copy the states of all levels below it.
    """

    @staticmethod
    def forward(
        ctx: Any, cell: TreeCell, rows: NodeRows, trees: TreeBatch, words: Tensor, *weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        records = any(ctx.needs_input_grad)
        levels = []  # what autograd recorded of each: its inputs and results
        buffers: State = ()
        children = rows.of_nodes.index_select(0, trees.children)
        for level in (None, *trees.upper_levels()):  # None: the leaves
            below: State = ()
            at, family = slice(0, rows.n_leaves), None
            if level:
                at, count = rows.at(level), level.nodes.stop - level.nodes.start
                below = tuple(each.index_select(0, children[level.edges]).requires_grad_(records) for each in buffers)
                family = Children(below, count, level.parent, partial(_add, level))
            x = words.detach().index_select(0, rows.words[at]).requires_grad_(records)
            with torch.set_grad_enabled(records):
                state = cell.node(x, family) if family else cell.leaf(x)
            if not buffers:
                n_rows = rows.n_leaves + len(trees) - trees.n_leaves
                buffers = tuple(each.new_empty(n_rows, each.shape[1]) for each in state)
            for buffer, each in zip(buffers, state, strict=True):
                buffer[at] = each.detach()
            levels.append((level, at, x, below, state, family.attention if family else None))
        ctx.trees, ctx.rows, ctx.levels, ctx.weights = trees, rows, levels if records else [], weights
        ctx.set_materialize_grads(False)
        h, attention = buffers[0], [weight.detach() for *_, weight in levels if weight is not None]
        return h, h.index_select(0, rows.of_nodes[trees.roots]), torch.cat(attention or [h.new_empty(0)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor | None, d_roots: Tensor | None, d_attention: Tensor | None) -> Any:
        trees, rows, weights = ctx.trees, ctx.rows, ctx.weights
        _, _, x, _, state, _ = ctx.levels[0]
        # Gradients of states by slot, see ``TreeBatch.slot``: from the parents, then from the objective.
        above = [each.new_zeros(len(trees), each.shape[1]) for each in state]
        if d_roots is not None:
            above[0][trees.n_edges :] = d_roots
        d_x = x.new_zeros(len(rows.words), x.shape[1])
        d_weights: list[Tensor | None] = [None] * len(weights)
        for level, at, x, below, state, attention in reversed(ctx.levels):
            if level:
                d_state = [each.index_select(0, trees.slot[level.nodes]) for each in above]
            else:  # a leaf's row stands for all leaves of its word
                slots = trees.slot.index_select(0, rows.leaves)
                d_state = [sums_by_group(each, slots, rows.leaf_starts) for each in above]
            if d_h is not None:
                d_state[0] += d_h[at]
            results = list(zip(state, d_state, strict=True))
            if attention is not None and d_attention is not None:
                results.append((attention, d_attention[level.edges]))
            by_x, *by_input = torch.autograd.grad(
                [result for result, _ in results],
                [x, *below, *weights],
                [gradient for _, gradient in results],
                retain_graph=True,  # until the caller's graph goes, as with any function
                allow_unused=True,
            )
            if by_x is not None:
                d_x[at] = by_x
            for each, gradient in zip(above, by_input[: len(below)], strict=False):
                if gradient is not None:
                    each[level.edges] = gradient
            for number, gradient in enumerate(by_input[len(below) :]):
                total = d_weights[number]
                if gradient is not None:
                    d_weights[number] = gradient if total is None else total.add_(gradient)
        return None, None, None, sums_by_group(d_x, rows.by_word, rows.word_starts), *d_weights


def _add(level: Level, values: Tensor) -> Tensor:
    """The sum ``(M, D)`` of ``values (K, D)`` over each node's children in a level."""
    if level.sides:
        return values.view(-1, 2, values.shape[1]).sum(dim=1)
    first, *others = values.split(level.siblings)
    total: Tensor = first.clone()
    for each in others:  # the second children, the third ones, ...
        total[: len(each)] += each
    return total


@torch.no_grad()
def run_merged(cell: TreeCell, vectors: Tensor, trees: SharedTrees) -> Tensor:
    """States ``(R, H)`` of a cell's equations over merged trees; ``vectors (U, X)`` are those of the distinct words."""
    x = inputs(cell, vectors, trees.pairs).index_select(0, trees.words)
    buffers: State = ()
    every = (each for start, stop in pairwise(trees.levels) for each in blocks(start, stop, ROWS))
    for rows in every:
        if rows.start < trees.levels[1]:
            state = cell.leaf(x[rows])
        else:
            inner = slice(rows.start - trees.levels[1], rows.stop - trees.levels[1] + 1)
            first, last = trees.starts[inner][[0, -1]].tolist()
            below, starts = trees.children[first:last], trees.starts[inner] - first
            places = torch.arange(len(below), device=below.device)
            parent = torch.searchsorted(starts, places, right=True) - 1
            add = partial(sums_by_group, places=places, starts=starts, has_end=True)
            sent = tuple(each.index_select(0, below) for each in buffers)
            state = cell.node(x[rows], Children(sent, len(starts) - 1, parent, add))
        if not buffers:
            buffers = tuple(each.new_empty(trees.levels[-1], each.shape[1]) for each in state)
        for buffer, each in zip(buffers, state, strict=True):
            buffer[rows] = each
    return buffers[0]


def run_nodes(cell: TreeCell, vectors: Tensor, trees: TreeBatch) -> Results:
    """Run a cell by plain recursion, one node at a time: the slow, simple reference; ``vectors (n, X)`` of all words.

    States ``(N, H)`` are in sorted order.
    """
    words, n_words = trees.words.tolist(), len(trees.words)
    of_words = inputs_in_text(cell, vectors, trees)
    children: list[list[int]] = [[] for _ in trees.parent]  # of each node; the left child first in binary trees
    for child in trees.children.tolist():
        children[trees.parent[child]].append(child)
    states: dict[int, State] = {}
    weights: dict[int, Tensor] = {}

    def visit(node: int) -> None:
        below = children[node]
        for child in below:
            visit(child)
        x = of_words[words[node], None] if node < n_words else of_words[:0]  # nodes with words come first
        if not below:
            states[node] = cell.leaf(x)
            return
        sent = tuple(torch.cat(each) for each in zip(*(states[child] for child in below), strict=True))
        parent = torch.zeros(len(below), dtype=torch.long, device=x.device)
        family = Children(sent, 1, parent, lambda values: values.sum(0, keepdim=True))
        states[node] = cell.node(x, family)
        if family.attention is not None:
            weights.update(zip(below, family.attention, strict=True))

    for root in trees.roots.tolist():
        visit(root)
    hidden = torch.cat([states[node][0] for node in range(len(children))])
    if not cell.attention:
        return hidden, hidden[trees.roots], None
    attention = [weights[node] for node in trees.children.tolist()]
    return hidden, hidden[trees.roots], torch.stack(attention) if attention else vectors.new_zeros(0)


def xavier(module: nn.Module, gates: dict[str, int] | None = None) -> None:
    """Xavier-initialise a module's weights, each gate's matrix separately, and zero its biases.

    ``gates`` is the number of gates stacked in the rows of a parameter, by its name; 1 by default.
    """
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        else:
            for block in parameter.detach().chunk((gates or {}).get(name, 1)):
                nn.init.xavier_uniform_(block)


def he(module: nn.Module) -> None:
    """Reinitialise a module's weights as in He et al. 2015: normal with variance 2 / fan-in; biases are kept."""
    for parameter in module.parameters():
        if parameter.dim() >= 2:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")


def open_gates(module: nn.Module, bias: float) -> None:
    """Set the biases of the reset and update gates of a module's GRUs, and of the forget gates of its LSTMs.

    Those of Tree-LSTMs stay. PyTorch adds two biases for each gate; only the input bias is set.
    """
    for part in module.modules():
        if isinstance(part, nn.GRU | nn.LSTM):
            # The gates are r, z, n or i, f, g, o.
            gates = slice(0 if isinstance(part, nn.GRU) else part.hidden_size, 2 * part.hidden_size)
            for name, parameter in part.named_parameters():
                if name.startswith("bias_ih"):
                    nn.init.constant_(parameter.detach()[gates], bias)
        elif isinstance(part, TreeCell) and part.opened:
            nn.init.constant_(part.get_parameter(part.opened).detach()[part.hidden :], bias)
