"""The pairwise-averaged contrastive objective (structured views, section 3.1).

Shapes: A anchors, M candidates, D dimension of a vector, K contexts of an anchor at most, R anchors
of a block.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from structviews.objectives.base import Objective, register

SELF_SCORES = ("masked", "zero")
# Exponentiates to 0 like minus infinity, but a row of it has differences that are numbers.
MASKED = -1e9
# Scores of a block of anchors, R x M: 8 MB in single precision.
BLOCK = 2**21


def pairwise_loss(
    candidates: tuple[Tensor, Tensor], anchors: Tensor, positives: Tensor, self_score: str = "masked"
) -> tuple[Tensor, Tensor]:
    """Mean over anchors of the mean over their contexts of ``-log p_ij``.

    ``p_ij`` is the mean of the two directions' softmax probabilities, that of ``g_j`` given ``f_i``
    and that of ``f_j`` given ``g_i``. An anchor without context takes no part; a batch without any
    has the loss 0. Memory is linear in the number of candidates.

    Args:
        candidates: vectors ``(M, D)`` under both views, f and g.
        anchors: ``(A,)`` which candidates are the anchors.
        positives: ``(A, K)`` which other candidates are their contexts, -1 where there are fewer.
        self_score: ``masked`` leaves an anchor out of its own candidates; ``zero`` gives it the
            score 0, as the quick-thoughts code does.

    Returns:
        The loss, a scalar, and the most probable other candidate of each anchor ``(A,)``.
    """
    return _PairwiseLoss.apply(*candidates, anchors, positives, self_score)


class _PairwiseLoss(torch.autograd.Function):
    """Loss and gradient together, block by block of anchors: no score is kept or computed again."""

    @staticmethod
    def forward(
        ctx: Any, f: Tensor, g: Tensor, anchors: Tensor, positives: Tensor, self_score: str
    ) -> tuple[Tensor, Tensor]:
        n_positives = (positives >= 0).sum(dim=1, keepdim=True)
        n_anchors = (n_positives > 0).sum()
        weights = (positives >= 0).to(f.dtype) / (n_positives * n_anchors).clamp(min=1)
        positives = positives.clamp(min=0)  # without weight where there is none
        d_f, d_g = torch.zeros_like(f), torch.zeros_like(g)
        losses, best = [], []
        rows = max(1, BLOCK // len(f))
        for own, columns, weight in zip(anchors.split(rows), positives.split(rows), weights.split(rows), strict=True):
            f_own, g_own = f[own], g[own]
            fg, fg_total, fg_log_p = _softmax_parts(f_own @ g.T, own, columns, self_score)
            gf, gf_total, gf_log_p = _softmax_parts(g_own @ f.T, own, columns, self_score)
            log_p = torch.logaddexp(fg_log_p, gf_log_p) - math.log(2)
            losses.append(-(weight * log_p).sum())
            # Proportional to p, with a factor that keeps the largest from vanishing.
            least = torch.minimum(fg_total, gf_total)
            best.append(torch.addcmul(fg * (least - fg_total).exp(), gf, (least - gf_total).exp()).argmax(dim=1))
            if any(ctx.needs_input_grad):
                # What each direction has of p at the positives.
                fg_share = weight * (fg_log_p - gf_log_p).sigmoid()
                d_fg = _score_gradient(fg, fg_total, columns, fg_share)
                d_gf = _score_gradient(gf, gf_total, columns, weight - fg_share)
                d_f.index_add_(0, own, d_fg @ g).addmm_(d_gf.T, g_own)
                d_g.index_add_(0, own, d_gf @ f).addmm_(d_fg.T, f_own)
        ctx.save_for_backward(d_f, d_g)
        chosen = torch.cat(best)
        ctx.mark_non_differentiable(chosen)
        return torch.stack(losses).sum(), chosen

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        d_f, d_g = ctx.saved_tensors
        return d_loss * d_f, d_loss * d_g, None, None, None


def _softmax_parts(scores: Tensor, own: Tensor, columns: Tensor, self_score: str) -> tuple[Tensor, Tensor, Tensor]:
    """One direction's softmax over the scores ``(R, M)``, which are overwritten.

    Returns:
        ``(R, M)`` exponentials, 0 in the anchor's own column, the largest 1; ``(R, 1)`` the logarithm
        of their sum, with that of the anchor's own score; ``(R, K)`` log probabilities of the columns.
    """
    scores.scatter_(1, own[:, None], MASKED)
    largest = scores.amax(dim=1, keepdim=True)
    scores -= largest
    chosen = scores.gather(1, columns)
    total = scores.exp_().sum(dim=1, keepdim=True).log()
    if self_score == "zero":
        total = torch.logaddexp(total, -largest)
    return scores, total, chosen - total


def _score_gradient(exponentials: Tensor, total: Tensor, columns: Tensor, share: Tensor) -> Tensor:
    """Gradient of the loss by the scores ``(R, M)``, in the place of the exponentials."""
    probability_sum = share.sum(dim=1, keepdim=True)
    return exponentials.mul_(probability_sum * (-total).exp()).scatter_add_(1, columns, -share)


@register("pairwise")
class Pairwise(Objective):
    """Two or more views agree, by inner products, on which sentences are neighbours.

    For more than two views the loss is the mean over unordered pairs.

    Args:
        self_score: see ``pairwise_loss``.
    """

    def __init__(self, self_score: str = "masked"):
        super().__init__()
        if self_score not in SELF_SCORES:
            raise ValueError(f"unknown self score {self_score!r}: one of {', '.join(SELF_SCORES)}")
        self.self_score = self_score

    def forward(self, views: Sequence[Tensor], contexts: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        anchors = torch.arange(len(contexts), device=contexts.device)
        losses, hits = [], []
        for pair in combinations(views, 2):
            loss, best = pairwise_loss(pair, anchors, contexts, self.self_score)
            losses.append(loss)
            hits.append((best[:, None] == contexts).sum())
        loss = torch.stack(losses).mean()
        n_contexts = (contexts >= 0).sum(dim=1)
        n_anchors = (n_contexts > 0).sum().clamp(min=1)
        # What an encoder that knows nothing would reach: all scores equal.
        n_others = max(len(contexts) - 1, 1)
        n_candidates = len(contexts) if self.self_score == "zero" else n_others
        return loss, {
            "loss": loss.detach(),
            "accuracy": torch.stack(hits).double().mean() / n_anchors,
            "chance_loss": math.log(n_candidates) * (n_contexts > 0).any(),
            "chance_accuracy": n_contexts.sum().double() / (n_others * n_anchors),
        }
