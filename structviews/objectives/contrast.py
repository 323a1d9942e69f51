"""The contrastive loss: classifying a sentence's contexts among the sentences of the batch.

Shapes: M sentences, which are anchors and candidates; E dimension of a query or key; K maximum number of contexts of
an anchor; R anchors in a block.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.kernels.steps import Function
from structviews.objectives.objective import Context, Objective, view_letters
from structviews.settings import Settings, setting

# Its exponential is 0, as for minus infinity, but differences within a row of it are not NaN.
MASKED = -1e9
# Scores in a block of anchors, R x M: 8 MB in single precision.
SCORES_AT_ONCE = 2**21

Direction = tuple[Tensor, Tensor]


class _ContrastiveLoss(Function):
    """Mean over anchors of the mean, or if ``summed`` the sum, over their positives of ``-log p_ij``.

    ``p_ij`` is the mean over directions of ``softmax_j(q_i . k_j)`` with a direction's queries and keys ``(M, E)``.
    Anchors without positives are ignored; a batch without any positives has a loss of 0.

    Loss and gradient are computed together, block by block of anchors; scores are neither stored nor recomputed, so
    memory is linear in the number of candidates. Returns also the most probable candidate ``(M,)`` of each anchor,
    other than itself, and the share of the other candidates that were masked, over anchors with contexts.

    Args:
        positives: ``(M, K)`` rows of the anchors' contexts, padded with -1.
        self_score: ``masked`` excludes an anchor from its own candidates; ``zero`` sets its score with
            itself to 0, as the quick-thoughts code does; ``positive`` makes it one of its own positives
            if it has others, none of which can then be left out.
        same: ``(M,)`` integers, equal for equal sentences. If given, sentences equal to the anchor or to
            one of its positives are no candidates, except the positives themselves.
        left_out: whether a positive's softmax leaves out the anchor's other positives. They remain candidates for
            the most probable one, which is found in one softmax of all.
        reach: candidates are so many rows before the anchor, itself, and one less after it; 0 for all.
    """

    @staticmethod
    def forward(
        ctx: Any,
        positives: Tensor,
        self_score: str,
        same: Tensor | None,
        left_out: bool,
        summed: bool,
        reach: int,
        *vectors: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        directions = list(zip(vectors[::2], vectors[1::2], strict=True))
        anchors = torch.arange(len(positives), device=positives.device)
        gradients = [(torch.zeros_like(queries), torch.zeros_like(keys)) for queries, keys in directions]
        there = positives >= 0
        columns = torch.where(there, positives, anchors[:, None])  # padding gets zero weight
        has_context = there.any(dim=1)
        if self_score == "positive":  # the anchor is its last one
            there = torch.cat([there, has_context[:, None]], dim=1)
        shares = has_context[:, None] if summed else there.sum(dim=1, keepdim=True)
        weights = there.to(vectors[0].dtype) / (shares * has_context.sum()).clamp(min=1)
        losses, best, masked = [], [], []
        rows = max(1, SCORES_AT_ONCE // len(vectors[0]))
        blocks = zip(*(tensor.split(rows) for tensor in (anchors, columns, weights, has_context)), strict=True)
        for own, column, weight, counts in blocks:
            mask = None
            if same is not None:  # whether a candidate duplicates the anchor or a positive, without being one of them
                mask = same[own][:, None] == same
                for each in column.T:
                    mask |= same[each][:, None] == same
                mask = mask.scatter_(1, column, False).scatter_(1, own[:, None], False)
            if reach:
                after = anchors - own[:, None]
                far = (after < -reach) | (after >= reach)
                mask = far if mask is None else mask | far
            scores = [queries[own] @ keys.T for queries, keys in directions]
            if left_out:
                best.append(_best_other([_softmax(each.clone(), own, column, self_score, mask) for each in scores]))
            softmaxes = [_softmax(each, own, column, self_score, mask, left_out) for each in scores]
            log_p = torch.stack([softmax.log_p for softmax in softmaxes])
            losses.append(-(weight * (log_p.logsumexp(dim=0) - math.log(len(softmaxes)))).sum())
            if not left_out:
                best.append(_best_other(softmaxes))
            masked.append((mask & counts[:, None]).sum() if mask is not None else counts.new_zeros(()))
            if any(ctx.needs_input_grad):
                # Each direction's share of p at the positives.
                shares = weight * log_p.softmax(dim=0)
                by_direction = zip(softmaxes, shares, directions, gradients, strict=True)
                for softmax, share, (queries, keys), (d_queries, d_keys) in by_direction:
                    d_scores = _score_gradient(softmax, own, column, share, left_out)
                    d_queries.index_add_(0, own, d_scores @ keys)
                    d_keys.addmm_(d_scores.T, queries[own])
        ctx.save_for_backward(*(gradient for pair in gradients for gradient in pair))
        others = has_context.sum().clamp(min=1) * max(len(vectors[0]) - 1, 1)
        chosen, share_masked = torch.cat(best), torch.stack(masked).sum() / others
        ctx.mark_non_differentiable(chosen, share_masked)
        return torch.stack(losses).sum(), chosen, share_masked

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        return (*[None] * 6, *(d_loss * gradient for gradient in ctx.saved_tensors))


class _Softmax(NamedTuple):
    """One direction's softmax over the scores of a block; ``exponentials`` lack the positives if they are left out."""

    exponentials: Tensor  # (R, M), unnormalised probabilities of the candidates other than the anchor, the largest 1
    total: Tensor  # (R, 1), logarithm of the normaliser, which includes the anchor's own score; (R, K) if left out
    log_p: Tensor  # (R, K), log-probabilities of the positives; (R, K + 1) if the anchor itself is the last


def _softmax(
    scores: Tensor, own: Tensor, columns: Tensor, self_score: str, mask: Tensor | None, left_out: bool = False
) -> _Softmax:
    """Softmax over ``scores (R, M)``, which are overwritten."""
    own_score = scores.gather(1, own[:, None]) if self_score == "positive" else scores.new_zeros(len(own), 1)
    scores.scatter_(1, own[:, None], MASKED)
    if mask is not None:
        scores.masked_fill_(mask, MASKED)
    chosen = scores.gather(1, columns)
    if left_out:
        scores.scatter_(1, columns, MASKED)
    largest = scores.amax(dim=1, keepdim=True)
    if left_out:  # there may be no others
        largest = torch.where(largest > MASKED / 2, largest, chosen.amax(dim=1, keepdim=True))
    scores -= largest
    chosen -= largest
    total = scores.exp_().sum(dim=1, keepdim=True).log()
    if self_score != "masked":
        # The anchor's own score may be by far the largest, so its exponential could overflow.
        total = torch.logaddexp(total, own_score - largest)
    if left_out:
        total = torch.logaddexp(total, chosen)
    if self_score == "positive":
        chosen = torch.cat([chosen, own_score - largest], dim=1)
    return _Softmax(scores, total, chosen - total)


def _best_other(directions: Sequence[_Softmax]) -> Tensor:
    """The most probable candidate ``(R,)`` other than the anchor."""
    # Proportional to p, scaled so that the largest does not underflow.
    least = torch.stack([softmax.total for softmax in directions]).amin(dim=0)
    first, *others = directions
    p = first.exponentials * (least - first.total).exp()
    for softmax in others:
        p.addcmul_(softmax.exponentials, (least - softmax.total).exp())
    return p.argmax(dim=1)


def _score_gradient(softmax: _Softmax, own: Tensor, columns: Tensor, share: Tensor, left_out: bool) -> Tensor:
    """Gradient of the loss with respect to the scores ``(R, M)``; overwrites the exponentials.

    ``share`` is the weight of each ``log_p`` in this direction.
    """
    if left_out:  # the positives are not among the exponentials, the largest of which is 1 unless all are 0
        scale = (share * (-softmax.total).clamp(max=0).exp()).sum(dim=1, keepdim=True)
        return softmax.exponentials.mul_(scale).scatter_add_(1, columns, share * softmax.log_p.expm1())
    weight, k = share.sum(dim=1, keepdim=True), columns.shape[1]
    gradient = softmax.exponentials.mul_(weight * (-softmax.total).exp()).scatter_add_(1, columns, -share[:, :k])
    if share.shape[1] > k:
        gradient.scatter_(1, own[:, None], weight * softmax.log_p[:, k:].exp() - share[:, k:])
    return gradient


@dataclass(frozen=True)
class ContrastiveConfig(Settings):
    """The settings of objectives whose candidates are the sentences of a batch."""

    self_score: str = setting("masked", "Score of a sentence with itself: masked or zero.", choices=("masked", "zero"))
    mask_duplicates: bool = setting(
        False,
        "Whether to exclude candidates equal to the anchor or to one of its contexts.",
        flags="--mask-duplicates/--keep-duplicates",
    )
    critic: str = setting(
        "inner",
        "Score of two vectors: inner (inner product) or bilinear (x W y, W learnt for each ordered pair of views).",
        choices=("inner", "bilinear"),
    )


class Contrastive(Objective):
    """Base class of contrastive objectives: the critic, options and metrics.

    Args:
        self_score, left_out, summed, reach: see ``_ContrastiveLoss``.
        mask_duplicates: exclude candidates equal to the anchor or to one of its contexts, and log their share.
        bilinear: the dimensions of each ordered pair of views ``(query, key)`` with a bilinear critic of its own,
            ``c(x, y) = x^T W y`` (Simoulin's thesis, chapter "Structured sentence encoders at scale"). W starts as the
            identity, so that training starts as with the inner product, which is the critic of all other pairs.
    """

    takes_pairs: ClassVar[bool] = True

    def __init__(
        self,
        self_score: str = "masked",
        mask_duplicates: bool = False,
        left_out: bool = False,
        bilinear: Mapping[tuple[int, int], tuple[int, int]] | None = None,
        summed: bool = False,
        reach: int = 0,
    ):
        super().__init__()
        self.critics = nn.ParameterDict({_pair(*each): torch.eye(*dims) for each, dims in (bilinear or {}).items()})
        self.self_score = self_score
        self.mask_duplicates = mask_duplicates
        self.left_out = left_out
        self.summed = summed
        self.reach = reach
        self.needs = frozenset({"same"} if mask_duplicates else ())

    def direction(self, views: Sequence[Tensor], query: int, key: int) -> Direction:
        """Queries and keys whose inner products are the critic's scores of one view's vectors with another's."""
        queries, keys = views[query], views[key]
        if self.critics:
            queries = queries @ self.critics[_pair(query, key)]
        return queries, keys

    def contrast(self, pairs: Sequence[Sequence[Direction]], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, averaged over pairs of views, and the metrics."""
        neighbours, same = context.neighbours, context.same if self.mask_duplicates else None
        how = neighbours, self.self_score, same, self.left_out, self.summed, self.reach
        found = [_ContrastiveLoss.apply(*how, *(side for direction in pair for side in direction)) for pair in pairs]
        losses, best, masked = (torch.stack(each) for each in zip(*found, strict=True))
        loss, hits = losses.mean(), (best[:, :, None] == neighbours).sum(dim=(1, 2))
        n_contexts = (neighbours >= 0).sum(dim=1)
        n_anchors = (n_contexts > 0).sum()
        # Chance level: all scores equal, no duplicates masked.
        rows, reach = torch.arange(len(neighbours), device=neighbours.device), self.reach or len(neighbours)
        n_others = rows.clamp(max=reach) + rows.flip(0).clamp(max=reach - 1)
        n_candidates = n_others + (self.self_score != "masked")
        left = n_candidates - (n_contexts - 1).clamp(min=0) * self.left_out
        n_terms = n_contexts + (self.self_score == "positive") if self.summed else 1
        chance = (n_terms * left.double().log()).masked_fill(n_contexts == 0, 0.0).sum() / n_anchors.clamp(min=1)
        metrics = {
            "loss": loss.detach(),
            "accuracy": hits.double().mean() / n_anchors.clamp(min=1),
            "chance_loss": chance,
            "chance_accuracy": (n_contexts.double() / n_others.clamp(min=1)).sum() / n_anchors.clamp(min=1),
            "anchors": n_anchors,
        }
        if self.mask_duplicates:
            metrics["masked"] = masked.mean()
        return loss, metrics


def _pair(query: int, key: int) -> str:
    """The letters of two views, such as ``fg``."""
    letters = view_letters(max(query, key) + 1)
    return letters[query] + letters[key]
