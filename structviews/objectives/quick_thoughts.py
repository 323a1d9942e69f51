"""The quick-thoughts objective (Logeswaran and Lee 2018, section 3), and the losses and negatives that it tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.objectives.contrast import Contrastive, ContrastiveConfig
from structviews.objectives.negatives import (
    at_random,
    best,
    binary_losses,
    eligible,
    margin_losses,
    nearest,
    softmax_losses,
)
from structviews.objectives.objective import Context, Inputs, promoted
from structviews.settings import setting


@dataclass(frozen=True)
class QuickThoughtsConfig(ContrastiveConfig):
    """The settings of the quick-thoughts objective.

    Raises:
        InputError: also for a setting that belongs to another loss, or to other negatives.
    """

    loss: str = setting(
        "softmax",
        "How contexts are told from negatives: softmax, binary or margin.",
        choices=("softmax", "binary", "margin"),
    )
    negatives: str = setting(
        "batch",
        "A sentence's negatives in training: batch (all the others in it), or some of these: random or nearest.",
        choices=("batch", "random", "nearest"),
    )
    contrasts: int = setting(50, "Negatives of each sentence if random or nearest.", least=1, most=100_000)
    margin: float = setting(
        1.0, "How much a context should score above a negative, with the loss margin.", above=0, most=1000
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
    """Contrastive objective over inner products between two encoders of the same architecture.

    The encoders have separate weights: ``f`` encodes the sentence and ``g`` its contexts. The loss has
    only this direction.

    Args:
        inputs: two views of the same name.
        config: the settings; ``negatives`` has the functions behind ``loss`` and ``negatives``.

    Raises:
        InputError: if the views have different architectures.
    """

    max_views: ClassVar[int | None] = 2
    example: ClassVar[str] = "seq,seq"
    Config = QuickThoughtsConfig

    def __init__(self, inputs: Inputs, config: QuickThoughtsConfig) -> None:
        super().__init__(config.self_score, config.mask_duplicates)
        self.config = config
        if len(set(inputs.views)) > 1:
            raise InputError(
                f"views {','.join(inputs.views)} for the objective 'quick-thoughts', which needs two encoders of the "
                "same architecture: give one view twice, for example --views seq,seq"
            )

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        f, g = promoted(views)
        if self.config.loss == "softmax" and (self.config.negatives == "batch" or not self.training):
            return self.contrast([[(f, g)]], context)
        return self._among(f, g, context)

    def _among(self, f: Tensor, g: Tensor, context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics among the negatives of the settings."""
        neighbours = context.neighbours
        allowed = eligible(neighbours, context.same if self.mask_duplicates else None)
        negatives, scores = self._chosen(f, allowed), f @ g.T
        has_context = (neighbours >= 0).any(dim=1)
        n_anchors = has_context.sum()

        def mean(values: Tensor) -> Tensor:
            return (values * has_context).sum() / n_anchors.clamp(min=1)

        loss = mean(self._losses(scores, neighbours, negatives))
        n_contexts = (neighbours >= 0).sum(dim=1)
        hits = (best(scores.detach(), neighbours, negatives)[:, None] == neighbours).any(dim=1)
        metrics = {
            "loss": loss.detach(),
            "accuracy": mean(hits.double()),
            "chance_loss": mean(self._losses(torch.zeros_like(scores), neighbours, negatives).detach()),
            "chance_accuracy": mean(n_contexts.double() / (n_contexts + negatives.sum(dim=1)).clamp(min=1)),
            "anchors": n_anchors,
        }
        if self.mask_duplicates:
            left_out = (eligible(neighbours) & ~allowed).sum(dim=1).double()
            metrics["masked"] = mean(left_out / max(len(context) - 1, 1))
        return loss, metrics

    def _chosen(self, f: Tensor, allowed: Tensor) -> Tensor:
        """Each sentence's negatives ``(B, B)``; in evaluation mode, all that are allowed."""
        if not self.training or self.config.negatives == "batch":
            return allowed
        if self.config.negatives == "random":
            return at_random(allowed, self.config.contrasts)
        return nearest(f, allowed, self.config.contrasts)

    def _losses(self, scores: Tensor, neighbours: Tensor, negatives: Tensor) -> Tensor:
        """The loss of each sentence, ``(B,)``."""
        if self.config.loss == "binary":
            return binary_losses(scores, neighbours, negatives)
        if self.config.loss == "margin":
            return margin_losses(scores, neighbours, negatives, self.config.margin)
        return softmax_losses(scores, neighbours, negatives, self.self_score == "zero")
