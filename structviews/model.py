"""The trainable model: channels x views.

A channel is a complete model with its own words, encoders and objective. Channels share only a batch's
trees; their vectors are concatenated.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from structviews.batches.batch import Batch, WordIds
from structviews.errors import InputError
from structviews.kernels.initialisation import he, open_gates
from structviews.objectives import OBJECTIVES
from structviews.objectives.objective import Context, ContextWords, Inputs, context_indices, next_indices
from structviews.pretrained.loading import Blueprint
from structviews.pretrained.states import ContextualWords
from structviews.runs.config import TrainConfig
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.view import Encoded, View, create_view
from structviews.views.word_tables import FixedWords, Words, WordTable
from structviews.words import FIXED
from structviews.words.vocabulary import Vocabulary
from structviews.words.word_settings import VIEWS_OWN

Join = Callable[[Sequence[Tensor], Context], tuple[Sequence[Tensor], Context]]


class Channel(nn.Module):
    """One source of word vectors, one encoder per view, and an objective.

    Each view has its own table of trained word vectors; fixed word vectors are one table shared by all views.

    Args:
        names: the views; a repeated name gets weights of its own each time.
        n_words: size of the vocabulary.
        word_dim: dimension of trained word vectors.
        dim: dimension of each view's vector.
        objective: name of the objective.
        counts: ``(n_words,)`` word frequencies in the corpus; None if nothing is trained.
        word_init: initial range of trained word vectors, see WordTable. By default 0.5; for views that only add up
            word vectors Xavier, since their sum is what is scored.
        initialisation: initialisation of the views' weights, ``xavier`` or ``he``.
        gate_bias: initial bias of a GRU's gates and of an LSTM's forget gate, in views and objectives.
        fixed: ``(n_words, fixed word_dim)`` fixed word vectors; None to train them.
        options: settings of the objective; defaults if None.
        view_options: settings of views by name; defaults for the others.
        encoder: the pretrained encoder whose pieces some views read.

    Raises:
        InputError: if fixed vectors have the wrong dimension for a view, or leave nothing to train; if the objective
            compares two encodings of a sentence, and they would be the same.
    """

    def __init__(
        self,
        names: Sequence[str],
        n_words: int,
        word_dim: int,
        dim: int,
        objective: str,
        word_init: float = VIEWS_OWN,
        counts: Tensor | None = None,
        initialisation: str = "xavier",
        gate_bias: float = 0.0,
        fixed: Tensor | None = None,
        options: Settings | None = None,
        view_options: Mapping[str, Settings] | None = None,
        encoder: Blueprint | None = None,
    ):
        super().__init__()
        width = word_dim if fixed is None else fixed.shape[1]

        def create(name: str, word_dim: int) -> View:
            return create_view(name, word_dim, dim, (view_options or {}).get(name), encoder)

        learning = [name for name in names if VIEWS[name].learns]
        learners = [create(name, width) for name in learning]
        for view in learners:
            if initialisation == "he":
                he(view)
            open_gates(view, gate_bias)
        readers = [view for view in learners if not view.reads_pieces]
        read = readers[0].word_dim if readers else width  # of the first word table
        inputs = Inputs(tuple(learning), tuple(view.dim for view in learners), read, counts, n_words)
        self.objective = OBJECTIVES[objective].create(objective, inputs, options)
        open_gates(self.objective, gate_bias)
        for name, view in zip(learning, learners, strict=True):
            if self.objective.passes > 1 and not view.drops:
                raise InputError(
                    f"objective = {objective}: compares two encodings of a sentence, which are the same in the view "
                    f"{name!r}, as it has no dropout: give --views transformer and an --encoder with dropout"
                )
            if fixed is not None and view.word_dim != width and not view.reads_pieces:
                raise InputError(
                    f"the view {name!r} adds up fixed word vectors, which have {width} dimensions, not {view.dim}: "
                    f"give --hidden {width}, or use 'avg', which projects them"
                )
        if fixed is not None:
            if not any(True for view in learners for _ in view.parameters()):
                raise InputError(
                    f"views {','.join(learning)}: with fixed words there is nothing to learn: choose another view"
                )
            self.words = nn.ModuleList([FixedWords(fixed)])
        elif readers:
            own = word_init == VIEWS_OWN
            spreads = [(0.0 if view.adds_words else 0.5) if own else word_init for view in readers]
            self.words = nn.ModuleList(
                WordTable(n_words, view.word_dim, spread) for view, spread in zip(readers, spreads, strict=True)
            )
        else:  # which no view reads
            self.words = nn.ModuleList([FixedWords(torch.zeros(1, width))])
        learner = iter(learners)
        self.views = nn.ModuleList(next(learner) if VIEWS[name].learns else create(name, read) for name in names)
        for view, table in zip(cast("list[View]", self.views), self.tables, strict=True):
            if view.reads_frequencies:
                table.frequencies = torch.zeros(n_words) if counts is None else counts / counts.sum().clamp(min=1)

    @property
    def tables(self) -> list[Words]:
        """The word table of each view; one that learns nothing or reads pieces has the first table."""
        tables = cast("list[Words]", [*self.words])
        if len(tables) == 1:
            return tables * len(self.views)
        own = iter(tables)
        views = cast("list[View]", self.views)
        return [next(own) if view.learns and not view.reads_pieces else tables[0] for view in views]

    def encode(
        self, batch: Batch, ids: WordIds, states: bool = False, chosen: Collection[int] | None = None
    ) -> list[Encoded]:
        """Encode a batch, of words ``ids``, with each view and then with each encoder that the objective adds.

        Those read the first view's words. ``states``: see ``View.forward``; ``chosen``: indices of some encoders.
        """
        encoders = [*cast("list[View]", self.views), *self.objective.extra_views().values()]
        tables = [*self.tables, *[self.tables[0]] * (len(encoders) - len(self.views))]
        return [
            view(words, batch, ids, states)
            for number, (view, words) in enumerate(zip(encoders, tables, strict=True))
            if chosen is None or number in chosen
        ]

    def scored(self, batch: Batch, ids: WordIds) -> list[Tensor]:
        """The vectors ``(B, dim)`` that the objective scores: those of the views that learn, once for each pass."""
        views = list(zip(cast("list[View]", self.views), self.tables, strict=True))
        passes = range(self.objective.passes)
        return [view(words, batch, ids).vector for _ in passes for view, words in views if view.learns]

    def context(self, context: Context, batch: Batch, ids: WordIds) -> Context:
        """The batch's context for the objective, with its words if the objective reads them."""
        if "words" not in self.objective.needs:
            return context
        rows = torch.arange(len(batch), device=batch.device)
        sentence = torch.repeat_interleave(rows, batch.offsets.diff(), output_size=len(ids))
        words = cast("WordTable | FixedWords", self.words[0])
        vectors = words.rows(ids) if "vectors" in self.objective.needs else None
        read = ContextWords(ids.distinct, ids.inverse, sentence, words.weight.detach(), batch.lengths, vectors)
        return replace(context, words=read)


class Model(nn.Module):
    """The channels of a run, by name."""

    def __init__(self, channels: dict[str, Channel]):
        super().__init__()
        self.channels = nn.ModuleDict(channels)

    def each(self) -> Iterable[tuple[str, Channel]]:
        """The names and channels."""
        return cast("Iterable[tuple[str, Channel]]", self.channels.items())

    @property
    def views(self) -> list[View]:
        """The views of all channels."""
        return [view for _, channel in self.each() for view in cast("list[View]", channel.views)]

    @property
    def needs(self) -> frozenset[str]:
        """The structures that the views read."""
        return frozenset(view.needs for view in self.views)

    @property
    def reads_pieces(self) -> bool:
        """Whether a view reads the pieces of a pretrained encoder."""
        return any(view.reads_pieces for view in self.views)

    @property
    def reads_neighbours(self) -> bool:
        """Whether some objective learns from which sentences are neighbours in a text."""
        return any(channel.objective.reads_neighbours for _, channel in self.each())

    @property
    def context_needs(self) -> frozenset[str]:
        """The parts of a batch's context that the objectives read, see ``Objective.needs``."""
        return frozenset().union(*(channel.objective.needs for _, channel in self.each()))

    def context(self, batch: Batch, distance: int) -> Context:
        """Which sentences of a batch are each other's context.

        Args:
            batch: the sentences.
            distance: largest distance in a document between a sentence and its context.
        """
        return Context(
            neighbours=context_indices(batch.document, batch.position, distance),
            same=batch.same if "same" in self.context_needs else None,
            next=next_indices(batch.document, batch.position) if "next" in self.context_needs else None,
        )

    @property
    def extra_views(self) -> tuple[str, ...]:
        """Names of the encoders that objectives add, see ``Objective.extra_views``."""
        return tuple(next(channel.objective.extra_views() for _, channel in self.each()))

    def losses(
        self, batch: Batch, context: Context, join: Join | None = None
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]], list[list[Tensor]]]:
        """The training loss of a batch.

        Args:
            batch: the sentences.
            context: which of them are each other's context.
            join: appends the other processes' vectors and contexts before a channel is scored.

        Returns:
            The sum of the channels' losses, their metrics, and the vectors ``(B, dim)`` of their views that learn.
        """
        losses, metrics, vectors = [], {}, []
        for name, channel in self.each():
            ids = batch.ids[name]
            encoded = channel.scored(batch, ids)
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
        """For each view its channels' names and encoders, followed by the encoders that objectives add."""
        channels = [
            [(name, view) for view in (*cast("list[View]", channel.views), *channel.objective.extra_views().values())]
            for name, channel in self.each()
        ]
        return [list(view) for view in zip(*channels, strict=True)]

    def vectors(self, batch: Batch) -> list[Tensor]:
        """Vectors ``(B, dim)`` of each view in order, with the channels concatenated."""
        return [torch.cat([encoded.vector for encoded in view], dim=1) for view in self.encode(batch)]

    def encode(self, batch: Batch, states: bool = False, chosen: Collection[int] | None = None) -> list[list[Encoded]]:
        """Encode a batch: for each view, or each of the ``chosen``, the output of its channels' encoders.

        The views are in the order of ``by_view``.
        """
        channels = [channel.encode(batch, batch.ids[name], states, chosen) for name, channel in self.each()]
        return [list(view) for view in zip(*channels, strict=True)]


def build_model(
    config: TrainConfig,
    vocabularies: dict[str, Vocabulary],
    fixed: Tensor | None = None,
    encoder: Blueprint | None = None,
) -> Model:
    """A freshly initialised model.

    Args:
        config: names and sizes.
        vocabularies: one for each channel.
        fixed: ``(words, dim)`` vectors of the fixed channel's words, if the run has that channel.
        encoder: the pretrained encoder whose pieces some views read.

    Raises:
        InputError: if the objective does not support the views, or the views the fixed vectors.
    """

    def fixed_vectors(name: str, vocabulary: Vocabulary) -> Tensor | None:
        if isinstance(vocabulary, ContextualWords):
            return torch.zeros(1, vocabulary.dim)
        return fixed if name == FIXED else None

    model = Model(
        {
            name: Channel(
                config.views.names,
                len(vocabulary),
                config.words.dim,
                config.views.hidden,
                config.objective.name,
                config.words.init,
                counts=torch.from_numpy(vocabulary.counts) if vocabulary.counts is not None else None,
                initialisation=config.views.initialisation,
                gate_bias=config.views.gate_bias,
                fixed=fixed_vectors(name, vocabulary),
                options=config.objective.options,
                view_options=config.views.options,
                encoder=encoder,
            )
            for name, vocabulary in vocabularies.items()
        }
    )
    for name, channel in model.each():
        vocabulary = vocabularies[name]
        if isinstance(vocabulary, ContextualWords):  # so that the digest of the weights tells encoders apart
            channel.register_buffer("encoder", torch.tensor([*vocabulary.identity], dtype=torch.uint8))
    return model
