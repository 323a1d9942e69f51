"""The consensus objective (Tang and de Sa).

Cited are "Multi-view Sentence Representation Learning" (M) and "Improving Sentence Representations
with Consensus Maximisation" (C), whose table 3 has the kinds of agreement.

Shapes: B sentences of a batch, D length of a vector.
"""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from structviews.errors import InputError
from structviews.objectives.base import Context, Inputs, promoted, register
from structviews.objectives.contrast import Contrastive, Direction

# How many views each kind of agreement takes.
AGREEMENTS = {"multi": 2, "single": 1, "multi+single": 2, "within": 2, "skip": 2}
# A learnt temperature stays between these.
TEMPERATURES = (0.01, 10.0)
# Under the root of a norm: a sentence of unknown words only may be the zero vector.
EPSILON = 1e-8


@register("consensus")
class Consensus(Contrastive):
    """Views agree, by cosines, on which sentences are near one another.

    Agreement ``a_ij`` is a sum of cosines, of vectors without the first principal component of
    their batch, and ``p_ij = softmax_j(a_ij / temperature)``. A sentence is one of its own contexts.

    Args:
        inputs: one view for ``single``, otherwise two.
        agreement: ``multi``: ``cos(f_i, g_j) + cos(g_i, f_j)`` (M eq. 1); ``single``: ``cos(f_i, f_j)``;
            ``multi+single``: all four (C eq. 7); ``within``: ``cos(f_i, f_j) + cos(g_i, g_j)`` (M eq. 4);
            ``skip``: ``cos(f_i + g_i, f_j + g_j)`` (C eq. 6).
        include_self: whether a sentence is among its own contexts and candidates.
        temperature: within ``TEMPERATURES``.
        learn_temperature: whether it is only where it starts.
        power_iterations: to find the first principal component; 0 leaves it in.

    Raises:
        InputError: if the agreement takes another number of views.
    """

    min_views: ClassVar[int] = 1
    max_views: ClassVar[int | None] = 2
    example: ClassVar[str] = "seq,avg"
    options: ClassVar[tuple[str, ...]] = (
        "agreement",
        "include_self",
        "temperature",
        "learn_temperature",
        "power_iterations",
    )

    def __init__(
        self,
        inputs: Inputs,
        agreement: str = "multi",
        include_self: bool = True,
        temperature: float = 1.0,
        learn_temperature: bool = True,
        power_iterations: int = 5,
    ):
        super().__init__("positive" if include_self else "masked")
        n_views = len(inputs.views)
        if AGREEMENTS[agreement] != n_views:
            fitting = ", ".join(name for name, n in AGREEMENTS.items() if n == n_views)
            raise InputError(
                f"agreement {agreement!r} for the view{'s' * (n_views != 1)} {','.join(inputs.views)}: it takes "
                f"{AGREEMENTS[agreement]}, as in --views {'seq' if AGREEMENTS[agreement] == 1 else 'seq,avg'}; "
                f"or give --agreement {fitting}"
            )
        self.agreement = agreement
        self.power_iterations = power_iterations
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)), requires_grad=learn_temperature)

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        queries, keys = self._sides(promoted(views))
        loss, metrics = self.contrast([[(queries * (-self.log_temperature).exp(), keys)]], context)
        return loss, metrics | {"temperature": self.log_temperature.detach().exp()}

    def _sides(self, views: list[Tensor]) -> Direction:
        """Vectors whose inner products are the agreements."""
        views = [without_first_component(view, self.power_iterations) for view in views]
        units = [unit(views[0] + views[1])] if self.agreement == "skip" else [unit(view) for view in views]
        if self.agreement == "multi+single":
            # (f_i + g_i) . (f_j + g_j) are the four cosines.
            units = [units[0] + units[1]]
        side = torch.cat(units, dim=1)
        return side, torch.cat(units[::-1], dim=1) if self.agreement == "multi" else side

    @torch.no_grad()
    def after_step(self) -> None:
        self.log_temperature.clamp_(math.log(TEMPERATURES[0]), math.log(TEMPERATURES[1]))

    def warning(self, metrics: Mapping[str, float]) -> str:
        for bound in TEMPERATURES:
            if self.log_temperature.requires_grad and math.isclose(metrics["temperature"], bound, rel_tol=1e-4):
                return f"the temperature is at its bound {bound}: give a lower --lr, or fix it by --fix-temperature"
        return ""


def unit(vectors: Tensor) -> Tensor:
    """Rows ``(B, D)`` of length 1; a zero row stays."""
    return vectors * (vectors.square().sum(dim=1, keepdim=True) + EPSILON).rsqrt()


def without_first_component(vectors: Tensor, iterations: int) -> Tensor:
    """Rows ``(B, D)`` without their first principal component: ``z - u u^T z`` (M section 3.2).

    The gradient goes through the projection, not through ``u``.

    Args:
        vectors: they are not centred.
        iterations: of the power method; 0 removes nothing.
    """
    if not iterations:
        return vectors
    u = first_component(vectors.detach(), iterations)
    return vectors - (vectors @ u)[:, None] * u


def first_component(vectors: Tensor, iterations: int) -> Tensor:
    """First right singular vector ``(D,)`` of ``(B, D)``, to a sign, by the power method (M supplement 1).

    It starts at the sum of the vectors, which is not far from it, as they are not centred. ``Z^T (Z u)``
    is what ``Z^T Z`` or ``Z Z^T`` would make of it, and needs neither: those cost more than the
    iterations as long as these are fewer than half of the smaller of B and D.
    """
    u = vectors.sum(dim=0)
    for _ in range(iterations):
        u = nn.functional.normalize(vectors.T @ (vectors @ u), dim=0)
    return u
