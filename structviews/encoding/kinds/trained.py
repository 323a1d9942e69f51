"""Trained and random runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from structviews.batches.batch import Batch, collate
from structviews.corpus.relations import OVER_DEPENDENCIES
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import RunVectors, open_further_words
from structviews.encoding.kinds import KINDS
from structviews.encoding.preparation import Preparer, Sentence
from structviews.encoding.representation import ByView, Encoder, SentenceVectors
from structviews.model import Model, build_model
from structviews.objectives import OBJECTIVES
from structviews.parsing.parser import Parser
from structviews.pretrained.loading import Blueprint
from structviews.pretrained.states import ContextualWords
from structviews.runs.config import TrainConfig
from structviews.runs.folder import CONFIG, ENCODER, REMEDY
from structviews.runs.settings_file import Parsed, config_of
from structviews.runs.weights import build_for_weights, empty_table, load_vocabularies, load_weights
from structviews.runtime.device import best_device, move, multiplies_half
from structviews.views.tree_views import attention_weights
from structviews.words import CONTEXTUAL
from structviews.words.vocabulary import Vocabulary


@KINDS.register("trained")
@KINDS.register("random")
class TrainedEmbedder(Embedder):
    """A trained or random run.

    Its corpus is described by ``parsed``; the blueprint is that of the encoder whose pieces some views read, and the
    ``vectors`` are the file that the run reads further words from. For the parser see ``load``.
    """

    def __init__(
        self,
        config: TrainConfig,
        parsed: Parsed,
        model: Model,
        vocabularies: dict[str, Vocabulary],
        parser: Parser | None = None,
        blueprint: Blueprint | None = None,
        vectors: RunVectors | None = None,
    ):
        self.config = config
        self.parsed = parsed
        self.model = model.to(best_device()).eval()
        self.vocabularies = vocabularies
        self.blueprint = blueprint
        self.vectors = vectors
        self.preparer = Preparer(parsed, parser, next((each for each in vocabularies.values() if len(each) > 1), None))
        self.representation = config.representation
        self.views = (*config.views.names, *OBJECTIVES[config.objective.name].extra_names)
        self.parsers = [dict(parsed.parser)] if model.needs - {"tokens"} else []
        # The encoder whose states are words.
        contextual = vocabularies.get(CONTEXTUAL)
        self.models = frozenset({contextual.encoder.folder} if isinstance(contextual, ContextualWords) else ())
        by_view = model.by_view()
        self._needs = [frozenset().union(*(view.structures for _, view in channels)) for channels in by_view]
        self._reads_pieces = [any(view.reads_pieces for _, view in channels) for channels in by_view]
        self._merges = all(view.merges or view.structures == {"tokens"} for channels in by_view for _, view in channels)
        self.encoders = [
            [Encoder(f"{channel}.{i}", view.dim, view.linear) for channel, view in channels]
            for i, channels in enumerate(by_view)
        ]

    @classmethod
    def open(cls, run: Path, settings: Mapping[str, Any], parser: Parser | None = None) -> Self:
        """Load a run that ``train`` made."""
        config, parsed = config_of(settings, run / CONFIG)
        vocabularies = load_vocabularies(run, config, parsed)
        blueprint = Blueprint.read(run / ENCODER, REMEDY) if config.reads_pieces else None
        fixed = empty_table(vocabularies, parsed)
        taught = parsed.teacher.get("dim", 0)
        model = build_for_weights(run, lambda: build_model(config, vocabularies, fixed, blueprint, taught))
        load_weights(run, model)
        vocabularies, vectors = open_further_words(run, config, parsed, model, vocabularies)
        return cls(config, parsed, model, vocabularies, parser, blueprint, vectors)

    def needs_of(self, chosen: Iterable[int]) -> frozenset[str]:
        return frozenset().union(*(self._needs[i] for i in chosen))

    @property
    def vectors_described(self) -> str:
        """Short description of the representation, and of the words that are known if these are not the usual ones."""
        if self.vectors is None:
            return super().vectors_described
        known = ", expanded" * bool(self.vectors.maps) if self.vectors.available else ", own words only"
        return f"{super().vectors_described}{known}"

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def encodes_in(self) -> str:
        if self.precision == "auto":
            return "bf16" if self.device.type == "cpu" and multiplies_half(self.device) else "fp32"
        return self.precision

    @property
    def is_thread_safe(self) -> bool:  # type: ignore[override]
        """Unless the model is being trained, or a tokeniser of others reads the sentences."""
        return not (self.model.training or self.blueprint or self.models)

    def to(self, device: str | torch.device) -> Self:
        move(self.model, device)
        contextual = self.vocabularies.get(CONTEXTUAL)
        if isinstance(contextual, ContextualWords):
            contextual.encoder.to(self.device)
        return self

    def collate(self, chosen: Sequence[int], sentences: Sequence[ParsedSentence], merged: bool = False) -> Batch:
        """A batch, on the CPU, with what some views read, by their indices; see ``batch.collate``."""
        reads_pieces = any(self._reads_pieces[i] for i in chosen)
        aligner = self.blueprint.aligner if self.blueprint and reads_pieces else None
        return collate(sentences, self.vocabularies, self.needs_of(chosen), merged, aligner)

    def encode_batch(self, vectors: SentenceVectors, sentences: Sequence[ParsedSentence]) -> ByView:
        device, half = self.device, self.encodes_in == "bf16"
        merged = self._merges and device.type == "cpu"  # on a GPU whole trees are faster
        batch = self.collate(vectors.chosen, sentences, merged)
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            encoded = self._encoded(batch.to(device), vectors.read_states, vectors.chosen)
        return [[each.single() for each in view] for view in encoded] if half else encoded

    def _encoded(self, batch: Batch, states: bool, chosen: Sequence[int]) -> ByView:
        """What the model returns without dropout; a ``SentenceEncoder`` may be training the same model."""
        was_training = self.model.training
        if was_training:
            self.model.eval()
        try:
            return self.model.encode(batch, states, chosen)
        finally:
            if was_training:
                self.model.train()

    @torch.inference_mode()
    def attention(self, sentences: Iterable[Sentence]) -> dict[str, list[np.ndarray]]:
        chosen = [i for i, needs in enumerate(self._needs) if len(needs) == 1 and needs & OVER_DEPENDENCIES]
        prepared = self.prepare(sentences, chosen) if chosen else []
        if not prepared:
            return {}
        batch = self.collate(chosen, prepared).to(self.device)
        encoded = self._encoded(batch, True, chosen)
        names = [*self.model.channels]
        return {
            f"{self.view_names[i]} ({name})" if len(names) > 1 else self.view_names[i]: weights
            for i, channels in zip(chosen, encoded, strict=True)
            for name, each in zip(names, channels, strict=True)
            if (weights := attention_weights(each, batch)) is not None
        }
