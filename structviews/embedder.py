"""Sentences to vectors, with a run of any kind.

Shapes: n sentences, d length of a vector.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from structviews.batching import collate
from structviews.channels import empty_table, load_vocabularies
from structviews.checkpoint import load_weights
from structviews.config import Parsed, TrainConfig, load_run, run_kind
from structviews.device import best_device
from structviews.errors import InputError
from structviews.expansion import ExpandedVocabulary, expanded
from structviews.model import Model, build_model
from structviews.preparation import Preparer, Sentence
from structviews.representation import Components, Encoder, Representation, join_views, joined_width, load_components
from structviews.representation import normalised as normalised_rows
from structviews.sentence import ParsedSentence
from structviews.vocabulary import Vocabulary

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser

Progress = Callable[[int, int], None]


class Embedder(ABC):
    """A run, ready to encode.

    Attributes:
        views: names of the views, in the order of their vectors.
        needs: structures that they read.
        preparer: gives sentences these structures.
        parsers: descriptions of the parsers whose trees it was trained on; empty where it reads none.
        representation: which vectors the sentences get.
        only: the place among the views of the one that ``encode`` gives alone, see ``alone``; None for all of them.
    """

    views: tuple[str, ...]
    needs: frozenset[str]
    preparer: Preparer
    parsers: list[dict[str, Any]]
    representation: Representation
    only: int | None = None

    @staticmethod
    def load(
        run: str | Path, parser: "Parser | None" = None, representation: Representation | None = None
    ) -> "Embedder":
        """Load a run's folder.

        Args:
            run: what ``train``, ``join`` or ``baseline`` made.
            parser: gives trees to sentences that come without; by default the one that parsed the
                training corpus, loaded when first needed.
            representation: by default the one in the run's settings.

        Raises:
            InputError: if it is not a run, or has no weights yet.
        """
        run = Path(run)
        embedder = load_kind(run_kind(run), run, parser)
        return embedder.represented(**vars(representation)) if representation else embedder

    @property
    @abstractmethod
    def widths(self) -> list[int]:
        """Length of each view's vector."""

    @property
    def description(self) -> str:
        """Which vectors these are, in a few words."""
        return str(self.representation)

    @property
    def view_names(self) -> list[str]:
        """The views; where two bear one name, ``seq.1`` and ``seq.2``."""
        twice = {name for name in self.views if self.views.count(name) > 1}
        return [
            f"{name}.{self.views[: i + 1].count(name)}" if name in twice else name for i, name in enumerate(self.views)
        ]

    @property
    def dim(self) -> int:
        """Length d of a sentence's vector."""
        if self.only is not None:
            return self.widths[self.only]
        return joined_width(self.widths, self.views, self.representation.join)

    def encode(
        self, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> np.ndarray:
        """Vectors ``(n, d)``, float32, in the order of the sentences.

        A sentence's vector is the same alone and in any batch, to rounding; but for a transductive
        representation.

        Args:
            sentences: raw strings, which are tokenised and parsed; lists of tokens, which are
                parsed as they are; or parsed sentences. They may be mixed.
            batch_size: sentences encoded together.
            progress: called with the number of sentences done and their total.

        Raises:
            InputError: for a sentence that is empty or cannot be parsed, or a representation that the run
                does not have.
        """
        if self.only is None:  # what cannot be joined is told before the work
            joined_width(self.widths, self.views, self.representation.join)
        return self.joined(self.encode_views(sentences, batch_size, progress))

    def joined(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """The vectors ``(n, d)`` that ``encode`` makes of those of each view, ``(n, width)`` each."""
        if self.only is not None:
            return views[self.only]
        return join_views(views, self.views, self.representation.join)

    @abstractmethod
    def encode_views(
        self, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of each view; see ``encode``."""

    def attention(self, sentences: Sequence[ParsedSentence]) -> dict[str, list[np.ndarray]]:
        """How much each word weighs among the children of its head, by the encoders that weigh them.

        Args:
            sentences: with dependency trees.

        Returns:
            By the encoder's name, such as ``dep``, or where a run has several channels ``dep (fixed)``: for each
            sentence ``(n words,)`` weights, which are 1 in sum over the children of a word; that of the root is NaN.
            Empty where no view attends.
        """
        return {}

    def represented(self, **changes: Any) -> Self:
        """The same run with another representation.

        Args:
            **changes: fields of ``Representation``; those that are not given stay.
        """
        changed = copy.copy(self)
        changed.representation = replace(self.representation, **changes)
        return changed

    def alone(self, view: str) -> Self:
        """The same run, which encodes with one of its views.

        Args:
            view: one of ``view_names``.

        Raises:
            InputError: if there is no such view.
        """
        if view not in self.view_names:
            raise InputError(f"no view {view!r}: the run has {', '.join(self.view_names)}")
        changed = copy.copy(self)
        changed.only = self.view_names.index(view)
        return changed

    def for_similarity(self) -> Self:
        """The same run with the representation for similarity tasks."""
        return self.represented(**vars(self.representation.for_similarity()))


class PooledEmbedder(Embedder):
    """A run whose encoders give vectors and states, which are pooled, post-processed and joined.

    Attributes:
        encoders: for each view those whose vectors stand side by side in it: one a channel.
        components: to remove, by encoder and pooling; empty where the run has stored none.
        n_components: how many directions are removed at once.
        poolings: those that the encoders have the states for.
    """

    encoders: list[list[Encoder]]
    components: dict[str, Components]
    n_components: int = 1
    poolings: tuple[str, ...] = ("vector", "pooled", "mean")

    @property
    def widths(self) -> list[int]:
        """Length of each view's vector."""
        return [sum(encoder.width(self.representation.pooling) for encoder in view) for view in self.encoders]

    @abstractmethod
    def _pool(self, sentences: Sequence[ParsedSentence], poolings: Sequence[str]) -> Iterable[tuple[str, Tensor]]:
        """For each pooling and each encoder: the key of its components, and vectors ``(B, w)`` of a batch."""

    def encode_views(
        self, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of each view; see ``encode``."""
        pooling = self.representation.pooling
        if pooling not in self.poolings:
            raise InputError(f"pooling = {pooling}: this run has {', '.join(self.poolings)} only")
        pooled = self._pool_all(self.preparer.prepare(sentences, self.needs), [pooling], batch_size, progress)
        return [
            np.concatenate([self._post_process(component_key(e, pooling), pooled) for e in view], axis=1)
            for view in self.encoders
        ]

    def fit_components(
        self, sentences: Sequence[ParsedSentence], progress: Progress | None = None
    ) -> dict[str, Components]:
        """The components of all encoders and poolings, fitted on sentences with trees."""
        pooled = self._pool_all(sentences, self.poolings, 256, progress)
        return {name: Components.fit(vectors, self.n_components) for name, vectors in pooled.items()}

    @torch.inference_mode()
    def _pool_all(
        self,
        sentences: Sequence[ParsedSentence],
        poolings: Sequence[str],
        batch_size: int,
        progress: Progress | None = None,
    ) -> dict[str, np.ndarray]:
        """Vectors ``(n, w)`` by the key of their components."""
        if batch_size < 1:
            raise InputError(f"batch_size = {batch_size}: give at least 1")
        pooled = {
            component_key(encoder, pooling): np.empty((len(sentences), encoder.width(pooling)), dtype=np.float32)
            for pooling in poolings
            for view in self.encoders
            for encoder in view
        }
        # Sentences of similar length make full batches.
        order = np.argsort([len(s.tokens) for s in sentences], kind="stable")
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            for key, vectors in self._pool([sentences[i] for i in rows], poolings):
                pooled[key][rows] = vectors.float().cpu().numpy()
            if progress:
                progress(start + len(rows), len(order))
        return pooled

    def _post_process(self, key: str, pooled: dict[str, np.ndarray]) -> np.ndarray:
        vectors = pooled[key]
        if self.representation.remove_component and len(vectors):
            vectors = self._components(key, vectors).remove_from(vectors)
        return normalised_rows(vectors) if self.representation.normalise else vectors

    def _components(self, key: str, vectors: np.ndarray) -> Components:
        if self.representation.transductive:
            return Components.fit(vectors, self.n_components)
        if key not in self.components:
            raise InputError(
                "this run has stored no components, as training stores them when it has finished: finish it, or give "
                "--transductive"
            )
        return self.components[key]


class TrainedEmbedder(PooledEmbedder):
    """A trained run.

    Args:
        config: the run's settings.
        parsed: what it was trained on.
        model: the trained model.
        vocabularies: by channel.
        parser: gives trees to sentences that come without; see ``load``.
        components: to remove, as the run has stored them.
    """

    def __init__(
        self,
        config: TrainConfig,
        parsed: Parsed,
        model: Model,
        vocabularies: dict[str, Vocabulary],
        parser: "Parser | None" = None,
        components: dict[str, Components] | None = None,
    ):
        self.config = config
        self.parsed = parsed
        self.device = best_device()
        self.model = model.to(self.device).eval()
        self.vocabularies = vocabularies
        self.preparer = Preparer(parsed, parser)
        self.representation = config.representation
        self.components = components or {}
        self.views = (*config.views, *model.extra_views)
        self.needs = model.needs
        self.parsers = [parsed.parser] if model.needs - {"tokens"} else []
        self.encoders = [
            [Encoder(f"{channel}.{i}", view.dim, view.linear) for channel, view in channels]
            for i, channels in enumerate(model.by_view())
        ]

    @classmethod
    def open(cls, run: Path, parser: "Parser | None" = None) -> Self:
        """Load what ``train`` made."""
        config, parsed = load_run(run)
        vocabularies = load_vocabularies(run, config)
        with torch.random.fork_rng(devices=[]):  # its first weights are not kept, so they cost no random numbers
            model = build_model(config, vocabularies, empty_table(vocabularies, parsed))
        load_weights(run, model)
        vocabularies = expanded(run, model, vocabularies)
        return cls(config, parsed, model, vocabularies, parser, load_components(run))

    @property
    def description(self) -> str:
        """Which vectors these are, in a few words."""
        grown = any(isinstance(vocabulary, ExpandedVocabulary) for vocabulary in self.vocabularies.values())
        return f"{self.representation}, expanded" if grown else str(self.representation)

    def _pool(self, sentences: Sequence[ParsedSentence], poolings: Sequence[str]) -> Iterable[tuple[str, Tensor]]:
        batch = collate(sentences, self.vocabularies, self.needs).to(self.device)
        encoded = self.model.encode(batch, states=any(pooling != "vector" for pooling in poolings))
        for encoders, channels in zip(self.encoders, encoded, strict=True):
            for encoder, each in zip(encoders, channels, strict=True):
                for pooling in poolings:
                    yield component_key(encoder, pooling), encoder.pool(each, pooling)

    @torch.inference_mode()
    def attention(self, sentences: Sequence[ParsedSentence]) -> dict[str, list[np.ndarray]]:
        if "dependency" not in self.needs or not sentences:
            return {}
        batch = collate(sentences, self.vocabularies, self.needs).to(self.device)
        trees, ends = batch.dependency_trees, batch.offsets[1:-1].tolist()
        several = len(self.vocabularies) > 1
        found = {}
        every = zip(self.view_names, self.model.by_view(), self.model.encode(batch, states=True), strict=True)
        for name, encoders, results in every:
            for (channel, _), encoded in zip(encoders, results, strict=True):
                if encoded.attention is not None:
                    by_place = encoded.attention.new_full((len(trees),), torch.nan)
                    by_place[trees.children] = encoded.attention
                    by_word = by_place[trees.rank].float().cpu().numpy()
                    found[f"{name} ({channel})" if several else name] = np.split(by_word, ends)
        return found


def component_key(encoder: Encoder, pooling: str) -> str:
    """Under which an encoder's components for a pooling are stored."""
    return f"{encoder.name}.{pooling}"


def load_kind(kind: str, run: Path, parser: "Parser | None") -> Embedder:
    """Load a run of a kind that ``run_kind`` found."""
    # These build on the Embedder.
    from structviews.baselines import load_baseline  # noqa: PLC0415
    from structviews.given import GIVEN, GivenVectors  # noqa: PLC0415
    from structviews.joined import JoinedEmbedder  # noqa: PLC0415

    openers: dict[str, Callable[[Path, Parser | None], Embedder]] = {
        "trained": TrainedEmbedder.open,
        "random": TrainedEmbedder.open,
        "joined": JoinedEmbedder.open,
        "baseline": load_baseline,
        GIVEN: lambda run, _: GivenVectors.open(run),
    }
    if kind in openers:
        return openers[kind](run, parser)
    raise InputError(f"{run}: a run of an unknown kind, {kind!r}: update structviews, or make the run again")
