"""The quick-thoughts objective (Logeswaran and Lee 2018, section 3)."""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from structviews.errors import InputError
from structviews.objectives.base import Context, Inputs, promoted, register
from structviews.objectives.contrast import Contrastive


@register("quick-thoughts")
class QuickThoughts(Contrastive):
    """One encoder's vector of a sentence tells, by inner products, the other's vectors of its contexts.

    Both encoders are of one architecture, with weights of their own; ``f`` reads the sentence and
    ``g`` its contexts, in this one direction.

    Args:
        inputs: the views, one twice.
        self_score: ``masked`` or ``zero``, see ``contrastive_loss``.
        mask_duplicates: sentences that equal the anchor or one of its contexts are no candidates.

    Raises:
        InputError: if the views are of different architectures.
    """

    max_views: ClassVar[int | None] = 2
    example: ClassVar[str] = "seq,seq"
    options: ClassVar[tuple[str, ...]] = ("self_score", "mask_duplicates")

    def __init__(self, inputs: Inputs, self_score: str = "masked", mask_duplicates: bool = False):
        super().__init__(self_score, mask_duplicates)
        if len(set(inputs.views)) > 1:
            raise InputError(
                f"views {','.join(inputs.views)} for the objective 'quick-thoughts', which takes two encoders of one "
                "architecture: name one view twice, as in --views seq,seq"
            )

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        f, g = promoted(views)
        return self.contrast([[(f, g)]], context)
