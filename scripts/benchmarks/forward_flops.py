"""Floating-point operations of the matrix products that encoding needs, that is, of forward passes alone.

A product of ``(m, k)`` and ``(k, n)`` is ``2 m k n`` operations. What is the same in several sentences of a call counts
once: a word, a subtree over the same words, a beginning or an end of sentences. Padding and what is not a product
count as nothing. ``flops.py`` has the operations of training.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from torch import nn

from structviews.corpus.sentence import ParsedSentence
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.views.bag import ProjectedMean
from structviews.views.view import View

# A number for each different subtree, which is its word, its children's numbers, or both.
Subtrees = dict[tuple[int, ...], int]


class Words(NamedTuple):
    """A sentence, with the ids of its words."""

    ids: Sequence[int]
    sentence: ParsedSentence


def of_view(view: View, sentences: Sequence[Words]) -> int:
    """Operations of an encoder on some sentences."""
    if not view.learns:  # nothing to multiply with
        return 0
    n_words = len({word for each in sentences for word in each.ids})
    if isinstance(view, ProjectedMean):
        return 2 * len(sentences) * view.word_dim * view.dim
    if view.needs == "tokens":
        return of_recurrent(view.network, n_words, sentences)
    of_cell: Callable[..., int] = of_child_sum if view.needs == "dependency" else of_binary
    return of_cell(view.cell, n_words, sentences)


def of_child_sum(cell: ChildSumCell, n_words: int, sentences: Iterable[Words]) -> int:
    """Operations of a Tree-LSTM over dependency trees."""
    subtrees: Subtrees = {}
    for ids, sentence in sentences:
        below: list[list[int]] = [[] for _ in range(len(ids) + 1)]
        for child, head in enumerate(sentence.heads, 1):
            below[head].append(child)
        number_of(below[0][0], ids, below, subtrees)
    inner = [tree for tree in subtrees if len(tree) > 1]
    heads = {word for word, *_ in inner}
    senders = {child for _, *children in inner for child in children}
    x, h = cell.input.in_features, cell.hidden
    gates = n_words * x * 3 * h + len(inner) * h * 3 * h
    forget = len(heads) * x * h + len(senders) * h * h
    return 2 * (gates + (2 if cell.attention else 1) * forget)  # queries and keys are as large


def number_of(node: int, ids: Sequence[int], below: Sequence[Sequence[int]], subtrees: Subtrees) -> int:
    """The number of the subtree at a node, of a word and its dependents' subtrees in text order."""
    children = (number_of(child, ids, below, subtrees) for child in below[node])
    return subtrees.setdefault((ids[node - 1], *children), len(subtrees))


def of_binary(cell: BinaryCell, n_words: int, sentences: Iterable[Words]) -> int:
    """Operations of a Tree-LSTM over binary trees; a subtree brings something else to its parent on either side."""
    subtrees: Subtrees = {}
    for ids, sentence in sentences:
        nodes = [subtrees.setdefault((word,), len(subtrees)) for word in ids]
        for left, right in zip(sentence.left, sentence.right, strict=True):
            nodes.append(subtrees.setdefault((nodes[left], nodes[right]), len(subtrees)))
    senders = [len(set(side)) for side in zip(*(tree for tree in subtrees if len(tree) == 2), strict=True)]
    x, h = cell.input.in_features, cell.hidden
    return 2 * (n_words * x * 3 * h + sum(senders) * h * 5 * h)


def of_recurrent(network: nn.RNNBase, n_words: int, sentences: Sequence[Words]) -> int:
    """Operations of a GRU or LSTM; the first step of a sentence multiplies no state."""
    x, h, gates = network.input_size, network.hidden_size, len(network.bias_ih_l0)
    steps = 0
    directions = (1, -1) if network.bidirectional else (1,)
    for direction in directions:
        numbers: dict[tuple[int, int], int] = {}
        for ids, _ in sentences:
            state = -1
            for word in ids[::direction]:
                state = numbers.setdefault((state, word), len(numbers))
        steps += sum(state >= 0 for state, _ in numbers)
    return 2 * gates * (len(directions) * n_words * x + steps * h)


def of_transformer(layers: int, width: int, inner: int, lengths: Iterable[int]) -> int:
    """Operations of a transformer on sequences of these lengths."""
    # A layer has four square matrices and the two of its feed-forward part; attention scores and sums come on top.
    weights = 4 * width * width + 2 * width * inner
    return 2 * layers * sum(n * weights + 2 * n * n * width for n in lengths)
