"""The pairwise-averaged contrastive objective (structured views, section 3.1)."""

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

from torch import Tensor

from structviews.objectives.base import Context, Inputs, promoted, register
from structviews.objectives.contrast import Contrastive


@register("pairwise")
class Pairwise(Contrastive):
    """Two or more views agree, by inner products, on which sentences are neighbours.

    The probability of a context is the mean of the two directions' softmax probabilities, that of
    ``g_j`` given ``f_i`` and that of ``f_j`` given ``g_i``. For more than two views the loss is the
    mean over unordered pairs.

    Args:
        inputs: the views.
        self_score: ``masked`` or ``zero``, see ``contrastive_loss``.
        mask_duplicates: sentences that equal the anchor or one of its contexts are no candidates.
    """

    options: ClassVar[tuple[str, ...]] = ("self_score", "mask_duplicates")

    def __init__(self, inputs: Inputs, self_score: str = "masked", mask_duplicates: bool = False):
        super().__init__(self_score, mask_duplicates)

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        return self.contrast([[(f, g), (g, f)] for f, g in combinations(promoted(views), 2)], context)
