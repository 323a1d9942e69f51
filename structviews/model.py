"""Channels x views: the whole trainable model.

A channel is a complete model with its own words, encoders and objective; channels share a batch's
trees and nothing else, and their vectors stand side by side.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from structviews import objectives, views
from structviews.batching import Batch
from structviews.config import FIXED, TrainConfig
from structviews.errors import InputError
from structviews.initialisation import he, open_gates
from structviews.objectives import Context, ContextWords, Inputs, context_indices, next_indices
from structviews.views import Encoded, View
from structviews.vocabulary import FixedWords, Vocabulary, WordIds, Words, WordTable

Join = Callable[[Sequence[Tensor], Context], tuple[Sequence[Tensor], Context]]


class Channel(nn.Module):
    """One source of word vectors, an encoder for each view, an objective.

    Words are learnt in a table of its own for each view, or given in one table for all.

    Args:
        names: the views; a name may stand twice, with weights of its own each time.
        n_words: size of the vocabulary.
        words_dim: length of a word vector that is learnt.
        dim: length of each view's vector.
        objective: name of the objective.
        counts: ``(n_words,)`` how often each word occurs in the corpus; None where nothing is trained.
        words_spread: how word vectors start, see WordTable; those of a view that only adds them
            start by Xavier, since their sum is what is scored.
        initialisation: how the weights of views start, ``xavier`` or ``he``.
        gate_bias: where the biases of a GRU's gates start.
        fixed: ``(n_words, given words_dim)`` vectors that are given; None where they are learnt.
        **options: for the objective.

    Raises:
        InputError: if given vectors are not as long as a view wants them, or leave nothing to learn.
    """

    def __init__(
        self,
        names: Sequence[str],
        n_words: int,
        words_dim: int,
        dim: int,
        objective: str,
        words_spread: float = 0.0,
        counts: Tensor | None = None,
        initialisation: str = "xavier",
        gate_bias: float = 0.0,
        fixed: Tensor | None = None,
        **options: Any,
    ):
        super().__init__()
        made = [views.create(name, words_dim if fixed is None else fixed.shape[1], dim) for name in names]
        for view in made:
            if initialisation == "he":
                he(view)
            open_gates(view, gate_bias)
        inputs = Inputs(tuple(names), tuple(view.dim for view in made), made[0].words_dim, counts)
        self.objective = objectives.create(objective, inputs, **options)
        self.views = nn.ModuleList(made)
        spreads = [0.0 if view.adds_words else words_spread for view in made]
        if fixed is not None:
            _check_fixed(names, made, fixed.shape[1])
            self.words = nn.ModuleList([FixedWords(fixed)])
        else:
            self.words = nn.ModuleList(
                WordTable(n_words, view.words_dim, spread) for view, spread in zip(made, spreads, strict=True)
            )

    @property
    def tables(self) -> list[Words]:
        """The words of each view."""
        tables = cast("list[Words]", [*self.words])
        return tables * len(self.views) if len(tables) == 1 else tables

    def encode(self, batch: Batch, ids: WordIds, states: bool = False) -> list[Encoded]:
        """What each view makes of a batch; ``ids`` are its words in this channel's vocabulary."""
        views = cast("list[View]", self.views)
        return [view.encode(words, batch, ids, states) for view, words in zip(views, self.tables, strict=True)]

    def extra_views(self) -> dict[str, View]:
        """Encoders that training the objective leaves behind, by name; they read the first view's words."""
        return cast("dict[str, View]", self.objective.extra_views())

    def encode_extra(self, batch: Batch, ids: WordIds, states: bool = False) -> list[Encoded]:
        """What each of ``extra_views`` makes of a batch."""
        words = self.tables[0]
        return [view.encode(words, batch, ids, states) for view in self.extra_views().values()]

    def context(self, context: Context, batch: Batch, ids: WordIds) -> Context:
        """What the objective is told of a batch: the words too, if it reads them."""
        if "words" not in self.objective.needs:
            return context
        rows = torch.arange(len(batch), device=batch.device)
        sentence = torch.repeat_interleave(rows, batch.offsets.diff(), output_size=len(ids))
        table = cast("WordTable | FixedWords", self.words[0]).weight.detach()
        return replace(context, words=ContextWords(ids.distinct, ids.inverse, sentence, table))


def _check_fixed(names: Sequence[str], made: Sequence[View], given: int) -> None:
    for name, view in zip(names, made, strict=True):
        if view.words_dim != given:
            raise InputError(
                f"the view {name!r} of {view.dim} numbers adds up fixed word vectors, which have {given}: "
                f"give --hidden {given}, or take 'avg', which projects them"
            )
    if not any(True for view in made for _ in view.parameters()):
        raise InputError(f"views {','.join(names)}: with fixed words there is nothing to learn: name another view")


class Model(nn.Module):
    """The channels of a run, by name."""

    def __init__(self, channels: dict[str, Channel]):
        super().__init__()
        self.channels = nn.ModuleDict(channels)

    def each(self) -> Iterable[tuple[str, Channel]]:
        """The channels and their names."""
        return cast("Iterable[tuple[str, Channel]]", self.channels.items())

    @property
    def views(self) -> list[View]:
        """The views of all channels."""
        return [view for _, channel in self.each() for view in cast("list[View]", channel.views)]

    @property
    def needs(self) -> frozenset[str]:
        """Structures that some view reads."""
        return frozenset(view.needs for view in self.views)

    @property
    def context_needs(self) -> frozenset[str]:
        """What some objective reads of a batch's context, see ``Objective.needs``."""
        return frozenset().union(*(channel.objective.needs for _, channel in self.each()))

    def context(self, batch: Batch, distance: int) -> Context:
        """Which sentences of a batch belong together.

        Args:
            batch: the sentences.
            distance: how far apart in a document two sentences are one another's context.
        """
        return Context(
            neighbours=context_indices(batch.document, batch.position, distance),
            same=batch.same if "same" in self.context_needs else None,
            next=next_indices(batch.document, batch.position) if "next" in self.context_needs else None,
        )

    @property
    def extra_views(self) -> tuple[str, ...]:
        """Names of the encoders that objectives leave behind, see ``Objective.extra_views``."""
        return tuple(next(channel.extra_views() for _, channel in self.each()))

    def losses(
        self, batch: Batch, context: Context, join: Join | None = None
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]], list[list[Tensor]]]:
        """The training loss of a batch.

        Args:
            batch: the sentences.
            context: which of them belong together.
            join: adds what other processes have to the vectors and the context that a channel is scored on.

        Returns:
            The channels' losses summed, their metrics, and the vectors ``(B, dim)`` of their views.
        """
        losses, metrics, vectors = [], {}, []
        for name, channel in self.each():
            ids = batch.ids[name]
            encoded = [view.vector for view in channel.encode(batch, ids)]
            with torch.autocast(batch.device.type, enabled=False):
                scored = (encoded, channel.context(context, batch, ids))
                loss, metrics[name] = channel.objective(*(join(*scored) if join else scored))
            losses.append(loss)
            vectors.append(encoded)
        return torch.stack(losses).sum(), metrics, vectors

    def after_step(self) -> None:
        """Let the objectives restore their constraints."""
        for _, channel in self.each():
            channel.objective.after_step()

    def by_view(self) -> list[list[tuple[str, View]]]:
        """For each view its channels' names and encoders; behind them those that objectives leave behind."""
        channels = [
            [(name, view) for view in (*cast("list[View]", channel.views), *channel.extra_views().values())]
            for name, channel in self.each()
        ]
        return [list(view) for view in zip(*channels, strict=True)]

    def vectors(self, batch: Batch) -> list[Tensor]:
        """Vectors ``(B, dim)`` of each view, each view's channels side by side, in the views' order."""
        return [torch.cat([encoded.vector for encoded in view], dim=1) for view in self.encode(batch)]

    def encode(self, batch: Batch, states: bool = False) -> list[list[Encoded]]:
        """For each view what its channels' encoders make of a batch, in the order of ``by_view``."""
        channels = [
            [*channel.encode(batch, batch.ids[name], states), *channel.encode_extra(batch, batch.ids[name], states)]
            for name, channel in self.each()
        ]
        return [list(view) for view in zip(*channels, strict=True)]


def build_model(config: TrainConfig, vocabularies: dict[str, Vocabulary], fixed: Tensor | None = None) -> Model:
    """A model with new weights.

    Args:
        config: names and sizes.
        vocabularies: one for each channel.
        fixed: ``(words, dim)`` vectors of the fixed channel's words, if there is that channel.

    Raises:
        InputError: if the objective cannot work on the views, or the views on the fixed vectors.
    """
    return Model(
        {
            name: Channel(
                config.views,
                len(vocabulary),
                config.words_dim,
                config.hidden,
                config.objective,
                config.words_spread,
                counts=torch.from_numpy(vocabulary.counts) if vocabulary.counts is not None else None,
                initialisation=config.initialisation,
                gate_bias=config.gate_bias,
                fixed=fixed if name == FIXED else None,
                **config.objective_options,
            )
            for name, vocabulary in vocabularies.items()
        }
    )
