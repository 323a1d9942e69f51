"""Encode sentences as vectors, with any kind of run.

Shapes: n sentences, d dimensions of a vector.
"""

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, Self, overload

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.cosines import Vectors, cosines, cosines_of_pairs
from structviews.encoding.kinds import KINDS
from structviews.encoding.preparation import Preparer, Sentence
from structviews.encoding.representation import normalised as normalised_rows
from structviews.encoding.stored_run import Choice
from structviews.encoding.view_gate import load_gate
from structviews.encoding.view_joins import JoinedViews
from structviews.encoding.word_limit import BATCH_SIZE, DEFAULT_LIMIT, WordLimit
from structviews.errors import InputError, names_checked, replaced
from structviews.parsing.parser import Parser
from structviews.runs.bundled import run_folder, typed
from structviews.runs.folder import CONFIG
from structviews.runs.settings_file import run_corpus, run_kind
from structviews.runs.which_vectors import Representation
from structviews.runtime.device import check_precision
from structviews.runtime.terminal import OnProgress, shown


class Pool(Protocol):
    """Worker processes for encoding; see ``structviews.encoding.encoding_pool``."""

    def encode(
        self, embedder: "Embedder", sentences: Iterable[Sentence], batch_size: int, progress: OnProgress | None
    ) -> np.ndarray:
        """Vectors ``(n, d)``; see ``Embedder.encode``."""
        ...


class Embedder(JoinedViews):
    """A loaded run that encodes sentences.

    Attributes:
        preparer: tokenises and parses sentences to provide these structures.
        parsers: descriptions of the parsers that produced the training trees; empty if the run reads no trees.
        corpora: paths of the training corpora, as they were named; empty if there are none.
        limit: the longest sentence that is encoded; see ``with_limit``.
        precision: of matrix products, see ``load``; ``fp32`` for a run that was created in memory.
    """

    preparer: Preparer
    parsers: list[dict[str, Any]]
    corpora: Sequence[str] = ()
    limit: WordLimit = DEFAULT_LIMIT
    precision: str = "fp32"

    @staticmethod
    @names_checked
    def load(
        run: str | Path,
        parser: Parser | None = None,
        representation: Representation | None = None,
        *,
        max_tokens: int = WordLimit.max_tokens,
        overlong: str = WordLimit.overlong,
        precision: str = "auto",
    ) -> "Embedder":
        """Load a run.

        Args:
            run: folder made by ``train``, ``join`` or ``baseline``; or the name of a bundled model, such as
                ``default`` (``./default`` for a folder of that name).
            parser: parses sentences that have no trees; by default the parser of the training corpus, loaded on
                first use.
            representation: by default the one in the run's settings.
            max_tokens: words of the longest sentence that is encoded.
            overlong: what to do with longer ones: ``raise`` an error, or ``cut`` them with a warning.
            precision: of the encoders' matrix products: ``fp32``; ``bf16``, whose vectors differ from those of fp32 by
                a cosine distance of less than 0.001; or ``auto``, which is bf16 on a CPU that multiplies it in
                hardware and otherwise fp32. Vectors are float32 in any case.

        Raises:
            InputError: if the folder is not a run, or has no weights yet, or for an unknown precision.
        """
        check_precision(precision)
        embedder = open_run(run_folder(run), parser).with_limit(max_tokens=max_tokens, overlong=overlong)
        embedder = embedder.with_precision(precision)
        return embedder.with_representation(**vars(representation)) if representation else embedder

    @property
    @abstractmethod
    def reads(self) -> list[frozenset[str]]:
        """The structures that each view reads, see ``View.needs``."""

    @property
    def needs(self) -> frozenset[str]:
        """The structures that ``encode`` reads."""
        return self.needs_of(self.chosen)

    def needs_of(self, chosen: Iterable[int]) -> frozenset[str]:
        """The structures that some views read, by their indices."""
        return frozenset().union(*(self.reads[i] for i in chosen))

    @property
    def models(self) -> frozenset[Path]:
        """The folders of pretrained models that it reads beside the run's own."""
        return frozenset()

    @property
    def description(self) -> str:
        """Short description of the vectors: the representation, the limit that sentences are cut to, the precision."""
        precision = self.encodes_in if self.encodes_in != "fp32" else ""
        return ", ".join(filter(None, (self._representation, str(self.limit), precision)))

    @property
    def encodes_in(self) -> str:
        """The precision that ``precision`` stands for on the run's device: ``fp32`` or ``bf16``."""
        return "fp32"

    def __repr__(self) -> str:
        about = {
            "run": typed(self.run) if self.run else None,
            "views": self.view_names if self.only is None else [self.view_names[self.only]],
            "dim": self.dim,
            "vectors": self.description,
            "parser": " and ".join(str(parser.get("name")) for parser in self.parsers) or None,
            "corpus": " and ".join(self.corpora) or None,
        }
        return f"Embedder({', '.join(f'{name}={value!r}' for name, value in about.items())})"

    @overload
    def encode(
        self,
        sentences: Sentence | Iterable[Sentence],
        batch_size: int = ...,
        show_progress_bar: OnProgress | bool | None = ...,
        *,
        normalize_embeddings: bool = ...,
        convert_to_tensor: Literal[False] = ...,
        device: str | torch.device | None = ...,
        pool: Pool | None = ...,
    ) -> np.ndarray: ...

    @overload
    def encode(
        self,
        sentences: Sentence | Iterable[Sentence],
        batch_size: int = ...,
        show_progress_bar: OnProgress | bool | None = ...,
        *,
        normalize_embeddings: bool = ...,
        convert_to_tensor: Literal[True],
        device: str | torch.device | None = ...,
        pool: Pool | None = ...,
    ) -> Tensor: ...

    @names_checked
    def encode(
        self,
        sentences: Sentence | Iterable[Sentence],
        batch_size: int = BATCH_SIZE,
        show_progress_bar: OnProgress | bool | None = None,
        *,
        normalize_embeddings: bool = False,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        pool: Pool | None = None,
    ) -> np.ndarray | Tensor:
        """Vectors ``(n, d)``, float32, in the order of the sentences; of one string or parsed sentence, ``(d,)``.

        A sentence's vector does not depend on its batch, up to rounding, unless the representation is transductive.

        Args:
            sentences: raw strings (tokenised and parsed), lists of tokens (parsed), or parsed sentences; may be mixed.
                Any iterable will do: a list, a generator, a column of a table, an open file. A sentence without words
                is encoded as a full stop. A list is always one of sentences, never one sentence of tokens.
            batch_size: sentences per batch.
            show_progress_bar: True for a bar on stderr; or a function, called with the number of sentences done and
                the total.
            normalize_embeddings: scale each sentence's vector to length 1. The representation's ``normalise`` scales
                the vectors of each view before they are joined.
            convert_to_tensor: return a tensor on the run's device instead of a numpy array.
            device: move the run to this device first, such as ``cuda:1``.
            pool: worker processes to encode with, see ``structviews.encoding.encoding_pool``.

        Raises:
            InputError: if something is not a sentence, is longer than the limit or cannot be parsed (``SentenceError``,
                with its ``index``); if the run does not have this representation, or the device does not exist.
        """
        is_one = isinstance(sentences, str | ParsedSentence)
        given: Iterable[Sentence] = [sentences] if is_one else sentences  # type: ignore[assignment, list-item]
        if device is not None:
            self.to(device)
        with shown(show_progress_bar) as told:
            encode = partial(pool.encode, self) if pool else self._encode_here
            vectors = encode(given, batch_size, told)
        if normalize_embeddings:
            vectors = normalised_rows(vectors)
        found = vectors[0] if is_one else vectors
        return torch.from_numpy(found).to(self.device) if convert_to_tensor else found

    # sentence-transformers' names for models with a prompt for each, which runs do not have.
    encode_query = encode
    encode_document = encode

    @staticmethod
    def similarity(embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Cosines ``(m, n)`` of all vectors ``(m, d)`` with all vectors ``(n, d)``, or of single ones ``(d,)``.

        Raises:
            InputError: if they are not vectors, or their dimensions differ.
        """
        return cosines(embeddings1, embeddings2)

    @staticmethod
    def similarity_pairwise(embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Cosines ``(n,)`` of vectors ``(n, d)`` with those in the same place of ``(n, d)``.

        Raises:
            InputError: if they are not vectors, or their shapes differ.
        """
        return cosines_of_pairs(embeddings1, embeddings2)

    def _encode_here(self, sentences: Iterable[Sentence], batch_size: int, progress: OnProgress | None) -> np.ndarray:
        _ = self.dim  # fail before encoding if the views cannot be joined
        return self._joined(self._encode_chosen(sentences, self.chosen, batch_size, progress))

    @property
    def device(self) -> torch.device:
        """Device of the encoders."""
        return torch.device("cpu")

    def to(self, device: str | torch.device) -> Self:
        """Move the encoders, which are shared by all embedders derived from this one.

        Raises:
            InputError: if the device does not exist.
        """
        return self

    def encode_views(
        self, sentences: Iterable[Sentence], batch_size: int = BATCH_SIZE, progress: OnProgress | None = None
    ) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of each view, also of those that ``encode`` leaves out; see ``encode``."""
        return self._encode_chosen(sentences, range(len(self.views)), batch_size, progress)

    @abstractmethod
    def _encode_chosen(
        self, sentences: Iterable[Sentence], chosen: Sequence[int], batch_size: int, progress: OnProgress | None
    ) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of the views with these indices, without weights."""

    def prepare(self, sentences: Iterable[Sentence]) -> list[ParsedSentence]:
        """Tokenise and parse sentences as the run needs, so that they can be encoded repeatedly without parsing again.

        Raises:
            InputError: if something is not a sentence, is longer than the limit or cannot be parsed.
        """
        return self._prepared(sentences, self.chosen)

    def _prepared(self, sentences: Iterable[Sentence], chosen: Iterable[int]) -> list[ParsedSentence]:
        """The sentences with the structures that some views read."""
        return self.preparer.prepare(sentences, self.needs_of(chosen), self.limit)

    def with_representation(self, **changes: Any) -> Self:
        """The same run with another representation.

        Args:
            **changes: fields of ``Representation`` to change.

        Raises:
            InputError: for an invalid value, or weights of more or fewer views than the run has.
        """
        changed = copy.copy(self)
        changed.representation = replaced("with_representation", self.representation, changes)
        changed.representation.check_views(self.view_names)
        return changed

    def with_limit(self, **changes: Any) -> Self:
        """The same run with another limit for the length of sentences.

        Args:
            **changes: ``max_tokens``, ``overlong`` or both; see ``load``.
        """
        changed = copy.copy(self)
        changed.limit = replaced("with_limit", self.limit, changes)
        return changed

    def with_precision(self, precision: str) -> Self:
        """The same run with another precision of its matrix products; see ``load``.

        Raises:
            InputError: for an unknown precision.
        """
        check_precision(precision)
        changed = copy.copy(self)
        changed.precision = precision
        return changed

    def with_view(self, view: str) -> Self:
        """The same run, restricted to one of its views.

        Args:
            view: one of ``view_names``.

        Raises:
            InputError: if the run has no such view.
        """
        if view not in self.view_names:
            place = f"{typed(self.run)}: " if self.run else ""
            raise InputError(f"{place}no view {view!r}: the run has {', '.join(self.view_names)}")
        changed = self.with_representation(view_weights=(), similarity_view_weights=())  # it stands alone
        changed.only = self.view_names.index(view)
        return changed

    def attention(self, sentences: Iterable[Sentence]) -> dict[str, list[np.ndarray]]:
        """Attention weight of each word among the dependents of its head, for each attentive view.

        Args:
            sentences: see ``encode``.

        Returns:
            For each attentive view (keyed by its name, plus the channel's if there are several), the weights ``(n,)``
            of each sentence; see ``views.attention_weights``. Empty if the run has no such views.
        """
        return {}

    @property
    def choices(self) -> list[Choice]:
        """Representation and view selected on this embedder and, for a joined run, on its members."""
        return [(self.representation, self.only)]

    def choose(self, choices: Iterator[Choice]) -> None:
        """Apply the ``choices`` of another embedder of the same run."""
        self.representation, self.only = next(choices)

    def for_similarity(self) -> Self:
        """The same run with its representation for similarity tasks."""
        return self.with_representation(**vars(self.representation.for_similarity()))


def open_run(run: Path, parser: Parser | None = None) -> Embedder:
    """Load a run of any kind from its folder; see ``Embedder.load``."""
    kind = run_kind(run)
    if kind not in KINDS:
        raise InputError(f"{run / CONFIG}: unknown kind of run {kind!r}: update structviews or recreate the run")
    embedder: Embedder = KINDS[kind].open(run, parser)
    embedder.run, embedder.gate = run, load_gate(run)
    embedder.stored = embedder.choices
    embedder.corpora = [corpus] if (corpus := run_corpus(run)) else embedder.corpora
    return embedder
