"""The quick-thoughts objective (Logeswaran and Lee 2018, section 3)."""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.objectives.contrast import Contrastive, ContrastiveConfig
from structviews.objectives.objective import Context, Inputs, promoted


@OBJECTIVES.register("quick-thoughts")
class QuickThoughts(Contrastive):
    """Contrastive objective over inner products between two encoders of the same architecture.

    The encoders have separate weights: ``f`` encodes the sentence and ``g`` its contexts. The loss has
    only this direction.

    Args:
        inputs: two views of the same name.
        config: the settings.

    Raises:
        InputError: if the views have different architectures.
    """

    max_views: ClassVar[int | None] = 2
    example: ClassVar[str] = "seq,seq"
    Config = ContrastiveConfig

    def __init__(self, inputs: Inputs, config: ContrastiveConfig) -> None:
        super().__init__(config.self_score, config.mask_duplicates)
        if len(set(inputs.views)) > 1:
            raise InputError(
                f"views {','.join(inputs.views)} for the objective 'quick-thoughts', which needs two encoders of the "
                "same architecture: give one view twice, for example --views seq,seq"
            )

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        f, g = promoted(views)
        return self.contrast([[(f, g)]], context)
