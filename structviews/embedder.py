"""Sentences to vectors, with a run of any kind.

Shapes: n sentences, d length of a vector.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import torch
from torch import Tensor

from structviews.batching import collate
from structviews.channels import empty_table, load_vocabularies
from structviews.checkpoint import check_weights, load_weights
from structviews.config import Parsed, TrainConfig, load_run, run_kind
from structviews.device import best_device, move
from structviews.errors import InputError
from structviews.expansion import ExpandedVocabulary, expanded
from structviews.log import shown
from structviews.model import Model, build_model
from structviews.preparation import Preparer, Sentence, SentenceError
from structviews.representation import Components, Encoder, Representation, join_views, joined_width, load_components
from structviews.representation import normalised as normalised_rows
from structviews.sentence import ParsedSentence
from structviews.shipped import run_folder
from structviews.views import attention_weights
from structviews.vocabulary import Vocabulary

if TYPE_CHECKING:
    from structviews.encoding_pool import EncodingPool
    from structviews.parsing.backends import Parser

Progress = Callable[[int, int], None]
Choice = tuple[Representation, int | None]


class Embedder(ABC):
    """A run, ready to encode.

    Attributes:
        views: names of the views, in the order of their vectors.
        needs: structures that they read.
        preparer: gives sentences these structures.
        parsers: descriptions of the parsers whose trees it was trained on; empty where it reads none.
        representation: which vectors the sentences get.
        only: the place among the views of the one that ``encode`` gives alone, see ``alone``; None for all of them.
        run: the folder that it was loaded from; None for one that was made in memory.
    """

    views: tuple[str, ...]
    needs: frozenset[str]
    preparer: Preparer
    parsers: list[dict[str, Any]]
    representation: Representation
    only: int | None = None
    run: Path | None = None

    @staticmethod
    def load(
        run: str | Path, parser: "Parser | None" = None, representation: Representation | None = None
    ) -> "Embedder":
        """Load a run's folder.

        Args:
            run: what ``train``, ``join`` or ``baseline`` made; ``default`` is the model that comes with the
                package, ``./default`` a folder of that name.
            parser: gives trees to sentences that come without; by default the one that parsed the
                training corpus, loaded when first needed.
            representation: by default the one in the run's settings.

        Raises:
            InputError: if it is not a run, or has no weights yet.
        """
        run = run_folder(run)
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
    def dim(self) -> int:
        """Length d of a sentence's vector."""
        if self.only is not None:
            return self.widths[self.only]
        return joined_width(self.widths, self.views, self.representation.join)

    @overload
    def encode(
        self,
        sentences: Sequence[Sentence],
        batch_size: int = ...,
        progress: Progress | bool | None = ...,
        *,
        normalise: bool = ...,
        convert_to_tensor: Literal[False] = ...,
        device: str | torch.device | None = ...,
        pool: "EncodingPool | None" = ...,
    ) -> np.ndarray: ...

    @overload
    def encode(
        self,
        sentences: Sequence[Sentence],
        batch_size: int = ...,
        progress: Progress | bool | None = ...,
        *,
        normalise: bool = ...,
        convert_to_tensor: Literal[True],
        device: str | torch.device | None = ...,
        pool: "EncodingPool | None" = ...,
    ) -> Tensor: ...

    def encode(
        self,
        sentences: Sequence[Sentence],
        batch_size: int = 256,
        progress: Progress | bool | None = None,
        *,
        normalise: bool = False,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        pool: "EncodingPool | None" = None,
    ) -> np.ndarray | Tensor:
        """Vectors ``(n, d)``, float32, in the order of the sentences.

        A sentence's vector is the same alone and in any batch, to rounding; but for a transductive
        representation.

        Args:
            sentences: raw strings, which are tokenised and parsed; lists of tokens, which are
                parsed as they are; or parsed sentences. They may be mixed.
            batch_size: sentences encoded together.
            progress: called with the number of sentences done and their total; True shows a bar on stderr.
            normalise: scale each sentence's vector, of all views together, to length 1; that of the
                representation scales those of each view, before they are joined.
            convert_to_tensor: give a tensor on the run's device instead of a numpy array.
            device: move the run there first, such as ``cuda:1``.
            pool: processes that do it, see ``structviews.encoding_pool``.

        Raises:
            InputError: for a sentence that is empty or cannot be parsed, a representation that the run
                does not have, or a device that the machine does not have.
        """
        if device is not None:
            self.to(device)
        with shown(progress) as told:
            encode = partial(pool.encode, self) if pool else self._encode_here
            vectors = encode(sentences, batch_size, told)
        if normalise:
            vectors = normalised_rows(vectors)
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    def _encode_here(self, sentences: Sequence[Sentence], batch_size: int, progress: Progress | None) -> np.ndarray:
        if self.only is None:  # what cannot be joined is told before the work
            joined_width(self.widths, self.views, self.representation.join)
        return self.joined(self.encode_views(sentences, batch_size, progress))

    def joined(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """The vectors ``(n, d)`` that ``encode`` makes of those of each view, ``(n, width)`` each."""
        if self.only is not None:
            return views[self.only]
        return join_views(views, self.views, self.representation.join)

    def processes(self, processes: int) -> "AbstractContextManager[EncodingPool]":
        """Processes that ``encode`` takes as ``pool``; see ``encoding_pool.open_pool``."""
        from structviews.encoding_pool import open_pool  # noqa: PLC0415 - it builds on the Embedder

        return open_pool(self, processes)

    @property
    def device(self) -> torch.device:
        """Where its encoders run."""
        return torch.device("cpu")

    def to(self, device: str | torch.device) -> Self:
        """Move its encoders, also those of every embedder that was made from this one.

        Raises:
            InputError: if there is no such device.
        """
        return self

    @abstractmethod
    def encode_views(
        self, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of each view; see ``encode``."""

    def prepare(self, sentences: Sequence[Sentence]) -> list[ParsedSentence]:
        """Sentences with the structures that the run reads, so that encoding them again need not parse them again.

        Raises:
            InputError: for a sentence that is empty or cannot be parsed.
        """
        return self.preparer.prepare(sentences, self.needs)

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

    @property
    def folder(self) -> Path:
        """The run's folder.

        Raises:
            InputError: if the run was made in memory.
        """
        if self.run is None:
            raise InputError("a run that was made in memory has no folder: load it from one")
        return self.run

    @property
    def view_names(self) -> list[str]:
        """The names of the views; ``seq.1`` and ``seq.2`` where two bear one name."""
        twice = {name for name in self.views if self.views.count(name) > 1}
        return [
            f"{name}.{self.views[: i + 1].count(name)}" if name in twice else name for i, name in enumerate(self.views)
        ]

    def attention(self, sentences: Sequence[Sentence]) -> dict[str, list[np.ndarray]]:
        """What each word weighs among the dependents of its head, by the views that weigh dependents.

        Args:
            sentences: see ``encode``.

        Returns:
            For each of these views, by its name, followed by its channel's where there are several, weights ``(n,)``
            for each sentence: see ``views.attention_weights``. Empty for a run without such views.
        """
        return {}

    @property
    def choices(self) -> list[Choice]:
        """What was chosen of the run, by ``represented``, ``alone`` and so on; of its members too, if it is joined."""
        return [(self.representation, self.only)]

    def choose(self, choices: Iterator[Choice]) -> None:
        """Take over the ``choices`` of another embedder of the same run."""
        self.representation, self.only = next(choices)

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
        pooled = self._pool_all(self.prepare(sentences), [pooling], batch_size, progress)
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
        return self.stored_components(key)

    def stored_components(self, key: str) -> Components:
        """Those of an encoder and a pooling, see ``component_key``.

        Raises:
            InputError: if the run has stored none.
        """
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
        self.model = model.to(best_device()).eval()
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

        def build() -> Model:
            return build_model(config, vocabularies, empty_table(vocabularies, parsed))

        with torch.device("meta"):  # before the settings ask for more memory than the weights have
            check_weights(run, build())
        with torch.random.fork_rng(devices=[]):  # its first weights are not kept, so they cost no random numbers
            model = build()
        load_weights(run, model)
        vocabularies = expanded(run, model, vocabularies)
        return cls(config, parsed, model, vocabularies, parser, load_components(run))

    @property
    def description(self) -> str:
        """Which vectors these are, in a few words."""
        grown = any(isinstance(vocabulary, ExpandedVocabulary) for vocabulary in self.vocabularies.values())
        return f"{self.representation}, expanded" if grown else str(self.representation)

    @property
    def device(self) -> torch.device:
        """Where its encoders run."""
        return next(self.model.parameters()).device

    def to(self, device: str | torch.device) -> Self:
        """Move its encoders; see ``Embedder.to``."""
        move(self.model, device)
        return self

    @torch.inference_mode()
    def attention(self, sentences: Sequence[Sentence]) -> dict[str, list[np.ndarray]]:
        """What each word weighs among the dependents of its head; see ``Embedder.attention``."""
        if not sentences or "dependency" not in self.needs:
            return {}
        batch = collate(self.prepare(sentences), self.vocabularies, self.needs).to(self.device)
        names = [name for name, _ in self.model.each()]
        return {
            f"{view} ({name})" if len(names) > 1 else view: weights
            for view, channels in zip(self.view_names, self.model.encode(batch, states=True), strict=True)
            for name, encoded in zip(names, channels, strict=True)
            if (weights := attention_weights(encoded, batch)) is not None
        }

    def _pool(self, sentences: Sequence[ParsedSentence], poolings: Sequence[str]) -> Iterable[tuple[str, Tensor]]:
        batch = collate(sentences, self.vocabularies, self.needs).to(self.device)
        encoded = self.model.encode(batch, states=any(pooling != "vector" for pooling in poolings))
        for encoders, channels in zip(self.encoders, encoded, strict=True):
            for encoder, each in zip(encoders, channels, strict=True):
                for pooling in poolings:
                    yield component_key(encoder, pooling), encoder.pool(each, pooling)


def check_finite(vectors: np.ndarray) -> None:
    """Raise SentenceError for the first of ``(n, d)`` vectors that is not finite."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise SentenceError(int(bad[0]), "its vector is not finite: train the run with a lower --lr")


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
        embedder = openers[kind](run, parser)
        embedder.run = run
        return embedder
    raise InputError(f"{run}: a run of an unknown kind, {kind!r}: update structviews, or make the run again")
