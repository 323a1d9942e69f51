"""Encode sentences as vectors, with any kind of run.

An embedder prepares text (``preparation``), has a run's encoders encode it in batches (``kinds``), and makes vectors of
what they return (``representation``). Shapes: n sentences, d dimensions of a sentence's vector, w of an encoder's.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, overload

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.kinds import open_run
from structviews.encoding.preparation import Preparer, Sentence
from structviews.encoding.representation import Components, Encoder, SentenceVectors, batches, cosines, cosines_of_pairs
from structviews.encoding.representation import normalised as normalised_rows
from structviews.encoding.word_limit import BATCH_SIZE, DEFAULT_LIMIT, WordLimit, warn
from structviews.errors import InputError, names_checked, replaced
from structviews.parsing.parser import Parser
from structviews.runs.bundled import run_folder, typed
from structviews.runs.folder import COMPONENTS, copy_run
from structviews.runs.which_vectors import POOLINGS, Choice, Representation, numbered
from structviews.runtime.products import reused
from structviews.runtime.terminal import OnProgress, shown
from structviews.runtime.threads import in_threads
from structviews.views.view import Encoded

PRECISIONS = ("auto", "fp32", "bf16")
REFERENCE = 5000
"""Number of sentences to fit the stored components on (measured in docs/representations.md)."""
# An ``EncodingPool``, whose module imports this one.
Pool = Any


class Embedder:
    """A loaded run that encodes sentences; each kind of run is a subclass, which encodes batches.

    Attributes:
        views: names of the views, in the order of their vectors.
        representation: how sentence vectors are computed.
        only: index of the single view that is encoded; None for all views.
        parsers: descriptions of the parsers that produced the training trees; empty if the run reads no trees.
        corpora: paths of the training corpora, as they were named.
        limit: the longest sentence that is encoded; see ``with_limit``.
        precision: of matrix products, see ``load``.
        run: folder that the run was loaded from; None if it was created in memory.
        members: the runs that a joined run joins; empty for any other.
    """

    views: tuple[str, ...]
    encoders: list[list[Encoder]]  # of each view, one per channel
    representation: Representation
    preparer: Preparer
    only: int | None = None
    parsers: Sequence[dict[str, Any]] = ()
    corpora: Sequence[str] = ()
    limit: WordLimit = DEFAULT_LIMIT
    precision: str = "fp32"
    run: Path | None = None
    stored: Choice | None = None  # what the folder has
    components: Mapping[str, Components] = MappingProxyType({})  # those to remove, by the encoder's key
    n_components: int = 1  # number of components to remove
    poolings: tuple[str, ...] = POOLINGS  # those that the encoders support
    is_thread_safe: bool = False  # whether several threads may call encode_batch at once
    models: frozenset[Path] = frozenset()  # pretrained models that it reads beside the run's own
    members: "Sequence[Embedder]" = ()

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
                a cosine distance of less than 0.001; or ``auto``, which is bf16 on a CPU that multiplies it faster
                and otherwise fp32. Vectors are float32 in any case.

        Raises InputError if the folder is not a run, or has no weights yet, or for an unknown precision.
        """
        embedder: Embedder = open_run(run_folder(run), parser)
        embedder = embedder.with_limit(max_tokens=max_tokens, overlong=overlong).with_precision(precision)
        return embedder.with_representation(**vars(representation)) if representation else embedder

    @property
    def folder(self) -> Path:
        """The run's folder; raises InputError if the run was created in memory."""
        if self.run is None:
            raise InputError("a run created in memory has no folder: load a run from its folder")
        return self.run

    @property
    def view_names(self) -> list[str]:
        """Unique names of the views, see ``numbered``."""
        return numbered(self.views)

    @property
    def chosen(self) -> list[int]:
        """Indices of the views that ``encode`` computes: that of ``with_view``, or all but those of weight 0."""
        weights = self.representation.view_weights
        return [i for i in range(len(self.views)) if not weights or weights[i]] if self.only is None else [self.only]

    @property
    def widths(self) -> list[int]:
        """Dimensions of each view's vector."""
        return [sum(encoder.width(self.representation.pooling) for encoder in view) for view in self.encoders]

    @property
    def dim(self) -> int:
        """Dimensions d of a sentence's vector; raises InputError if the views cannot be joined."""
        widths, join = [self.widths[i] for i in self.chosen], self.representation.join
        if join == "concatenation":
            return sum(widths)
        if len(set(widths)) > 1:
            found = ", ".join(f"{self.views[i]} has {width}" for i, width in zip(self.chosen, widths, strict=True))
            raise InputError(f"join = {join} needs equal dimensions, but {found}: choose another --pooling or --join")
        return widths[0]

    @property
    def needs(self) -> frozenset[str]:
        """The structures that ``encode`` reads."""
        return self.needs_of(self.chosen)

    def needs_of(self, chosen: Iterable[int]) -> frozenset[str]:
        """The structures that some views read, by their indices; see ``View.needs``."""
        return frozenset({"tokens"})

    @property
    def vectors_described(self) -> str:
        """Short description of the representation."""
        return str(self.representation)

    @property
    def description(self) -> str:
        """Short description of the vectors: the representation, the limit that sentences are cut to, the precision."""
        precision = self.encodes_in if self.encodes_in != "fp32" else ""
        return ", ".join(filter(None, (self.vectors_described, str(self.limit), precision)))

    @property
    def encodes_in(self) -> str:
        """The precision that ``precision`` stands for on the run's device: ``fp32`` or ``bf16``."""
        return next((each for member in self.members if (each := member.encodes_in) != "fp32"), "fp32")

    @property
    def device(self) -> torch.device:
        """Device of the encoders; of those of a joined run the first that is not the CPU."""
        found = (member.device for member in self.members)
        return next((device for device in found if device.type != "cpu"), torch.device("cpu"))

    def to(self, device: str | torch.device) -> Self:
        """Move the encoders, which all embedders derived from this one share; InputError if there is no such device."""
        for member in self.members:
            member.to(device)
        return self

    def __repr__(self) -> str:
        about = {
            "run": typed(self.run) if self.run else None,
            "views": self.view_names if self.only is None else [self.view_names[self.only]],
            "dim": self.dim,
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
        several: Iterable[Sentence] = [sentences] if is_one else sentences  # type: ignore[assignment, list-item]
        if device is not None:
            self.to(device)
        with shown(show_progress_bar) as progress:
            if pool:
                vectors = pool.encode(self, several, batch_size, progress)
            else:
                own = self.sentence_vectors()
                pooled = self._pooled(own, self.prepare(several), batch_size, progress)
                vectors = own.join(own.of_views(pooled)).numpy()
        if normalize_embeddings:
            vectors = normalised_rows(vectors)
        vectors = vectors[0] if is_one else vectors
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    # sentence-transformers' names for models with a prompt for each, which runs do not have.
    encode_query = encode
    encode_document = encode

    def encode_views(self, sentences: Iterable[Sentence], progress: OnProgress | None = None) -> list[np.ndarray]:
        """Vectors ``(n, width)`` of each view, also of those that ``encode`` leaves out; see ``encode``."""
        vectors, ready = self.sentence_vectors(every := range(len(self.views))), self.prepare(sentences, every)
        return [view.numpy() for view in vectors.of_views(self._pooled(vectors, ready, BATCH_SIZE, progress))]

    def joined(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """Join the vectors ``(n, width)`` of each view into ``(n, d)``, as ``encode`` does."""
        return self.sentence_vectors().join([torch.from_numpy(views[i]) for i in self.chosen]).numpy()

    def sentence_vectors(self, chosen: Sequence[int] | None = None) -> SentenceVectors:
        """What makes vectors of the encoders' output, for some views, by their indices; by default those of ``encode``.

        Raises InputError if the run does not have the representation, or the views of ``encode`` cannot be joined.
        """
        if chosen is None:
            _ = self.dim  # fails before sentences are parsed
        views = self.chosen if chosen is None else chosen
        own = self.representation if self.only is None else replace(self.representation, join="concatenation")
        if own.pooling not in self.poolings:
            raise InputError(f"pooling = {own.pooling}: this run supports only {', '.join(self.poolings)}")
        keys = [encoder.key(own.pooling) for i in views for encoder in self.encoders[i]]
        if own.remove_component and not own.transductive and not all(key in self.components for key in keys):
            place = f"{self.run / COMPONENTS}: " if self.run else ""
            raise InputError(
                f"{place}the run has stored no components, as its training has not finished or it was made without a "
                "corpus: finish it, or give --transductive"
            )
        return SentenceVectors(self.encoders, views, own, self.components, self.n_components)

    @torch.inference_mode()
    def _pooled(
        self, vectors: SentenceVectors, ready: Sequence[ParsedSentence], batch_size: int, progress: OnProgress | None
    ) -> dict[str, Tensor]:
        """What ``SentenceVectors.pool`` returns for prepared sentences, encoded in batches: ``(n, w)``, on the CPU."""
        if batch_size < 1:
            raise InputError(f"batch_size = {batch_size}: give at least 1")
        encoders = [(each, pooling) for view in vectors.views for each in view for pooling in vectors.poolings]
        pooled = {each.key(pooling): torch.empty(len(ready), each.width(pooling)) for each, pooling in encoders}

        @torch.inference_mode()
        def encode(rows: np.ndarray) -> int:
            encoded = self.encode_batch(vectors, [ready[i] for i in rows])
            for key, found in vectors.pool(encoded).items():
                pooled[key][torch.from_numpy(rows)] = found.float().cpu()
            return len(rows)

        threads = torch.get_num_threads() if self.is_thread_safe and self.device.type == "cpu" else 1
        with reused():
            parts = batches([len(sentence.tokens) for sentence in ready], batch_size, threads)
            done = in_threads(encode, parts) if threads > 1 else map(encode, parts)
            for n_done in accumulate(done):
                if progress:
                    progress(n_done, len(ready))
        return pooled

    def encode_batch(self, vectors: SentenceVectors, sentences: Sequence[ParsedSentence]) -> list[list[Encoded]]:
        """For each view that the vectors are made of and each channel, its encoder's output; see ``View.forward``."""
        raise NotImplementedError

    def prepare(self, sentences: Iterable[Sentence], chosen: Iterable[int] | None = None) -> list[ParsedSentence]:
        """Tokenise and parse sentences as the run needs, so that they can be encoded repeatedly without parsing again.

        For the views with the indices ``chosen``, by default for those that ``encode`` computes. Raises InputError if
        something is not a sentence, is longer than the limit or cannot be parsed.
        """
        needs = self.needs_of(self.chosen if chosen is None else chosen)
        return self.preparer.prepare(sentences, needs, self.limit)

    def attention(self, sentences: Iterable[Sentence]) -> dict[str, list[np.ndarray]]:
        """Attention weight of each word among the dependents of its head: ``(n,)`` of each sentence, by attentive view.

        The key is the view's name, plus the channel's if there are several. A run without such views has none.
        """
        return {}

    similarity = staticmethod(cosines)
    similarity_pairwise = staticmethod(cosines_of_pairs)

    def fit_components(
        self, corpus: ParsedCorpus, rows: np.ndarray, progress: OnProgress | None = None
    ) -> dict[str, Components]:
        """Fit those of all encoders and poolings on sentences evenly spaced over some ascending rows of a corpus."""
        chosen = rows[np.unique(np.linspace(0, len(rows) - 1, min(REFERENCE, len(rows))).astype(np.int64))]
        sentences = [corpus.sentence(int(row)) for row in chosen]
        plain = SentenceVectors(self.encoders, range(len(self.views)), Representation(), poolings=self.poolings)
        pooled = self._pooled(plain, sentences, BATCH_SIZE, progress)
        return {name: Components.fit(vectors, self.n_components) for name, vectors in pooled.items()}

    def with_representation(self, **changes: Any) -> Self:
        """The same run with other fields of its ``Representation``.

        Raises InputError for an invalid value, or weights of more or fewer views than the run has.
        """
        representation = replaced("with_representation", self.representation, changes)
        representation.check_views(self.view_names)
        return self._changed(representation=representation)

    def for_similarity(self) -> Self:
        """The same run with its representation for similarity tasks."""
        members = [member.for_similarity() for member in self.members]
        return self._changed(representation=self.representation.for_similarity(), members=members)

    def with_limit(self, **changes: Any) -> Self:
        """The same run with another limit for sentences: ``max_tokens``, ``overlong`` or both; see ``load``."""
        limit = replaced("with_limit", self.limit, changes)
        return self._changed(limit=limit, members=[member.with_limit(**vars(limit)) for member in self.members])

    def with_precision(self, precision: str) -> Self:
        """The same run with another precision of its matrix products; see ``load``, which raises the same errors."""
        if precision not in PRECISIONS:
            raise InputError(f"unknown precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
        return self._changed(precision=precision, members=[each.with_precision(precision) for each in self.members])

    def with_view(self, view: str) -> Self:
        """The same run, restricted to one of its ``view_names``; raises InputError if it has no such view."""
        if view not in self.view_names:
            place = f"{typed(self.run)}: " if self.run else ""
            raise InputError(f"{place}no view {view!r}: the run has {', '.join(self.view_names)}")
        unweighted = self.with_representation(view_weights=(), similarity_view_weights=())
        return unweighted._changed(only=self.view_names.index(view))

    @property
    def choice(self) -> Choice:
        """Representation and view that are chosen, and those of the members."""
        return Choice(self.representation, self.only, tuple(member.choice for member in self.members))

    def with_choice(self, choice: Choice) -> Self:
        """The same run with the ``choice`` of another embedder of it."""
        members = [each.with_choice(own) for each, own in zip(self.members, choice.members, strict=True)]
        return self._changed(representation=choice.representation, only=choice.only, members=members)

    def _changed(self, **attributes: Any) -> Self:
        """A copy with other values of some attributes, which shares the encoders."""
        changed = copy.copy(self)
        vars(changed).update(attributes)
        return changed

    def save(self, folder: str | Path) -> None:
        """Copy the whole run, but for the state of its training, to a folder, which appears complete or not at all.

        Raises InputError if the run was created in memory, or another representation or view was chosen than its own;
        if the folder is inside the run, or exists and is not empty.
        """
        copy_run(self._as_stored(), Path(folder))

    def push_to_hub(
        self, repo_id: str, *, private: bool = False, licence: str = "", card: str | Path | None = None
    ) -> str:
        """Upload the run to the Hugging Face Hub, as ``structviews push`` does, and return the URL of the commit.

        ``repo_id`` is OWNER/NAME; the repository is created if necessary, and then may be ``private``. The model card
        has the ``licence``, an identifier of the Hub, or is the file ``card``. What is left out is warned of. Raises
        InputError as ``save``; if the run cannot be shared, or the Hub cannot be reached or refuses the upload.
        """
        # By its name, as a registry finds its parts: the Hub's model cards have scores, so it stands on a floor above.
        push = import_module("structviews.hub.transfer").push
        pushed = push(self._as_stored(), repo_id, private=private, licence=licence, card=Path(card) if card else None)
        for note in pushed.notes:
            warn(note)
        return str(pushed.url)

    def _as_stored(self) -> Path:
        """The run's folder, if it has what was chosen on this embedder."""
        folder = self.folder
        if self.choice != self.stored:
            raise InputError(
                f"{folder}: only the run's default representation and views can be saved: save the run as it was "
                "loaded, and choose others after loading it"
            )
        return folder
