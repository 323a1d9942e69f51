"""The quick-thoughts objective (Logeswaran and Lee 2018, section 3), and the losses and negatives that it tried.

The latter (its sections 3 and 4.3) are on whole matrices.

Shapes: N sentences in the batch, D dimension of a vector, K maximum number of contexts of a sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.objectives.contrast import MASKED, Contrastive, ContrastiveConfig
from structviews.objectives.objective import Context, Inputs
from structviews.settings import setting


@dataclass(frozen=True)
class QuickThoughtsConfig(ContrastiveConfig):
    """The settings of quick-thoughts; raises InputError also for one of another loss, or of other negatives."""

    loss: str = setting("softmax", "Loss: softmax, binary or margin.", choices=("softmax", "binary", "margin"))
    negatives: str = setting(
        "batch",
        "Negatives in training: batch (all its other sentences), or a random or nearest few of them.",
        choices=("batch", "random", "nearest"),
    )
    contrasts: int = setting(50, "Number of negatives per sentence if random or nearest.", least=1, most=100_000)
    margin: float = setting(
        1.0, "With the loss margin: how much higher a context should score than a negative.", above=0, most=1000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss != "softmax" and self.self_score != "masked":
            raise InputError(
                f"self_score = {self.self_score} with loss = {self.loss}: only a softmax has the sentence itself "
                "among its candidates: leave it out"
            )
        if self.loss != "margin" and self.margin != type(self).margin:
            raise InputError(f"margin = {self.margin:g} with loss = {self.loss}: leave it out, or add --loss margin")
        if self.negatives == "batch" and self.contrasts != type(self).contrasts:
            raise InputError(
                f"contrasts = {self.contrasts} with negatives = batch, which are all: leave it out, or add "
                "--negatives random or --negatives nearest"
            )


@OBJECTIVES.register("quick-thoughts")
class QuickThoughts(Contrastive):
    """Contrastive objective over inner products, or a bilinear form, between two encoders of the same architecture.

    The encoders have separate weights: ``f`` encodes the sentence and ``g`` its contexts. The loss has
    only this direction.
    """

    max_views: ClassVar[int | None] = 2
    example: ClassVar[str] = "seq,seq"
    Config = QuickThoughtsConfig

    def __init__(self, inputs: Inputs, config: QuickThoughtsConfig) -> None:
        bilinear = {(0, 1): (inputs.dims[0], inputs.dims[1])} if config.critic == "bilinear" else {}
        super().__init__(config.self_score, config.mask_duplicates, bilinear=bilinear)
        self.config = config
        if len(set(inputs.views)) > 1:
            raise InputError(
                f"views {','.join(inputs.views)} for the objective 'quick-thoughts', which needs two encoders of the "
                "same architecture: give one view twice, for example --views seq,seq"
            )

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        if self.config.loss == "softmax" and (self.config.negatives == "batch" or not self.training):
            return self.contrast([[self.direction(views, 0, 1)]], context)
        return self._among(views, context)

    def _among(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics among the negatives of the settings; in evaluation mode, among all that are allowed."""
        neighbours, (queries, keys) = context.neighbours, self.direction(views, 0, 1)
        allowed = eligible(neighbours, context.same if self.mask_duplicates else None)
        negatives, scores = allowed, queries @ keys.T
        if self.training and self.config.negatives != "batch":
            negatives = drawn(allowed, self.config.contrasts, views[0] if self.config.negatives == "nearest" else None)
        has_context = (neighbours >= 0).any(dim=1)
        n_anchors = has_context.sum()

        def mean(values: Tensor) -> Tensor:
            return (values * has_context).sum() / n_anchors.clamp(min=1)

        loss = mean(self._losses(scores, neighbours, negatives))
        n_contexts = (neighbours >= 0).sum(dim=1)
        best = scores.detach().masked_fill(~(negatives | _contexts(neighbours)), MASKED).argmax(dim=1)
        metrics = {
            "loss": loss.detach(),
            "accuracy": mean((best[:, None] == neighbours).any(dim=1).double()),
            "chance_loss": mean(self._losses(torch.zeros_like(scores), neighbours, negatives).detach()),
            "chance_accuracy": mean(n_contexts.double() / (n_contexts + negatives.sum(dim=1)).clamp(min=1)),
            "anchors": n_anchors,
        }
        if self.mask_duplicates:
            left_out = (eligible(neighbours) & ~allowed).sum(dim=1).double()
            metrics["masked"] = mean(left_out / max(len(context) - 1, 1))
        return loss, metrics

    def _losses(self, scores: Tensor, neighbours: Tensor, negatives: Tensor) -> Tensor:
        """The loss of each sentence ``(N,)``, averaged over its contexts j; its negatives ``(N, N)`` are k.

        ``softmax``: ``-log`` of the context's softmax among the negatives and all contexts, and the sentence itself,
        with the score 0, if ``self_score`` is ``zero``. ``binary``: ``-log sigmoid(s_ij)``, plus the sum over negatives
        of ``-log sigmoid(-s_ik)``: negative sampling (Mikolov et al. 2013, eq. 4), with sentences for words.
        ``margin``: the sum over negatives of ``max(0, margin - s_ij + s_ik)``.
        """
        columns = neighbours.clamp(min=0)
        if self.config.loss == "binary":
            near = F.softplus(-scores.gather(1, columns))
            return _mean(near, neighbours) + (F.softplus(scores) * negatives).sum(dim=1)
        if self.config.loss == "margin":
            margin, near = self.config.margin, scores.gather(1, columns)
            hinges = [(F.relu(margin - each[:, None] + scores) * negatives).sum(dim=1) for each in near.T]
            return _mean(torch.stack(hinges, dim=1), neighbours)
        logits = scores.masked_fill(~(negatives | _contexts(neighbours)), MASKED)
        if self.self_score == "zero":
            logits = logits.diagonal_scatter(logits.new_zeros(len(logits)))
        return -_mean(logits.log_softmax(dim=1).gather(1, columns), neighbours)


def eligible(neighbours: Tensor, same: Tensor | None = None) -> Tensor:
    """Which sentences may be negatives of which, ``(N, N)``.

    All but itself and its contexts ``(N, K)``; none that is the same, see ``Context``, as one of these.
    """
    related = _contexts(neighbours) | torch.eye(len(neighbours), dtype=torch.bool, device=neighbours.device)
    if same is not None:
        equal = (same[:, None] == same).to(torch.float32)
        related = related.to(torch.float32) @ equal > 0
    return ~related


def drawn(allowed: Tensor, number: int, vectors: Tensor | None = None) -> Tensor:
    """``number`` of each row's allowed ones ``(N, N)``, all if there are fewer.

    They are drawn without replacement; with ``vectors (N, D)``, they are those of the highest cosines.
    """
    if vectors is None:
        values = torch.rand(allowed.shape, device=allowed.device)
    else:
        units = F.normalize(vectors.detach(), dim=1)
        values = units @ units.T
    highest = values.masked_fill(~allowed, MASKED).topk(min(number, len(values)), dim=1).indices
    return torch.zeros_like(allowed).scatter_(1, highest, True) & allowed


def _contexts(neighbours: Tensor) -> Tensor:
    """``(N, N)`` whether one is a context of the other, from ``(N, K)``."""
    n = len(neighbours)
    found = torch.zeros(n, n + 1, dtype=torch.bool, device=neighbours.device)
    return found.scatter_(1, torch.where(neighbours < 0, n, neighbours), True)[:, :n]


def _mean(values: Tensor, neighbours: Tensor) -> Tensor:
    """Mean over the contexts of each sentence of ``values (N, K)``; 0 without any."""
    there = neighbours >= 0
    return (values * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)
