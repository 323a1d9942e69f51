"""The pairwise-averaged contrastive objective (structured views, section 3.1).

Shapes: A anchors, M candidates, D dimension of a vector.
"""

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from structviews.objectives.base import Objective, register

SELF_SCORES = ("masked", "zero")
# Exponentiates to 0 like minus infinity, but has a gradient that is a number.
MASKED = -1e9


def pairwise_log_probabilities(
    anchors: tuple[Tensor, Tensor],
    candidates: tuple[Tensor, Tensor],
    self_column: Tensor,
    self_score: str = "masked",
) -> Tensor:
    """``log p_ij``: the two directions' softmax probabilities, averaged, ``(A, M)``.

    Args:
        anchors: vectors ``(A, D)`` of the anchors under both views, f and g.
        candidates: vectors ``(M, D)`` of the candidates under both views.
        self_column: ``(A,)`` the candidate that is the anchor itself.
        self_score: ``masked`` leaves the anchor out of its own candidates; ``zero`` gives it the
            score 0, as the quick-thoughts code does.
    """
    (f_anchor, g_anchor), (f_candidate, g_candidate) = anchors, candidates
    value = MASKED if self_score == "masked" else 0.0
    rows = torch.arange(len(self_column), device=self_column.device)

    def log_softmax(scores: Tensor) -> Tensor:
        filler = scores.new_full((), value)
        return scores.index_put((rows, self_column), filler).log_softmax(dim=1)

    forward = log_softmax(f_anchor @ g_candidate.T)
    backward = log_softmax(g_anchor @ f_candidate.T)
    return torch.logaddexp(forward, backward) - math.log(2)


def pairwise_loss(log_p: Tensor, positives: Tensor) -> Tensor:
    """Mean over anchors of the mean over their contexts of ``-log p_ij``.

    An anchor without context takes no part; a batch without any has the loss 0.

    Args:
        log_p: ``(A, M)`` from ``pairwise_log_probabilities``.
        positives: ``(A, M)`` bool, contexts.
    """
    n_contexts = positives.sum(dim=1)
    per_anchor = -torch.where(positives, log_p, 0.0).sum(dim=1) / n_contexts.clamp(min=1)
    return per_anchor.sum() / (n_contexts > 0).sum().clamp(min=1)


@register("pairwise")
class Pairwise(Objective):
    """Two or more views agree, by inner products, on which sentences are neighbours.

    For more than two views the loss is the mean over unordered pairs.

    Args:
        self_score: see ``pairwise_log_probabilities``.
    """

    def __init__(self, self_score: str = "masked"):
        super().__init__()
        if self_score not in SELF_SCORES:
            raise ValueError(f"unknown self score {self_score!r}: one of {', '.join(SELF_SCORES)}")
        self.self_score = self_score

    def forward(self, views: Sequence[Tensor], contexts: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        own = torch.arange(len(contexts), device=contexts.device)
        losses, hits = [], []
        for f, g in combinations(views, 2):
            log_p = pairwise_log_probabilities((f, g), (f, g), own, self.self_score)
            losses.append(pairwise_loss(log_p, contexts))
            hits.append(_accuracy(log_p.detach(), contexts))
        loss = torch.stack(losses).mean()
        return loss, {"loss": loss.detach(), "accuracy": torch.stack(hits).mean()} | self._chance(contexts)

    def _chance(self, contexts: Tensor) -> dict[str, Tensor]:
        """What an encoder that knows nothing would reach: all scores equal."""
        n = len(contexts)
        n_contexts = contexts.sum(dim=1).double()
        anchors = (n_contexts > 0).sum().clamp(min=1)
        candidates = n if self.self_score == "zero" else max(n - 1, 1)
        loss = math.log(candidates) * (n_contexts > 0).any()
        return {"chance_loss": loss, "chance_accuracy": n_contexts.sum() / (max(n - 1, 1) * anchors)}


def _accuracy(log_p: Tensor, contexts: Tensor) -> Tensor:
    """Share of anchors whose most probable other sentence is one of their contexts."""
    log_p = log_p.clone()
    log_p.fill_diagonal_(-math.inf)
    hit = contexts.gather(1, log_p.argmax(dim=1, keepdim=True))[:, 0]
    return hit.double().sum() / contexts.any(dim=1).sum().clamp(min=1)
