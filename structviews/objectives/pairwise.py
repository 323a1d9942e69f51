"""The pairwise-averaged contrastive objective (structured views, section 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from torch import Tensor

from structviews.objectives import OBJECTIVES
from structviews.objectives.contrast import Contrastive, ContrastiveConfig
from structviews.objectives.objective import Context, Inputs
from structviews.settings import setting


@dataclass(frozen=True)
class PairwiseConfig(ContrastiveConfig):
    """The settings of the pairwise objective."""

    other_contexts: str = setting(
        "kept", "Whether a context competes with the sentence's others: kept or left-out.", choices=("kept", "left-out")
    )


@OBJECTIVES.register("pairwise")
class Pairwise(Contrastive):
    """Contrastive objective over inner products, or bilinear forms, between two or more views.

    The probability of a context is the mean of the softmax probabilities in both directions: of ``g_j`` given ``f_i``
    and of ``f_j`` given ``g_i``. For more than two views, the loss is the mean over unordered pairs.
    """

    Config = PairwiseConfig

    def __init__(self, inputs: Inputs, config: PairwiseConfig) -> None:
        ordered = permutations(range(len(inputs.views)), 2) if config.critic == "bilinear" else ()
        bilinear = {(f, g): (inputs.dims[f], inputs.dims[g]) for f, g in ordered}
        super().__init__(config.self_score, config.mask_duplicates, config.other_contexts == "left-out", bilinear)

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        pairs = combinations(range(len(views)), 2)
        both = [[self.direction(views, f, g), self.direction(views, g, f)] for f, g in pairs]
        return self.contrast(both, context)
