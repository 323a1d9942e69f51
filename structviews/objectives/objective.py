"""The base class of objectives, and the context of a batch.

Shapes: B sentences in the batch, n words in total, U distinct ids, V words in the vocabulary,
K maximum number of contexts of a sentence, D dimension of a view's vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from structviews.batches.batch import Packing, packed
from structviews.errors import InputError
from structviews.runtime.arrays import Array
from structviews.settings import Settings

if TYPE_CHECKING:
    from structviews.views.view import Encoded, View, Words


@dataclass(frozen=True)
class ContextWords:
    """The words of a batch and their vectors, for objectives that predict words, in text order."""

    distinct: Tensor  # (U,), ids that occur; those of several joined batches may repeat
    inverse: Tensor  # (n,), index of each word's id in distinct
    sentence: Tensor  # (n,), row of each word's sentence, ascending
    table: Tensor  # (V, word_dim), vectors of the vocabulary, without gradient
    lengths: Array  # (B,), number of words of each sentence, on the CPU
    vectors: Tensor | None = None  # (U, word_dim), those of distinct, with their gradient, if the objective needs them

    @cached_property
    def packing(self) -> Packing:
        """The packed order for recurrent layers."""
        return packed(self.lengths, self.sentence.device)

    @classmethod
    def joined(cls, batches: Sequence["ContextWords"], rows: Sequence[int]) -> Self:
        """The words of several batches; ``rows`` are the row numbers of their first sentences."""
        starts = [0, *accumulate(len(batch.distinct) for batch in batches[:-1])]
        vectors = [batch.vectors for batch in batches if batch.vectors is not None]
        return cls(
            distinct=torch.cat([batch.distinct for batch in batches]),
            inverse=torch.cat([batch.inverse + start for batch, start in zip(batches, starts, strict=True)]),
            sentence=torch.cat([batch.sentence + row for batch, row in zip(batches, rows, strict=True)]),
            table=batches[0].table,
            lengths=np.concatenate([batch.lengths for batch in batches]),
            vectors=torch.cat(vectors) if vectors else None,
        )


# Parts of a context that are rows of its batch, and those that are values of its sentences.
ROWS, VALUES = {"neighbours", "next", "source"}, {"same", "teacher", "changed"}


@dataclass(frozen=True)
class Context:
    """Relations between the sentences of a batch, as row numbers; optional parts only if the objective needs them."""

    neighbours: Tensor  # (B, K) contexts of each sentence, padded with -1
    same: Tensor | None = None  # (B,) integers, equal for sentences with equal tokens
    next: Tensor | None = None  # (B,) next sentence in the document, -1 if there is none
    words: ContextWords | None = None  # the words of the sentences
    # (B, T) vectors of the sentences by the run's teacher; a perturbed sentence has that of its source.
    teacher: Tensor | None = None
    source: Tensor | None = None  # (B,) row of the sentence that each was made of, -1 for most; None if of none
    changed: Tensor | None = None  # (B,) whether it has another meaning than that; None if none was perturbed

    def __len__(self) -> int:
        """The number B of sentences."""
        return len(self.neighbours)

    @classmethod
    def joined(cls, batches: Sequence["Context"]) -> Self:
        """The concatenated context of several batches; sentences of different batches are never contexts."""
        starts = [0, *accumulate(map(len, batches[:-1]))]
        parts: dict[str, Tensor] = {}
        for name in ROWS | VALUES:
            if own := [each for batch in batches if (each := getattr(batch, name)) is not None]:
                if name in ROWS:
                    own = [torch.where(rows < 0, rows, rows + n) for rows, n in zip(own, starts, strict=True)]
                parts[name] = torch.cat(own)
        words = [batch.words for batch in batches if batch.words is not None]
        return cls(**parts, words=ContextWords.joined(words, starts) if words else None)


@dataclass(frozen=True)
class Inputs:
    """What an objective is built for: names of the views, and dimensions of their vectors, of words' and a teacher's.

    ``counts (V,)`` are the corpus frequencies of the words of the vocabulary, None if nothing will be trained;
    ``n_words`` is V, and ``teacher_dim`` is 0 without a teacher.
    """

    views: tuple[str, ...]
    dims: tuple[int, ...]
    word_dim: int = 0
    counts: Tensor | None = None
    n_words: int = 0
    teacher_dim: int = 0


class Objective(nn.Module, ABC):
    """Base class of the objectives; constructors take ``Inputs`` and an instance of ``Config``.

    Attributes:
        min_views, max_views: number of views it takes; ``max_views`` is None for no limit.
        example: an example of its views, for messages.
        Config: class of its own settings.
        report: format string with which validation prints the metrics.
        extra_names: names of its ``extra_views``.
        one_dim: whether the vectors of its views have the same dimension, but for a ``critic`` that maps them.
        passes: how often it has a batch encoded: it gets the vectors of all views, then again those of the next pass.
        takes_pairs: whether it reads no order, so that further positives and negatives may follow a batch's text.
        needs: fields of ``Context`` that it reads besides the neighbours: ``same``, ``next``, ``words``, ``teacher``;
            and ``vectors`` for those of the words.
    """

    min_views: ClassVar[int] = 2
    max_views: ClassVar[int | None] = None
    example: ClassVar[str] = "dep,const"
    Config: ClassVar[type[Settings]] = Settings
    extra_names: ClassVar[tuple[str, ...]] = ()
    one_dim: ClassVar[bool] = True
    passes: ClassVar[int] = 1
    takes_pairs: ClassVar[bool] = False
    report: ClassVar[str] = (
        "loss {loss:.3f} (chance {chance_loss:.3f}), accuracy {accuracy:.4f} (chance {chance_accuracy:.4f})"
    )
    needs: frozenset[str] = frozenset()
    __call__: Callable[..., tuple[Tensor, dict[str, Tensor]]]

    @classmethod
    def create(cls, name: str, inputs: Inputs, config: Settings | None) -> Self:
        """The objective of this class, registered as ``name``; InputError if it cannot use these views."""
        config = config or cls.Config()
        n_views, least, most = len(inputs.views), cls.min_views, cls.max_views
        if n_views < least or (most is not None and n_views > most):
            wanted = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} to {most}"
            raise InputError(
                f"{n_views} view{'s' * (n_views != 1)} for the objective {name!r}: it needs {wanted}, for example "
                f"--views {cls.example}"
            )
        if cls.one_dim and len(set(inputs.dims)) > 1 and getattr(config, "critic", "inner") == "inner":
            raise InputError(
                f"views of different dimensions {', '.join(map(str, inputs.dims))}: use the same --hidden for all"
                + hasattr(config, "critic") * ", or --critic bilinear"
            )
        return cls(inputs, config)

    @abstractmethod
    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch, a scalar, from vectors ``(B, D)`` of each view, in single precision or better.

        Also the metrics to log, scalars too. They include ``loss`` and ``anchors``, the number of items over which the
        loss is averaged.
        """

    def after_step(self) -> None:
        """Called after each optimiser step, to enforce constraints on parameters."""

    def warning(self, metrics: Mapping[str, float]) -> str:
        """A warning about the logged metrics; empty if there is none."""
        return ""

    @classmethod
    def reads_neighbours(cls, config: Settings) -> bool:
        """Whether it learns, with these settings, from which sentences are neighbours in a text."""
        return True

    def extra_views(
        self, learners: "Sequence[tuple[View, Words]]", encoded: "Mapping[View, Encoded]"
    ) -> "dict[str, View]":
        """Additional encoders that result from training with this objective, by name.

        ``learners`` are the views that it scores, each with its word table; what those in ``encoded`` make of the batch
        is there already.
        """
        return {}


def view_letters(n: int) -> list[str]:
    """The letters by which metrics name ``n`` views in order: f, g, h, ..."""
    return [chr(ord("f") + i) for i in range(n)]


def context_indices(document: Tensor, position: Tensor, distance: int) -> Tensor:
    """The contexts of each sentence of a batch: ``(B, K)`` int64, padded with -1.

    ``j`` is a context of ``i`` if both are from the same document ``(B,)``, in reading order, and their positions in
    it ``(B,)`` differ by 1 to ``distance``, c in the papers.
    """
    # Sentences of a document are contiguous, so contexts are at most `distance` rows away.
    n = len(document)
    offsets = torch.arange(-distance, distance + 1, device=document.device)
    others = torch.arange(n, device=document.device)[:, None] + offsets
    inside = others.clamp(0, n - 1)
    gap = (position[inside] - position[:, None]).abs()
    is_context = (others == inside) & (document[inside] == document[:, None]) & (gap > 0) & (gap <= distance)
    return others.masked_fill(~is_context, -1)


def next_indices(document: Tensor, position: Tensor) -> Tensor:
    """The next sentence ``(B,)`` of each in its document, int64, -1 if it is not in the batch."""
    rows = torch.arange(1, len(document) + 1, device=document.device)
    follows = torch.zeros_like(rows, dtype=torch.bool)
    follows[:-1] = (document[1:] == document[:-1]) & (position[1:] == position[:-1] + 1)
    return rows.masked_fill(~follows, -1)


def preceding(following: Tensor) -> Tensor:
    """The preceding sentence of each ``(B,)``, -1 if there is none; the inverse of ``next_indices``."""
    n = len(following)
    found = torch.full((n + 1,), -1, dtype=following.dtype, device=following.device)
    rows = torch.arange(n, device=following.device)
    return found.scatter_(0, torch.where(following < 0, n, following), rows)[:n]


def with_paraphrases(neighbours: Tensor, keeps: Tensor) -> Tensor:
    """Contexts ``(B, K)``, and in one more column for sentence and paraphrase each other; ``(B, K + 1)``.

    ``keeps (B,)`` is the row of the sentence whose meaning each one keeps, -1 for those that are no paraphrase; no
    sentence has two.
    """
    return torch.cat([neighbours, torch.maximum(keeps, preceding(keeps))[:, None]], dim=1)
