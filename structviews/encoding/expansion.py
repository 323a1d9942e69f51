"""Words that a run reads from a vector file or composes, beside those that it stores; vocabulary expansion.

A run with fixed word vectors stores those of its corpus' words, but knows every word of the file that they come from,
as all models of the papers do. Vocabulary expansion lets a view that learns its words read a file, too: a linear map
with an intercept, fitted by least squares on the shared words, maps the file's vectors to those that were learnt
(skip-thought vectors, Kiros et al. 2015, section 2.2; the intercept is that of the quick-thoughts code). Only the maps
are stored. Where a file has sub-words, other words are composed of them; a packed run stores these.

Shapes: n shared words, d dimensions of the file's vectors, t of the learnt ones.
"""

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict

import numpy as np
import torch
from torch import Tensor

from structviews.encoding.word_limit import warn_once
from structviews.errors import InputError
from structviews.model import Model
from structviews.runs.bundled import typed
from structviews.runs.config import TrainConfig
from structviews.runs.folder import EXPANSION
from structviews.runs.settings_file import Parsed, load_run, run_kind
from structviews.runs.weights import load_sub_words, load_vocabularies, read_weights
from structviews.runtime.documents import checked
from structviews.runtime.files import writing
from structviews.runtime.seals import damaged, read_tensors, write_arrays
from structviews.runtime.terminal import OnProgress
from structviews.views import VIEWS
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import UNKNOWN, Vocabulary, spelt

# Every n-th word is held out of the fit to measure R^2.
LEFT_OUT = 10
REMEDY = "run `structviews runs expand` again"


class Notes(TypedDict):
    """What the file of an expansion says beside the maps; see ``RunVectors``."""

    vectors: str
    fingerprint: str


class Fit(NamedTuple):
    """Variance of a view's learnt vectors that its map explains.

    ``r2`` is on the words that it is fitted on, ``r2_left_out`` on a tenth of them that another map leaves out.
    """

    view: str
    r2: float
    r2_left_out: float


class Report(NamedTuple):
    """The result of an expansion: words added, words that the maps are fitted on, and a fit for each map."""

    n_new: int
    n_shared: int
    fits: list[Fit]


def expand(run: Path, file: Path, progress: OnProgress | None = None) -> Report:
    """Expand the vocabulary of a trained or random run to all words of a vector file, replacing any earlier expansion.

    If the run has a fixed channel, the file must include its vectors, and is read from now on.

    Raises InputError if the run has no encoders of its own, or rounded word vectors, as a packed one; if the file has
    no word vectors, shares too few words with the run, or differs from the vectors of its fixed channel.
    """
    if run_kind(run) not in ("trained", "random"):
        raise InputError(f"{run}: only trained and random runs can be expanded: expand each run before joining it")
    with writing(run):
        config, parsed = load_run(run)
        if parsed.vectors.get("packed"):
            raise InputError(f"{run}: packed, so its word vectors are rounded: expand the run that it was packed from")
        if config.words.channels == (CONTEXTUAL,):
            raise InputError(f"{run}: its words are states of an encoder, which reads all words: nothing to expand")
        vocabularies, weights = load_vocabularies(run, config, parsed), read_weights(run)
        vectors = WordVectors.open(file, progress)
        if FIXED in config.words.channels:
            table, rows = weights[f"channels.{FIXED}.words.0.weight"], vectors.find(vocabularies[FIXED].words[1:])
            same = vectors.dim == table.shape[1] and np.array_equal(vectors.rows(rows), table[1:].numpy())
            if not same or (rows < 0).any():
                raise InputError(
                    f"{vectors.path}: does not have the vectors that the fixed channel of {run} was trained with: give "
                    "that file, or one that includes its vectors"
                )
        fits, maps, n_shared = [], [], 0
        if TRAINED in config.words.channels:
            rows = vectors.find(vocabularies[TRAINED].words[1:])
            shared = np.flatnonzero(rows >= 0)
            n_shared = len(shared)
            if n_shared <= vectors.dim + 1:
                raise InputError(
                    f"{file}: has {n_shared} of the run's {len(rows)} words, too few to fit a map from {vectors.dim} "
                    "dimensions: give vectors of the same language or of fewer dimensions"
                )
            inputs = np.pad(vectors.rows(rows[shared]).astype(np.float64), ((0, 0), (0, 1)), constant_values=1)
            out = np.arange(n_shared) % LEFT_OUT == 0
            for i, view in enumerate(name for name in config.views.names if VIEWS[name].learns):
                learnt = weights[f"channels.{TRAINED}.words.{i}.weight"].numpy()[1 + shared]
                maps.append(torch.from_numpy(fit_map(inputs, learnt).astype(np.float32)))
                left_out = r_squared(inputs[out], learnt[out], fit_map(inputs[~out], learnt[~out]))
                fits.append(Fit(view, r_squared(inputs, learnt, maps[-1].numpy()), left_out))
        RunVectors(run, file.resolve(), vectors.fingerprint, maps).save()
        known = vectors.find(set().union(*(vocabulary.words for vocabulary in vocabularies.values())))
        # Several of the run's words may be one of the file's, in lower case.
        return Report(len(vectors) - len(np.unique(known[known >= 0])), n_shared, fits)


def fit_map(inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """The least-squares map ``(d + 1, t)`` from inputs ``(n, d + 1)``, the last of them 1, to outputs ``(n, t)``."""
    return np.linalg.lstsq(inputs, outputs.astype(np.float64), rcond=None)[0]


def r_squared(inputs: np.ndarray, outputs: np.ndarray, affine: np.ndarray) -> float:
    """Share of the variance of ``outputs``, over all dimensions, that a map of ``inputs`` explains."""
    errors = outputs - inputs @ affine
    return 1 - float(np.square(errors).sum() / np.square(outputs - outputs.mean(axis=0)).sum())


# Which of some words are known, ``(n,)`` bool, and the vectors ``(known, d)``, float32, of these; ``WordVectors.read``.
Lookup = Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]


class RunVectors:
    """The vector file of a run, opened when a word that the run does not store is first looked up.

    It is known by its fingerprint, see ``WordVectors``. If it is missing or has another one, it has no words, which is
    said once. If the run was expanded from it, there is a map ``(d + 1, t)`` for each table of the trained channel,
    whose last row is the intercept. Without maps, only fixed vectors are looked up.
    """

    def __init__(self, run: Path, path: Path, fingerprint: str, maps: Sequence[Tensor] = ()):
        self.maps = maps
        self.path = path
        self.fingerprint = fingerprint
        self._run = run

    def __reduce__(self) -> Any:
        # An embedder is pickled to the same bytes after use.
        return type(self), (self._run, self.path, self.fingerprint, self.maps)

    def save(self) -> None:
        """Write the expansion to the run's folder, atomically."""
        maps = {f"{TRAINED}.{i}": each for i, each in enumerate(self.maps)}
        write_arrays(self._run / EXPANSION, maps, {"vectors": str(self.path), "fingerprint": self.fingerprint})

    @classmethod
    def of_expansion(cls, run: Path) -> Self | None:
        """What ``save`` wrote; None if the run is not expanded, InputError if the file is damaged."""
        path = run / EXPANSION
        if not path.is_file():
            return None
        tensors, notes = read_tensors(path, REMEDY)
        about: Notes = checked(notes, Notes, path, REMEDY)
        maps = [tensors.get(f"{TRAINED}.{i}", torch.empty(0)) for i in range(len(tensors))]
        if any(each.dtype != torch.float32 for each in maps):
            raise damaged(path, "its maps are not of this run's words", REMEDY)
        return cls(run, Path(about["vectors"]), about["fingerprint"], maps)

    @classmethod
    def of(cls, run: Path, config: TrainConfig, parsed: Parsed) -> Self | None:
        """The file that a run was expanded from, or else that of its fixed channel; None if it reads none."""
        expansion, about = cls.of_expansion(run), parsed.vectors
        if expansion or FIXED not in config.words.channels or "fingerprint" not in about or about.get("packed"):
            return expansion
        # Its path may be relative to the folder that the run was trained in: seen from above the run, or from here.
        path = Path(config.words.vectors)
        candidates = (folder / path for folder in (*run.absolute().parents, Path.cwd()))
        return cls(run, next((file for file in candidates if os.path.isfile(file)), path), about["fingerprint"])

    @cached_property
    def _file(self) -> WordVectors | str:
        """The open file, or why there is none."""
        if not os.path.isfile(self.path):
            return f"{self.path} is not there"
        try:
            vectors = WordVectors.open(self.path)
        except (InputError, OSError) as error:
            return f"{self.path} cannot be read ({error})"
        return vectors if vectors.fingerprint == self.fingerprint else f"{self.path} holds other vectors now"

    @property
    def available(self) -> bool:
        """Whether the file is there, with the vectors that the run knows it by; opens it."""
        return not isinstance(self._file, str)

    def read(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """See ``Lookup``; warns once if the file cannot be used."""
        if not isinstance(self._file, str):
            return self._file.read(words)
        run = typed(self._run)
        warn_once(
            f"{run}: words outside its vocabulary are unknown, because "
            f"{self._file}: give the file with `structviews runs expand {run} --vectors FILE`"
        )
        return np.zeros(len(words), bool), np.empty((0, 0), np.float32)


class ExtendedVocabulary(Vocabulary):
    """A vocabulary, whose words keep their ids, beside all words that a file has, or composes."""

    def __init__(self, own: Vocabulary, read: Lookup):
        super().__init__(own.words, own.counts, own.uncased)
        self._read = read

    def look_up(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray | None]:
        """See ``Vocabulary``; the file is not asked for words of the vocabulary."""
        words = list(spelt(chain.from_iterable(sentences), self.uncased))
        ids = self.ids(words)
        unknown = np.flatnonzero(ids == 0)
        others = list(dict.fromkeys(words[i] for i in unknown.tolist() if words[i] != UNKNOWN))
        if not others:
            return ids, None
        known, vectors = self._read(others)
        if not len(vectors):
            return ids, None
        numbers = dict(zip(others, np.where(known, len(self.words) - 1 + np.cumsum(known), 0).tolist(), strict=True))
        ids[unknown] = [numbers.get(words[i], 0) for i in unknown.tolist()]
        return ids, vectors


def read_further_words(
    model: Model, vocabularies: dict[str, Vocabulary], read: Lookup, maps: Sequence[Tensor] = ()
) -> dict[str, Vocabulary]:
    """Let the fixed channel of a model read the words of a file, and the trained one too if there are ``maps``.

    The tables of the trained channel get the maps, see ``RunVectors``. Returns the vocabularies to encode with.
    """
    found = dict(vocabularies)
    for name, channel in model.channels.items():
        if name == CONTEXTUAL or (name == TRAINED and not maps):
            continue
        for table, affine in zip(channel.words, maps if name == TRAINED else [None], strict=True):
            table.affine = affine
        found[name] = ExtendedVocabulary(vocabularies[name], read)
    return found


def open_further_words(
    run: Path, config: TrainConfig, parsed: Parsed, model: Model, vocabularies: dict[str, Vocabulary]
) -> tuple[dict[str, Vocabulary], RunVectors | None]:
    """Let a run's model read its file of word vectors, if it has one, or its sub-words; see ``read_further_words``.

    Returns the vocabularies to encode with, and the file; raises InputError if what the run stores is damaged.
    """
    file = RunVectors.of(run, config, parsed)
    if file is None:
        if parsed.vectors.get("sub_words"):
            vocabularies = read_further_words(model, vocabularies, load_sub_words(run, parsed.vectors["dim"]).read)
        return vocabularies, None
    if file.maps:
        widths = [table.dim for table in model.channels[TRAINED].words]
        if [each.shape for each in file.maps] != [(len(file.maps[0]), width) for width in widths]:
            raise damaged(run / EXPANSION, "its maps are not of this run's words", REMEDY)
    return read_further_words(model, vocabularies, file.read, file.maps), file
