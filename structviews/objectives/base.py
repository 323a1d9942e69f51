"""What an objective is, the registry of objectives, and what one is told about a batch.

Shapes: B sentences of a batch, n words of all of them, U ids that occur, V words of the vocabulary,
K contexts of a sentence at most, D dimension of a view's vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from structviews.errors import InputError

_REGISTRY: dict[str, type["Objective"]] = {}


@dataclass(frozen=True)
class ContextWords:
    """The words of a batch and their vectors, for objectives that predict words.

    Attributes:
        distinct: ``(U,)`` ids that occur; in a joined context one may stand several times.
        inverse: ``(n,)`` for each word the place of its id in ``distinct``.
        sentence: ``(n,)`` row of each word's sentence, ascending.
        table: ``(V, words_dim)`` a vector for each word of the vocabulary, without gradient.
    """

    distinct: Tensor
    inverse: Tensor
    sentence: Tensor
    table: Tensor

    @classmethod
    def joined(cls, parts: Sequence["ContextWords"], rows: Sequence[int]) -> Self:
        """The words of several batches, the first sentence of each at one of ``rows``."""
        places = _starts([len(part.distinct) for part in parts])
        return cls(
            distinct=torch.cat([part.distinct for part in parts]),
            inverse=torch.cat([part.inverse + place for part, place in zip(parts, places, strict=True)]),
            sentence=torch.cat([part.sentence + row for part, row in zip(parts, rows, strict=True)]),
            table=parts[0].table,
        )


@dataclass(frozen=True)
class Context:
    """Which sentences of a batch belong together, as rows of the batch; more only where an objective needs it.

    Attributes:
        neighbours: ``(B, K)`` the contexts of each sentence, -1 where there are fewer.
        same: ``(B,)`` equal integers for sentences of equal tokens.
        next: ``(B,)`` the sentence that follows in the document, -1 where there is none.
        words: the words of the sentences.
    """

    neighbours: Tensor
    same: Tensor | None = None
    next: Tensor | None = None
    words: ContextWords | None = None

    def __len__(self) -> int:
        """The number B of sentences."""
        return len(self.neighbours)

    @classmethod
    def joined(cls, parts: Sequence["Context"]) -> Self:
        """The context of several batches in one, below one another; none becomes another's context."""
        rows = _starts([len(part) for part in parts])
        words = [part.words for part in parts if part.words is not None]
        following = [_moved(part.next, row) for part, row in zip(parts, rows, strict=True) if part.next is not None]
        same = [part.same for part in parts if part.same is not None]
        return cls(
            neighbours=torch.cat([_moved(part.neighbours, row) for part, row in zip(parts, rows, strict=True)]),
            same=torch.cat(same) if same else None,
            next=torch.cat(following) if following else None,
            words=ContextWords.joined(words, rows) if words else None,
        )


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes[:-1])]


def _moved(rows: Tensor, start: int) -> Tensor:
    return torch.where(rows < 0, rows, rows + start)


@dataclass(frozen=True)
class Inputs:
    """What an objective is made for.

    Attributes:
        views: names of the views.
        dims: length of each view's vector.
        words_dim: length of a word vector.
        counts: ``(V,)`` how often each word of the vocabulary occurs in the corpus; None where nothing
            will be trained.
    """

    views: tuple[str, ...]
    dims: tuple[int, ...]
    words_dim: int = 0
    counts: Tensor | None = None


class Objective(nn.Module):
    """Base class of the objectives; a constructor takes ``Inputs`` and the settings in ``options``.

    Attributes:
        min_views, max_views: how many views it takes; ``max_views`` None for any number.
        example: views that it takes, for messages.
        options: the settings that it has.
        report: what validation prints of the metrics, a format string.
        extra_names: names of its ``extra_views``.
        needs: what it reads of a ``Context`` beside the neighbours: ``same``, ``next``, ``words``.
    """

    min_views: ClassVar[int] = 2
    max_views: ClassVar[int | None] = None
    example: ClassVar[str] = "dep,const"
    options: ClassVar[tuple[str, ...]] = ()
    extra_names: ClassVar[tuple[str, ...]] = ()
    report: ClassVar[str] = (
        "loss {loss:.3f} (chance {chance_loss:.3f}), context accuracy {accuracy:.3f} (chance {chance_accuracy:.4f})"
    )
    needs: frozenset[str] = frozenset()

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch, in single precision or better.

        Args:
            views: the vectors ``(B, D)`` of each view.
            context: which of the sentences belong together.

        Returns:
            The loss, a scalar, and the metrics to log, scalars too; among them ``loss`` and
            ``anchors``, the number of things that the loss is the mean of.
        """
        raise TypeError(f"{type(self).__name__} has no loss")

    def after_step(self) -> None:
        """Called after each optimiser step, for constraints on parameters."""

    def warning(self, metrics: Mapping[str, float]) -> str:
        """What a user should know about logged metrics; empty when all is well."""
        return ""

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


def options(name: str) -> tuple[str, ...]:
    """The settings of a registered objective."""
    return _REGISTRY[name].options


def extra_names(name: str) -> tuple[str, ...]:
    """Names of the encoders that a registered objective leaves behind."""
    return _REGISTRY[name].extra_names


def create(name: str, inputs: Inputs, **settings: Any) -> Objective:
    """Make an objective.

    Args:
        name: as registered.
        inputs: the views that it is for.
        **settings: values of its ``options``.

    Raises:
        InputError: if there is no such objective, or it cannot work on these views.
    """
    if name not in _REGISTRY:
        raise InputError(f"unknown objective {name!r}: the objectives are {', '.join(names())}")
    cls, n_views = _REGISTRY[name], len(inputs.views)
    if n_views < cls.min_views or (cls.max_views is not None and n_views > cls.max_views):
        raise InputError(f"{n_views} view{'s' * (n_views != 1)} for the objective {name!r}, which takes {_wanted(cls)}")
    if len(set(inputs.dims)) > 1:
        raise InputError(f"views of unequal dimensions {', '.join(map(str, inputs.dims))}: give all the same --hidden")
    return cls(inputs, **settings)


def _wanted(cls: type[Objective]) -> str:
    least, most = cls.min_views, cls.max_views
    number = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} to {most}"
    return f"{number}: give {'it' if most == 1 else 'them'} as in --views {cls.example}"


def promoted(vectors: Sequence[Tensor]) -> list[Tensor]:
    """Half-precision vectors as single ones: scores of large vectors lose the differences that matter."""
    return [v.float() if v.dtype in (torch.bfloat16, torch.float16) else v for v in vectors]


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


def next_indices(document: Tensor, position: Tensor) -> Tensor:
    """The sentence ``(B,)`` that follows each in its document, int64, -1 where it is not in the batch."""
    rows = torch.arange(1, len(document) + 1, device=document.device)
    follows = torch.zeros_like(rows, dtype=torch.bool)
    follows[:-1] = (document[1:] == document[:-1]) & (position[1:] == position[:-1] + 1)
    return rows.masked_fill(~follows, -1)
