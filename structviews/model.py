"""The trainable model: channels x views.

A channel is a complete model with its own words, encoders and objective. Channels share only a batch's
trees; their vectors are concatenated.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from structviews.batches.batch import Batch, WordIds
from structviews.errors import InputError
from structviews.kernels.cells import he, open_gates
from structviews.objectives import OBJECTIVES
from structviews.objectives.objective import (
    Context,
    ContextWords,
    Inputs,
    context_indices,
    next_indices,
    with_paraphrases,
)
from structviews.pretrained.loading import Blueprint
from structviews.pretrained.states import ContextualWords
from structviews.runs.config import TrainConfig
from structviews.views import VIEWS
from structviews.views.view import Encoded, FixedWords, View, Words, WordTable, create_view
from structviews.words import FIXED
from structviews.words.vocabulary import Vocabulary
from structviews.words.word_settings import VIEWS_OWN

Join = Callable[[Sequence[Tensor], Context], tuple[Sequence[Tensor], Context]]


class Channel(nn.Module):
    """One source of word vectors, one encoder per view, and an objective.

    Each view has its own table of trained word vectors; fixed word vectors are one table shared by all views. A view
    that learns nothing or reads pieces has the first table.

    Args:
        config: names and sizes of the views, which get weights of their own even if a name is repeated, of the words
            and of the objective.
        n_words: size of the vocabulary.
        counts: ``(n_words,)`` word frequencies in the corpus; None if nothing is trained.
        fixed: ``(n_words, fixed word_dim)`` fixed word vectors; None to train them.
        encoder: the pretrained encoder whose pieces some views read.
        teacher_dim: dimension of the teacher's vectors; 0 without a teacher.
        tree_backend: backend of its tree cells, see ``kernels.dispatch.run``.

    Raises:
        InputError: if fixed vectors have the wrong dimension for a view, or leave nothing to train; if the objective
            compares two encodings of a sentence, and they would be the same.
    """

    views: Sequence[View]
    words: Sequence[Words]

    def __init__(
        self,
        config: TrainConfig,
        n_words: int,
        counts: Tensor | None = None,
        fixed: Tensor | None = None,
        encoder: Blueprint | None = None,
        teacher_dim: int = 0,
        tree_backend: str = "level",
    ):
        super().__init__()
        names, objective, gate_bias = config.views.names, config.objective.name, config.views.gate_bias
        width = config.words.dim if fixed is None else fixed.shape[1]
        options = config.views.options
        create = partial(create_view, dim=config.views.hidden, encoder=encoder, tree_backend=tree_backend)
        learning = [name for name in names if VIEWS[name].learns]
        learners = [create(name, width, config=options[name]) for name in learning]
        for view in learners:
            if config.views.initialisation == "he":
                he(view)
            open_gates(view, gate_bias)
        readers = [view for view in learners if not view.reads_pieces]
        read = readers[0].word_dim if readers else width  # of the first word table
        inputs = Inputs(tuple(learning), tuple(view.dim for view in learners), read, counts, n_words, teacher_dim)
        self.objective = OBJECTIVES[objective].create(objective, inputs, config.objective.options[objective])
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
            words: list[Words] = [FixedWords(fixed)]
        elif readers:
            # By default Xavier's range for views that only add up word vectors, since their sum is what is scored.
            words, given = [], config.words.init
            for view in readers:
                spread = given if given != VIEWS_OWN else 0.0 if view.adds_words else 0.5
                words.append(WordTable(n_words, view.word_dim, spread, sparse=not config.optimisation.dense_adam))
        else:  # which no view reads
            words = [FixedWords(torch.zeros(1, width))]
        self.words = cast("Sequence[Words]", nn.ModuleList(words))
        learner = iter(learners)
        views = [next(learner) if VIEWS[name].learns else create(name, read, config=options[name]) for name in names]
        self.views = cast("Sequence[View]", nn.ModuleList(views))
        own = iter(words if len(words) > 1 else words * len(readers))
        self.tables = [next(own) if view.learns and not view.reads_pieces else words[0] for view in views]
        for view, table in zip(views, self.tables, strict=True):
            if view.reads_frequencies:
                table.frequencies = torch.zeros(n_words) if counts is None else counts / counts.sum().clamp(min=1)

    def encode(
        self, batch: Batch, ids: WordIds, states: bool = False, chosen: Collection[int] | None = None
    ) -> list[Encoded]:
        """Encode a batch with each of ``encoders``, or those with the ``chosen`` indices; see ``View.forward``."""
        tables = [*self.tables, *[self.tables[0]] * len(self.objective.extra_names)]
        encoded: dict[View, Encoded] = {}
        for number, (view, words) in enumerate(zip(self.encoders(encoded), tables, strict=True)):
            if chosen is None or number in chosen:
                encoded[view] = view(words, batch, ids, states)
        return [*encoded.values()]

    def encoders(self, encoded: Mapping[View, Encoded]) -> list[View]:
        """The views, then those that the objective trains and adds to the run.

        What views in ``encoded`` make of the batch is not computed again.
        """
        learners = [(view, table) for view, table in zip(self.views, self.tables, strict=True) if view.learns]
        return [*self.views, *self.objective.extra_views(learners, encoded).values()]

    def context(self, context: Context, batch: Batch, ids: WordIds) -> Context:
        """The batch's context for the objective, with its words if the objective reads them."""
        if "words" not in self.objective.needs:
            return context
        rows = torch.arange(len(batch), device=batch.device)
        sentence = torch.repeat_interleave(rows, batch.offsets.diff(), output_size=len(ids))
        words = self.words[0]
        vectors = words.rows(ids) if "vectors" in self.objective.needs else None
        read = ContextWords(ids.distinct, ids.inverse, sentence, words.weight.detach(), batch.lengths, vectors)
        return replace(context, words=read)


class Model(nn.Module):
    """The channels of a run, by name."""

    channels: Mapping[str, Channel]

    def __init__(self, channels: dict[str, Channel]):
        super().__init__()
        self.channels = cast("Mapping[str, Channel]", nn.ModuleDict(channels))
        self.views = [view for channel in channels.values() for view in channel.views]
        self.needs = frozenset(view.needs for view in self.views)  # the structures that they read
        # The parts of a batch's context that the objectives read, see ``Objective.needs``.
        self.context_needs = frozenset().union(*(channel.objective.needs for channel in channels.values()))

    def context(self, batch: Batch, distance: int) -> Context:
        """Which sentences of a batch are each other's context, see ``context_indices`` and ``with_paraphrases``."""
        neighbours = context_indices(batch.document, batch.position, distance)
        if batch.source is not None and batch.changed is not None:
            neighbours = with_paraphrases(neighbours, batch.source.masked_fill(batch.changed, -1))
        return Context(
            neighbours=neighbours,
            same=batch.same if "same" in self.context_needs else None,
            next=next_indices(batch.document, batch.position) if "next" in self.context_needs else None,
            teacher=batch.teacher if "teacher" in self.context_needs else None,
            source=batch.source,
            changed=batch.changed,
        )

    def losses(
        self, batch: Batch, context: Context, join: Join | None = None
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]], list[list[Tensor]]]:
        """The training loss of a batch: the sum of the channels' losses, and their metrics.

        Also the vectors ``(B, dim)`` that the objectives score, those of the views that learn, once for each pass;
        ``join`` appends the other processes' vectors and contexts to them before.
        """
        losses, metrics, vectors = [], {}, []
        for name, channel in self.channels.items():
            ids, passes = batch.ids[name], range(channel.objective.passes)
            pairs = list(zip(channel.views, channel.tables, strict=True))
            encoded = [view(words, batch, ids).vector for _ in passes for view, words in pairs if view.learns]
            with torch.autocast(batch.device.type, enabled=False):
                own = encoded, channel.context(context, batch, ids)
                views, relations = join(*own) if join else own
                # Half precision is too coarse for scores of large vectors.
                views = [view.to(torch.promote_types(view.dtype, torch.float32)) for view in views]
                loss, metrics[name] = channel.objective(views, relations)
            losses.append(loss)
            vectors.append(encoded)
        return torch.stack(losses).sum(), metrics, vectors

    def after_step(self) -> None:
        """Let the objectives restore their constraints."""
        for channel in self.channels.values():
            channel.objective.after_step()

    def by_view(self) -> list[list[tuple[str, View]]]:
        """For each view its channels' names and encoders, followed by the encoders that objectives add."""
        channels = [[(name, view) for view in channel.encoders({})] for name, channel in self.channels.items()]
        return [list(view) for view in zip(*channels, strict=True)]

    def encode(self, batch: Batch, states: bool = False, chosen: Collection[int] | None = None) -> list[list[Encoded]]:
        """Encode a batch: for each view of ``by_view``, or each of the ``chosen``, its channels' outputs."""
        channels = [each.encode(batch, batch.ids[name], states, chosen) for name, each in self.channels.items()]
        return [list(view) for view in zip(*channels, strict=True)]


def build_model(
    config: TrainConfig,
    vocabularies: dict[str, Vocabulary],
    fixed: Tensor | None = None,
    encoder: Blueprint | None = None,
    teacher_dim: int = 0,
    tree_backend: str = "level",
) -> Model:
    """A freshly initialised model with a ``Channel`` for each of the vocabularies.

    ``fixed (words, dim)`` are the vectors of the fixed channel's words, if the run has that channel; ``teacher_dim``
    is the dimension of the teacher's vectors, if the run has one.

    Raises:
        InputError: if the objective does not support the views, or the views the fixed vectors.
    """
    channels = {}
    for name, vocabulary in vocabularies.items():
        counts = None if vocabulary.counts is None else torch.from_numpy(vocabulary.counts)
        vectors = fixed if name == FIXED else None
        if isinstance(vocabulary, ContextualWords):
            vectors = torch.zeros(1, vocabulary.dim)
        channels[name] = Channel(config, len(vocabulary), counts, vectors, encoder, teacher_dim, tree_backend)
        if isinstance(vocabulary, ContextualWords):  # so that the digest of the weights tells encoders apart
            channels[name].register_buffer("encoder", torch.tensor([*vocabulary.identity], dtype=torch.uint8))
    return Model(channels)
