"""Vocabulary expansion: extend a trained run to every word of a vector file.

A linear map with an intercept, fitted by least squares on the shared words, maps the file's vectors to the
vectors that a view has learnt (skip-thought vectors, Kiros et al. 2015, section 2.2; the intercept follows
scikit-learn's LinearRegression, which the quick-thoughts code uses). Words in the vocabulary keep their learnt
vectors. Only the maps are stored; the vectors are read from the file as needed, see ``further_words``.

Shapes: n shared words, d dimensions of the file's vectors, t of the learnt ones.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypedDict

import numpy as np
import torch
from torch import Tensor

from structviews.errors import InputError
from structviews.runs.folder import EXPANSION
from structviews.runs.settings_file import load_run, run_kind
from structviews.runs.weights import load_vocabularies, read_weights
from structviews.runtime.documents import checked
from structviews.runtime.files import writing
from structviews.runtime.seals import damaged, read_tensors, write_arrays
from structviews.runtime.terminal import OnProgress
from structviews.views import VIEWS
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import Vocabulary

# Every n-th word is held out of the fit to measure R^2.
LEFT_OUT = 10
REMEDY = "run `structviews runs expand` again"


class Notes(TypedDict):
    """What the file says beside the maps; see ``Expansion``."""

    vectors: str
    fingerprint: str


@dataclass(frozen=True)
class Expansion:
    """What a run keeps of its expansion.

    Attributes:
        vectors: path of the vector file.
        fingerprint: hash of the file's content.
        maps: ``(d + 1, t)`` for each table of the trained channel; the last row is the intercept.
    """

    vectors: str
    fingerprint: str
    maps: list[Tensor]

    def save(self, run: Path) -> None:
        """Write the expansion to a run's folder, atomically."""
        maps = {f"{TRAINED}.{i}": each for i, each in enumerate(self.maps)}
        write_arrays(run / EXPANSION, maps, {"vectors": self.vectors, "fingerprint": self.fingerprint})

    @classmethod
    def load(cls, run: Path) -> Self | None:
        """Read what ``save`` wrote; None if the run is not expanded.

        Raises:
            InputError: if the file is damaged.
        """
        path = run / EXPANSION
        if not path.is_file():
            return None
        tensors, notes = read_tensors(path, REMEDY)
        about: Notes = checked(notes, Notes, path, REMEDY)
        maps = [tensors.get(f"{TRAINED}.{i}", torch.empty(0)) for i in range(len(tensors))]
        if any(each.dtype != torch.float32 for each in maps):
            raise damaged(path, "its maps are not of this run's words", REMEDY)
        return cls(about["vectors"], about["fingerprint"], maps)


@dataclass(frozen=True)
class Fit:
    """How well a map predicts the learnt vectors.

    Attributes:
        view: view whose word table is mapped.
        r2: explained variance on the words that the map is fitted on.
        r2_left_out: explained variance on a held-out tenth, of a map fitted on the other nine tenths.
    """

    view: str
    r2: float
    r2_left_out: float


@dataclass(frozen=True)
class Report:
    """The result of an expansion.

    Attributes:
        n_new: words added to the run.
        n_shared: words that the maps are fitted on.
        fits: one per view of the trained channel.
    """

    n_new: int
    n_shared: int
    fits: list[Fit]


def expand(run: Path, file: Path, progress: OnProgress | None = None) -> Report:
    """Expand a run's vocabulary to all words of a vector file, replacing any earlier expansion.

    Args:
        run: the folder of a trained or random run.
        file: the word vectors; if the run has a fixed channel, they must include its vectors, and it reads this file
            from now on.
        progress: see ``WordVectors.open``.

    Raises:
        InputError: if the run has no encoders of its own, or rounded word vectors, as a packed one; if the file has no
            word vectors, shares too few words with the run, or differs from the vectors of its fixed channel.
    """
    if run_kind(run) not in ("trained", "random"):
        raise InputError(f"{run}: only trained and random runs can be expanded: expand each run before joining it")
    with writing(run):
        return _expand(run, file, progress)


def _expand(run: Path, file: Path, progress: OnProgress | None) -> Report:
    config, parsed = load_run(run)
    if parsed.vectors.get("packed"):
        raise InputError(f"{run}: packed, so its word vectors are rounded: expand the run that it was packed from")
    if config.words.channels == (CONTEXTUAL,):
        raise InputError(f"{run}: its words are states of an encoder, which reads all words: nothing to expand")
    vocabularies, weights = load_vocabularies(run, config, parsed), read_weights(run)
    vectors = WordVectors.open(file, progress)
    if FIXED in config.words.channels:
        _check_fixed(run, vectors, vocabularies[FIXED], weights[f"channels.{FIXED}.words.0.weight"])
    fits, maps, n_shared = [], [], 0
    if TRAINED in config.words.channels:
        places = vectors.find(vocabularies[TRAINED].words[1:])
        shared = np.flatnonzero(places >= 0)
        n_shared = len(shared)
        if n_shared <= vectors.dim + 1:
            raise InputError(
                f"{file}: has {n_shared} of the run's {len(places)} words, too few to fit a map from {vectors.dim} "
                "dimensions: give vectors of the same language or of fewer dimensions"
            )
        inputs = vectors.rows(places[shared])
        for i, view in enumerate(name for name in config.views.names if VIEWS[name].learns):
            learnt = weights[f"channels.{TRAINED}.words.{i}.weight"].numpy()[1 + shared]
            maps.append(torch.from_numpy(fit_map(inputs, learnt).astype(np.float32)))
            fits.append(Fit(view, r_squared(inputs, learnt, maps[-1].numpy()), _left_out(inputs, learnt)))
    Expansion(str(file.resolve()), vectors.fingerprint, maps).save(run)
    known = vectors.find(set().union(*(vocabulary.words for vocabulary in vocabularies.values())))
    # Several of the run's words may be one of the file's, in lower case.
    return Report(len(vectors) - len(np.unique(known[known >= 0])), n_shared, fits)


def fit_map(inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """The least-squares affine map ``(d + 1, t)``; its last row is the intercept.

    Args:
        inputs: ``(n, d)``.
        outputs: ``(n, t)``.
    """
    fitted: np.ndarray = np.linalg.lstsq(_with_ones(inputs), outputs.astype(np.float64), rcond=None)[0]
    return fitted


def r_squared(inputs: np.ndarray, outputs: np.ndarray, affine: np.ndarray) -> float:
    """Share of the variance of ``outputs``, over all dimensions, that an affine map of ``inputs`` explains."""
    errors = outputs - _with_ones(inputs) @ affine
    return 1 - float(np.square(errors).sum() / np.square(outputs - outputs.mean(axis=0)).sum())


def _left_out(inputs: np.ndarray, outputs: np.ndarray) -> float:
    out = np.arange(len(inputs)) % LEFT_OUT == 0
    return r_squared(inputs[out], outputs[out], fit_map(inputs[~out], outputs[~out]))


def _with_ones(inputs: np.ndarray) -> np.ndarray:
    return np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1, dtype=np.float64)


def _check_fixed(run: Path, vectors: WordVectors, vocabulary: Vocabulary, table: Tensor) -> None:
    places = vectors.find(vocabulary.words[1:])
    same = vectors.dim == table.shape[1] and np.array_equal(vectors.rows(places), table[1:].numpy())
    if not same or (places < 0).any():
        raise InputError(
            f"{vectors.path}: does not have the vectors that the fixed channel of {run} was trained with: give that "
            "file, or one that includes its vectors"
        )
