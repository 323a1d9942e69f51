"""Unsupervised SimCSE: a sentence finds itself, encoded with other dropout, among the others (Gao et al. 2021)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.kernels.cells import xavier
from structviews.objectives import OBJECTIVES
from structviews.objectives.objective import Context, Inputs, Objective
from structviews.settings import Settings, setting


@dataclass(frozen=True)
class SimCseConfig(Settings):
    """The settings of SimCSE."""

    temperature: float = setting(0.05, "Temperature of the cosines.", above=0, most=1000)
    head: bool = setting(
        True,
        "Whether to compute cosines on a layer above the vectors, which is dropped after training.",
        flags="--head/--no-head",
    )


@OBJECTIVES.register("simcse")
class SimCse(Objective):
    """Unsupervised SimCSE (Gao et al. 2021, equation 4), for one view with dropout.

    Each sentence is encoded twice. The loss is the cross-entropy of finding a sentence's second vector, among those of
    all sentences of the batch, by the cosine with its first one. The layer above the vectors is the paper's: linear and
    tanh, in training only.
    """

    min_views: ClassVar[int] = 1
    max_views: ClassVar[int | None] = 1
    example: ClassVar[str] = "transformer"
    passes: ClassVar[int] = 2
    report: ClassVar[str] = "loss {loss:.3f} (chance {chance_loss:.3f}), without dropout"
    Config = SimCseConfig

    def __init__(self, inputs: Inputs, config: SimCseConfig) -> None:
        super().__init__()
        self.temperature = config.temperature
        (dim,) = inputs.dims
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.Tanh()) if config.head else nn.Identity()
        xavier(self.head)

    @classmethod
    def reads_neighbours(cls, config: Settings) -> bool:
        return False

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        first, second = (F.normalize(self.head(vectors), dim=1) for vectors in views)
        scores = first @ second.T / self.temperature
        own = torch.arange(len(scores), device=scores.device)
        loss = F.cross_entropy(scores, own)
        n = scores.new_tensor(len(scores))
        metrics = {
            "loss": loss.detach(),
            "accuracy": (scores.argmax(dim=1) == own).double().mean(),
            "chance_loss": torch.full_like(n, math.log(len(scores))),
            "chance_accuracy": 1 / n,
            "anchors": n,
        }
        return loss, metrics
