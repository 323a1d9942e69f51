"""The consensus objective (Tang and de Sa).

References: "Multi-view Sentence Representation Learning" (M) and "Improving Sentence Representations
with Consensus Maximisation" (C), whose table 3 lists the kinds of agreement.

Shapes: B sentences in the batch, D dimension of a vector.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.objectives.contrast import Contrastive, Direction
from structviews.objectives.objective import Context, Inputs, view_letters
from structviews.settings import Settings, setting

# Kinds of agreement; `single` is of one view, the others of two or more.
AGREEMENTS = ("multi", "single", "multi+single", "within", "skip")
# A learnt temperature is clamped to this range.
TEMPERATURES = (0.01, 10.0)
# Added under the square root of a norm: a sentence of unknown words only may be the zero vector.
EPSILON = 1e-8


@dataclass(frozen=True)
class ConsensusConfig(Settings):
    """The settings of the consensus objective."""

    agreement: str = setting(
        "multi", "Views whose cosines are summed: multi, single, multi+single, within, skip.", choices=AGREEMENTS
    )
    include_self: bool = setting(
        True, "Whether a sentence is one of its own contexts and candidates.", flags="--include-self/--exclude-self"
    )
    temperature: float = setting(
        1.0, "Softmax temperature; the initial value if it is learnt.", least=TEMPERATURES[0], most=TEMPERATURES[1]
    )
    learn_temperature: bool = setting(
        True, "Whether the temperature is learnt.", flags="--learn-temperature/--fix-temperature"
    )
    power_iterations: int = setting(
        5, "Power iterations for the principal component that is removed; 0 removes none.", least=0, most=1000
    )
    over_contexts: str = setting(
        "mean", "A sentence's loss: the mean over its contexts, or their sum.", choices=("mean", "sum"), file_only=True
    )
    window: int = setting(
        0, "Number of candidates around a sentence, half of them before it; 0 for the batch.", least=0, file_only=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window % 2:
            raise InputError(f"window = {self.window}: give an even number of sentences, or 0 for the batch")


@OBJECTIVES.register("consensus")
class Consensus(Contrastive):
    """Contrastive objective over summed cosines of one or more views.

    The agreement ``a_ij`` is a sum of cosines of vectors without the first principal component of
    their batch, and ``p_ij = softmax_j(a_ij / temperature)``. By default a sentence is one of its own contexts.

    Args:
        inputs: one view for ``single``, otherwise two or more.
        config: the settings. Kinds of agreement: ``multi`` is ``cos(f_i, g_j) + cos(g_i, f_j)`` (M eq. 1);
            ``single`` is ``cos(f_i, f_j)``; ``multi+single`` is the sum of all four (C eq. 7); ``within`` is
            ``cos(f_i, f_j) + cos(g_i, g_j)`` (M eq. 4); ``skip`` is ``cos(f_i + g_i, f_j + g_j)`` (C eq. 6). The
            papers have two views; of more, ``multi`` sums over the ordered pairs of different views,
            ``multi+single`` over all ordered pairs, ``within`` over the views, and ``skip`` adds up all views.
            ``over_contexts = sum`` is M eq. 1's loss, ``window`` C eq. 2's denominator; without them, a sentence's
            loss is the mean over its contexts, among the sentences of the batch.
    """

    min_views: ClassVar[int] = 1
    example: ClassVar[str] = "seq,avg"
    Config = ConsensusConfig

    def __init__(self, inputs: Inputs, config: ConsensusConfig) -> None:
        self_score = "positive" if config.include_self else "masked"
        super().__init__(self_score, summed=config.over_contexts == "sum", reach=config.window // 2)
        agreement, n_views = config.agreement, len(inputs.views)
        if (agreement == "single") != (n_views == 1):
            wanted, views = ("one view", "seq") if agreement == "single" else ("two or more views", "seq,avg")
            fitting = ", ".join(name for name in AGREEMENTS if (name == "single") == (n_views == 1))
            raise InputError(
                f"agreement {agreement!r} needs {wanted}, not {','.join(inputs.views)}: use --views {views} "
                f"or --agreement {fitting}"
            )
        self.needs = frozenset({"next"})
        self.agreement = agreement
        self.power_iterations = config.power_iterations
        start = torch.tensor(math.log(config.temperature))
        self.log_temperature = nn.Parameter(start, requires_grad=config.learn_temperature)

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        views = [without_first_component(view, self.power_iterations) for view in views]
        queries, keys = self._sides(views)
        loss, metrics = self.contrast([[(queries * (-self.log_temperature).exp(), keys)]], context)
        metrics["temperature"] = self.log_temperature.detach().exp()
        if not self.training:
            metrics |= adjacent_cosines(views, cast("Tensor", context.next))  # there, as ``needs`` asks for it
        return loss, metrics

    def _sides(self, views: list[Tensor]) -> Direction:
        """Query and key vectors, of views without their component, whose inner products are the agreements."""
        units = [unit(sum_of(views))] if self.agreement == "skip" else [unit(view) for view in views]
        if self.agreement == "multi+single":
            # (f_i + g_i) . (f_j + g_j) is the sum of the four cosines.
            units = [sum_of(units)]
        side = torch.cat(units, dim=1)
        if self.agreement != "multi":
            return side, side
        # f_i . (g_j + h_j) + ...: each view meets the sum of the others.
        return side, torch.cat([sum_of(units[:own] + units[own + 1 :]) for own in range(len(units))], dim=1)

    @torch.no_grad()
    def after_step(self) -> None:
        self.log_temperature.clamp_(math.log(TEMPERATURES[0]), math.log(TEMPERATURES[1]))

    def warning(self, metrics: Mapping[str, float]) -> str:
        for bound in TEMPERATURES:
            if self.log_temperature.requires_grad and math.isclose(metrics["temperature"], bound, rel_tol=1e-4):
                return f"the temperature has reached its bound {bound}: use a lower --lr, or --fix-temperature"
        return ""


def sum_of(vectors: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of the same shape."""
    return reduce(torch.add, vectors)


def unit(vectors: Tensor) -> Tensor:
    """Rows ``(B, D)`` normalised to length 1; a zero row stays zero."""
    return vectors * (vectors.square().sum(dim=1, keepdim=True) + EPSILON).rsqrt()


def adjacent_cosines(views: Sequence[Tensor], following: Tensor) -> dict[str, Tensor]:
    """Mean cosines of adjacent sentences: ``adjacent_fg`` of a sentence in view f and the next one in view g.

    Divided by the temperature, they are the curves of M figure 1. The views ``(B, D)`` are without their component;
    ``following`` is ``Context.next``. The cosines are 0 if no sentence has a next one.
    """
    units = dict(zip(view_letters(len(views)), map(unit, views), strict=True))
    (first,) = torch.where(following >= 0)
    second = following[first]
    return {
        f"adjacent_{a}{b}": (units[a][first] * units[b][second]).sum() / max(len(first), 1)
        for a, b in product(units, repeat=2)
    }


def without_first_component(vectors: Tensor, iterations: int) -> Tensor:
    """Rows ``(B, D)``, not centred, without their first principal component: ``z - u u^T z`` (M section 3.2).

    u is the first right singular vector by so many iterations of the power method (M supplement 1); 0 removes nothing.
    It starts from the sum of the vectors, which is close to it. Computing ``Z^T (Z u)`` avoids the product ``Z^T Z`` or
    ``Z Z^T``, which costs more than fewer than ``min(B, D) / 2`` iterations. The gradient goes through the projection,
    not through u.
    """
    if not iterations:
        return vectors
    z = vectors.detach()
    u = z.sum(dim=0)
    for _ in range(iterations):
        u = nn.functional.normalize(z.T @ (z @ u), dim=0)
    return vectors - (vectors @ u)[:, None] * u
