"""What an objective is, the registry of objectives, and who is whose context."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from structviews.errors import InputError

_REGISTRY: dict[str, type["Objective"]] = {}


class Objective(nn.Module):
    """Base class of the objectives.

    Attributes:
        min_views, max_views: how many views it takes; ``max_views`` None for any number.
    """

    min_views: ClassVar[int] = 2
    max_views: ClassVar[int | None] = None

    def forward(self, views: Sequence[Tensor], contexts: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch.

        Args:
            views: the vectors ``(B, dim)`` of each view.
            contexts: ``(B, K)`` the sentences that are contexts of each, -1 where there are fewer.

        Returns:
            The loss, a scalar, and the metrics to log, scalars too.
        """
        raise TypeError(f"{type(self).__name__} has no loss")

    def after_step(self) -> None:
        """Called after each optimiser step, for constraints on parameters."""

    def extra_views(self) -> dict[str, nn.Module]:
        """Encoders that training this objective leaves behind."""
        return {}


def register(name: str) -> Callable[[type[Objective]], type[Objective]]:
    """Class decorator: make an objective known by ``name``.

    Raises:
        ValueError: if the name is taken.
    """

    def add(cls: type[Objective]) -> type[Objective]:
        if name in _REGISTRY:
            raise ValueError(f"the objective {name!r} is registered already")
        _REGISTRY[name] = cls
        return cls

    return add


def names() -> list[str]:
    """The known objectives."""
    return sorted(_REGISTRY)


def create(name: str, dims: Sequence[int], **options: Any) -> Objective:
    """Make an objective for views of the given dimensions.

    Raises:
        InputError: if there is no such objective, or it cannot work on these views.
    """
    if name not in _REGISTRY:
        raise InputError(f"unknown objective {name!r}: the objectives are {', '.join(names())}")
    cls = _REGISTRY[name]
    if len(dims) < cls.min_views or (cls.max_views is not None and len(dims) > cls.max_views):
        wanted = f"{cls.min_views}" if cls.max_views == cls.min_views else f"at least {cls.min_views}"
        raise InputError(
            f"{len(dims)} view{'s' * (len(dims) != 1)} for the objective {name!r}, which takes {wanted}: "
            "name them separated by commas, as in --views dep,const"
        )
    if len(set(dims)) > 1:
        raise InputError(f"views of unequal dimensions {', '.join(map(str, dims))}: give all the same --hidden")
    return cls(**options)


def context_indices(document: Tensor, position: Tensor, distance: int) -> Tensor:
    """Which sentences of a batch are contexts of which: ``(B, K)`` int64, -1 where there are fewer.

    ``j`` is a context of ``i`` when both are of one document and their positions in the source
    differ by 1 to ``distance``.

    Args:
        document: ``(B,)`` document of each sentence, in reading order.
        position: ``(B,)`` its index in the document.
        distance: c in the papers.
    """
    # Between two sentences of a document stand only sentences of that document.
    n = len(document)
    offsets = torch.arange(-distance, distance + 1, device=document.device)
    others = torch.arange(n, device=document.device)[:, None] + offsets
    inside = others.clamp(0, n - 1)
    gap = (position[inside] - position[:, None]).abs()
    is_context = (others == inside) & (document[inside] == document[:, None]) & (gap > 0) & (gap <= distance)
    return others.masked_fill(~is_context, -1)
