"""The other losses and negatives that quick-thoughts tried (its sections 3 and 4.3), on whole matrices.

Shapes: N sentences in the batch, D dimension of a vector, K maximum number of contexts of a sentence.
"""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.objectives.contrast import MASKED


def eligible(neighbours: Tensor, same: Tensor | None = None) -> Tensor:
    """Which sentences may be negatives of which, ``(N, N)``: all but itself and its contexts.

    Args:
        neighbours: ``(N, K)`` contexts of each sentence, padded with -1.
        same: ``(N,)`` integers, equal for equal sentences. If given, sentences equal to the anchor or to one of its
            contexts are none either.
    """
    related = _contexts(neighbours) | torch.eye(len(neighbours), dtype=torch.bool, device=neighbours.device)
    if same is not None:
        equal = (same[:, None] == same).to(torch.float32)
        related = related.to(torch.float32) @ equal > 0
    return ~related


def at_random(allowed: Tensor, number: int) -> Tensor:
    """``number`` of each row's allowed ones ``(N, N)``, drawn without replacement; all if there are fewer."""
    return _highest(torch.rand(allowed.shape, device=allowed.device), allowed, number)


def nearest(vectors: Tensor, allowed: Tensor, number: int) -> Tensor:
    """``number`` of each row's allowed ones ``(N, N)``, those with the highest cosine of ``vectors (N, D)``."""
    units = F.normalize(vectors.detach(), dim=1)
    return _highest(units @ units.T, allowed, number)


def softmax_losses(scores: Tensor, neighbours: Tensor, negatives: Tensor, zero: bool) -> Tensor:
    """``-log`` of a context's softmax among the negatives and all contexts, averaged over the contexts: ``(N,)``.

    Args:
        scores: ``(N, N)`` of each sentence with each candidate.
        neighbours: ``(N, K)`` contexts of each sentence, padded with -1.
        negatives: ``(N, N)`` which candidates are its negatives.
        zero: whether a sentence itself is a candidate too, with the score 0.
    """
    logits = scores.masked_fill(~(negatives | _contexts(neighbours)), MASKED)
    if zero:
        logits = logits.diagonal_scatter(logits.new_zeros(len(logits)))
    return -_mean(logits.log_softmax(dim=1).gather(1, neighbours.clamp(min=0)), neighbours)


def binary_losses(scores: Tensor, neighbours: Tensor, negatives: Tensor) -> Tensor:
    """``-log sigmoid(s_ij)``, averaged over contexts, plus the sum over negatives of ``-log sigmoid(-s_ik)``: ``(N,)``.

    Negative sampling (Mikolov et al. 2013, eq. 4), with sentences for words; arguments as for ``softmax_losses``.
    """
    near = F.softplus(-scores.gather(1, neighbours.clamp(min=0)))
    return _mean(near, neighbours) + (F.softplus(scores) * negatives).sum(dim=1)


def margin_losses(scores: Tensor, neighbours: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """``max(0, margin - s_ij + s_ik)``, summed over negatives and averaged over the contexts: ``(N,)``.

    Arguments as for ``softmax_losses``.
    """
    near = scores.gather(1, neighbours.clamp(min=0))
    columns = [(F.relu(margin - each[:, None] + scores) * negatives).sum(dim=1) for each in near.T]
    return _mean(torch.stack(columns, dim=1), neighbours)


def best(scores: Tensor, neighbours: Tensor, negatives: Tensor) -> Tensor:
    """The candidate ``(N,)`` that scores highest; arguments as for ``softmax_losses``."""
    return scores.masked_fill(~(negatives | _contexts(neighbours)), MASKED).argmax(dim=1)


def _contexts(neighbours: Tensor) -> Tensor:
    """``(N, N)`` whether one is a context of the other, from ``(N, K)``."""
    n = len(neighbours)
    found = torch.zeros(n, n + 1, dtype=torch.bool, device=neighbours.device)
    return found.scatter_(1, torch.where(neighbours < 0, n, neighbours), True)[:, :n]


def _highest(values: Tensor, allowed: Tensor, number: int) -> Tensor:
    best = values.masked_fill(~allowed, MASKED).topk(min(number, len(values)), dim=1).indices
    return torch.zeros_like(allowed).scatter_(1, best, True) & allowed


def _mean(values: Tensor, neighbours: Tensor) -> Tensor:
    """Mean over the contexts of each sentence of ``values (N, K)``; 0 without any."""
    there = neighbours >= 0
    return (values * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)
