"""Words that a run reads from a vector file or composes, beside those that it stores.

A run with fixed word vectors stores those of its corpus' words, but knows every word of the file that they come from,
as all models of the papers do. A run whose vocabulary was expanded knows those of the file that it was expanded from.
Where that file has sub-words, other words are composed of them; a packed run stores these.
"""

import os
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from torch import Tensor

from structviews.encoding.expansion import REMEDY, Expansion
from structviews.encoding.text_language import warn_once
from structviews.errors import InputError
from structviews.model import Model
from structviews.runs.bundled import typed
from structviews.runs.config import TrainConfig
from structviews.runs.folder import EXPANSION
from structviews.runs.settings_file import Parsed
from structviews.runs.weights import load_sub_words
from structviews.runtime.seals import damaged
from structviews.views.word_tables import Words
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.sub_words import SubWords
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import UNKNOWN, Vocabulary, spelt


class Lookup(Protocol):
    """Where the vectors of words are looked up, such as an open ``WordVectors``."""

    def read(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Which words are known, ``(n,)`` bool, and the vectors ``(known, d)``, float32, of these."""
        ...


class RunVectors:
    """The vector file of a run, opened when a word that the run does not store is first looked up.

    If the file is missing or holds other vectors, it has no words, which is said once.

    Args:
        run: the run's folder.
        path: the file.
        fingerprint: of its content, see ``WordVectors``.
        maps: see ``Expansion``; empty if only fixed vectors are looked up.

    Attributes:
        path, maps: as given.
    """

    def __init__(self, run: Path, path: Path, fingerprint: str, maps: Sequence[Tensor] = ()):
        self.maps = maps
        self._run = run
        self.path = path
        self._fingerprint = fingerprint

    def __reduce__(self) -> Any:
        # An embedder is pickled to the same bytes after use.
        return type(self), (self._run, self.path, self._fingerprint, self.maps)

    @classmethod
    def of(cls, run: Path, config: TrainConfig, parsed: Parsed) -> "RunVectors | None":
        """The file that a run was expanded from, or else that of its fixed channel; None if it reads none."""
        if expansion := Expansion.load(run):
            return cls(run, Path(expansion.vectors), expansion.fingerprint, expansion.maps)
        about = parsed.vectors
        if FIXED not in config.words.channels or "fingerprint" not in about or about.get("packed"):
            return None
        return cls(run, located(Path(config.words.vectors), run), about["fingerprint"])

    @cached_property
    def _file(self) -> WordVectors | str:
        """The open file, or why there is none."""
        if not os.path.isfile(self.path):
            return f"{self.path} is not there"
        try:
            vectors = WordVectors.open(self.path)
        except (InputError, OSError) as error:
            return f"{self.path} cannot be read ({error})"
        return vectors if vectors.fingerprint == self._fingerprint else f"{self.path} holds other vectors now"

    @property
    def available(self) -> bool:
        """Whether the file is there, with the vectors that the run knows it by; opens it."""
        return not isinstance(self._file, str)

    @property
    def sub_words(self) -> SubWords | None:
        """The file's n-grams; None if it has none, or is not available."""
        return None if isinstance(self._file, str) else self._file.sub_words

    def read(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """See ``Lookup``; warns once if the file cannot be used."""
        if not isinstance(self._file, str):
            return self._file.read(words)
        run = typed(self._run)
        warn_once(
            f"{run}: words outside its vocabulary are unknown, because "
            f"{self._file}: give the file with `structviews runs expand {run} --vectors FILE`",
            stacklevel=3,
        )
        return np.zeros(len(words), bool), np.empty((0, 0), np.float32)


def located(path: Path, run: Path) -> Path:
    """A file that was named relative to the folder that a run was trained in: seen from above the run, or from here."""
    places = (place / path for place in (*run.absolute().parents, Path.cwd()))
    return next((place for place in places if os.path.isfile(place)), path)


class ExtendedVocabulary(Vocabulary):
    """A vocabulary beside all words that a file has, or composes.

    Args:
        known: the vocabulary; its words keep their ids.
        file: the vectors of other words.
    """

    def __init__(self, known: Vocabulary, file: Lookup):
        super().__init__(known.words, known.counts, known.uncased)
        self._file = file

    def look_up(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray | None]:
        """See ``Vocabulary``; the file is not asked for words of the vocabulary."""
        words = list(spelt(chain.from_iterable(sentences), self.uncased))
        ids = self.ids(words)
        places = np.flatnonzero(ids == 0)
        others = list(dict.fromkeys(words[i] for i in places.tolist() if words[i] != UNKNOWN))
        if not others:
            return ids, None
        known, vectors = self._file.read(others)
        if not len(vectors):
            return ids, None
        numbers = dict(zip(others, np.where(known, len(self) - 1 + np.cumsum(known), 0).tolist(), strict=True))
        ids[places] = [numbers.get(words[i], 0) for i in places.tolist()]
        return ids, vectors


def read_further_words(
    model: Model, vocabularies: dict[str, Vocabulary], file: Lookup, maps: Sequence[Tensor] = ()
) -> dict[str, Vocabulary]:
    """Let the fixed channel of a model read the words of a file, and the trained one too if there are ``maps``.

    Args:
        model: its tables of the trained channel get the maps.
        vocabularies: by channel.
        file: has the vectors of the fixed channel.
        maps: ``(d + 1, t)`` for each table of the trained channel, see ``Expansion``.

    Returns:
        The vocabularies to encode with.
    """
    found = dict(vocabularies)
    for name, channel in model.each():
        tables = cast("list[Words]", [*channel.words])
        if name == CONTEXTUAL or (name == TRAINED and not maps):
            continue
        for table, affine in zip(tables, maps if name == TRAINED else [None], strict=True):
            table.affine = affine
        found[name] = ExtendedVocabulary(vocabularies[name], file)
    return found


def open_further_words(
    run: Path, config: TrainConfig, parsed: Parsed, model: Model, vocabularies: dict[str, Vocabulary]
) -> tuple[dict[str, Vocabulary], RunVectors | None]:
    """Let a run's model read its file of word vectors, if it has one, or its sub-words; see ``read_further_words``.

    Returns:
        The vocabularies to encode with, and the file.

    Raises:
        InputError: if the run's expansion or sub-words are damaged.
    """
    file = RunVectors.of(run, config, parsed)
    if file is None and parsed.vectors.get("sub_words"):
        sub_words = load_sub_words(run, parsed.vectors["dim"])
        return read_further_words(model, vocabularies, sub_words), None
    if file is None:
        return vocabularies, None
    if file.maps:
        widths = [table.dim for table in cast("list[Words]", [*dict(model.each())[TRAINED].words])]
        if [each.shape for each in file.maps] != [(len(file.maps[0]), width) for width in widths]:
            raise damaged(run / EXPANSION, "its maps are not of this run's words", REMEDY)
    return read_further_words(model, vocabularies, file, file.maps), file
