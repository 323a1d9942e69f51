"""Trained and random runs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from structviews.batches.batch import collate
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.further_words import RunVectors, open_further_words
from structviews.encoding.kinds import KINDS
from structviews.encoding.pooled import PooledEmbedder, component_key
from structviews.encoding.preparation import Preparer, Sentence
from structviews.encoding.representation import (
    Components,
    Encoder,
)
from structviews.model import Model, build_model
from structviews.parsing.parser import Parser
from structviews.pretrained.alignment import Aligner
from structviews.pretrained.loading import Blueprint
from structviews.pretrained.states import ContextualWords
from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import Parsed, load_run
from structviews.runs.weights import check_weights, empty_table, load_blueprint, load_vocabularies, load_weights
from structviews.runtime.device import Unfilled, best_device, encodes_in, move
from structviews.views.tree_views import attention_weights
from structviews.words.vocabulary import Vocabulary


@contextmanager
def _without_dropout(model: Model) -> Iterator[None]:
    """Put a model in evaluation mode; it may be in training mode, as a ``SentenceEncoder`` trains the same one."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()


@KINDS.register("trained")
@KINDS.register("random")
class TrainedEmbedder(PooledEmbedder):
    """A trained or random run.

    Args:
        config: the run's settings.
        parsed: description of the training corpus.
        model: the trained model.
        vocabularies: vocabularies by channel.
        parser: parses sentences that have no trees; see ``load``.
        components: the stored components that a representation may remove.
        blueprint: of the encoder whose pieces some views read.

    Attributes:
        vectors: the file of word vectors that the run reads words from; None if there is none.
    """

    vectors: RunVectors | None = None

    def __init__(
        self,
        config: TrainConfig,
        parsed: Parsed,
        model: Model,
        vocabularies: dict[str, Vocabulary],
        parser: Parser | None = None,
        components: dict[str, Components] | None = None,
        blueprint: Blueprint | None = None,
    ):
        self.config = config
        self.parsed = parsed
        self.model = model.to(best_device()).eval()
        self.vocabularies = vocabularies
        self.preparer = Preparer(parsed, parser)
        self.representation = config.representation
        self.components = components or {}
        self.blueprint = blueprint
        self.views = (*config.views.names, *model.extra_views)
        self.parsers = [parsed.parser] if model.needs - {"tokens"} else []
        by_view = model.by_view()
        self._reads = [frozenset(view.needs for _, view in channels) for channels in by_view]
        self._merges = all(view.merges or view.needs == "tokens" for channels in by_view for _, view in channels)
        self.encoders = [
            [Encoder(f"{channel}.{i}", view.dim, view.linear) for channel, view in channels]
            for i, channels in enumerate(by_view)
        ]

    @classmethod
    def open(cls, run: Path, parser: Parser | None = None) -> Self:
        """Load a run that ``train`` made."""
        config, parsed = load_run(run)
        vocabularies = load_vocabularies(run, config, parsed)
        blueprint = load_blueprint(run, config)

        def build() -> Model:
            return build_model(config, vocabularies, empty_table(vocabularies, parsed), blueprint)

        with torch.device("meta"), Unfilled():  # before the settings ask for more memory than the weights have
            check_weights(run, build())
        with torch.random.fork_rng(devices=[]), Unfilled():  # its first weights are not kept
            model = build()
        load_weights(run, model)
        vocabularies, vectors = open_further_words(run, config, parsed, model, vocabularies)
        embedder = cls(config, parsed, model, vocabularies, parser, blueprint=blueprint)
        embedder.vectors = vectors
        embedder.read_components(run)
        return embedder

    @property
    def reads(self) -> list[frozenset[str]]:
        """The structures that each view reads."""
        return self._reads

    @property
    def models(self) -> frozenset[Path]:
        """The folder of the encoder whose states are its words, if there is one."""
        words = self.vocabularies.values()
        return frozenset(each.encoder.folder for each in words if isinstance(each, ContextualWords))

    @property
    def _representation(self) -> str:
        """Short description of the representation, and of the words that are known if these are not the usual ones."""
        if self.vectors is None:
            return super()._representation
        known = ", expanded" * bool(self.vectors.maps) if self.vectors.available else ", own words only"
        return f"{super()._representation}{known}"

    @property
    def device(self) -> torch.device:
        """Device of the encoders."""
        return next(self.model.parameters()).device

    @property
    def encodes_in(self) -> str:
        """What the precision stands for on the run's device."""
        return encodes_in(self.precision, self.device)

    def to(self, device: str | torch.device) -> Self:
        """Move the encoders; see ``Embedder.to``."""
        move(self.model, device)
        for vocabulary in self.vocabularies.values():
            if isinstance(vocabulary, ContextualWords):
                vocabulary.to(self.device)
        return self

    def aligner_of(self, chosen: Iterable[int]) -> Aligner | None:
        """The aligner of the encoder whose pieces some views read, by their indices; None if none of them does."""
        by_view = self.model.by_view()
        read = self.blueprint and any(view.reads_pieces for i in chosen for _, view in by_view[i])
        return self.blueprint.aligner if self.blueprint and read else None

    @torch.inference_mode()
    def attention(self, sentences: Iterable[Sentence]) -> dict[str, list[np.ndarray]]:
        """Attention weight of each word among the dependents of its head; see ``Embedder.attention``."""
        chosen = [i for i, reads in enumerate(self.reads) if "dependency" in reads]
        prepared = self._prepared(sentences, chosen) if chosen else []
        if not prepared:
            return {}
        batch = collate(prepared, self.vocabularies, self.needs_of(chosen), aligner=self.aligner_of(chosen))
        batch = batch.to(self.device)
        names = [name for name, _ in self.model.each()]
        views = [self.view_names[i] for i in chosen]
        with _without_dropout(self.model):
            encoded = self.model.encode(batch, states=True, chosen=chosen)
        return {
            f"{view} ({name})" if len(names) > 1 else view: weights
            for view, channels in zip(views, encoded, strict=True)
            for name, encoded in zip(names, channels, strict=True)
            if (weights := attention_weights(encoded, batch)) is not None
        }

    def _pool(
        self, sentences: Sequence[ParsedSentence], poolings: Sequence[str], chosen: Sequence[int]
    ) -> Iterable[tuple[str, Tensor]]:
        device = self.device
        half = encodes_in(self.precision, device) == "bf16"
        merged = self._merges and device.type == "cpu"  # on a GPU whole trees are faster
        needs, aligner = self.needs_of(chosen), self.aligner_of(chosen)
        batch = collate(sentences, self.vocabularies, needs, merged, aligner).to(device)
        states = any(pooling != "vector" for pooling in poolings)
        with _without_dropout(self.model), torch.autocast(device.type, torch.bfloat16, enabled=half):
            encoded = self.model.encode(batch, states, chosen)
        for encoders, channels in zip((self.encoders[i] for i in chosen), encoded, strict=True):
            for encoder, each in zip(encoders, channels, strict=True):
                for pooling in poolings:
                    yield component_key(encoder, pooling), encoder.pool(each.single() if half else each, pooling)
