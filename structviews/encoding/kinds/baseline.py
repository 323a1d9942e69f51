"""Runs without a model of ours: averages of pretrained word vectors, sentence-transformers models, and given vectors.

Shapes: m words of a batch, d dimensions of a word vector, V words of the corpus.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from structviews.batches.batch import collate
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import ExtendedVocabulary
from structviews.encoding.kinds import KINDS
from structviews.encoding.preparation import Preparer
from structviews.encoding.representation import ByView, Encoder, SentenceVectors
from structviews.encoding.sentence_vectors import Tokens, check_known, read_vectors
from structviews.errors import InputError
from structviews.parsing.parser import Parser
from structviews.pretrained.sentence_models import TRANSFORMER, PublishedModel
from structviews.runs.folder import CONFIG, WEIGHTS, WORDS
from structviews.runs.settings_file import KIND, PARSED, Parsed, read_parsed, read_settings, run_kind, write_settings
from structviews.runs.weights import load_words, save_vocabularies, write_weights
from structviews.runs.which_vectors import Representation
from structviews.runtime.files import file_hash, new_folder
from structviews.runtime.seals import damaged, read_arrays, write_arrays
from structviews.settings import Settings
from structviews.views.bag import WordAverage
from structviews.views.view import Encoded, FixedWords
from structviews.words import vocabulary as weighting
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import UNKNOWN, Vocabulary, WordStatistics

BASELINE = "baseline"
# Vectors of sentences from a file, for ``structviews eval --vectors``.
GIVEN = "vectors"
FINGERPRINT = "fingerprint"
CHANNEL = "words"  # under which the run keeps its vocabulary
ROWS_AT_ONCE = 2**16
REMEDY = "make the baseline again"


@KINDS.register(BASELINE)
class Baseline:
    """Opens baselines."""

    @staticmethod
    def open(run: Path, settings: Mapping[str, Any], parser: Parser | None = None) -> Embedder:
        """Load a run of ``make_baseline``; InputError if its vectors, model or a file is missing or has changed."""
        try:
            kind, parsed = settings[BASELINE], read_parsed(settings[PARSED], run / CONFIG)
            own = Representation.from_table(settings["representation"], str(run / CONFIG))
            opened = TransformerBaseline if kind == TRANSFORMER else WordBaseline
            embedder: Embedder = opened.open(run, kind, settings, parsed)
        except (KeyError, TypeError) as error:
            place = run / CONFIG
            raise InputError(f"{place}: not of a run made by structviews baseline ({error}): make it again") from None
        embedder.representation = own
        return embedder


class Recipe(NamedTuple):
    """How a baseline combines word vectors: see each step below, in this order."""

    center_words: bool = False  # remove the mean of all word vectors and their first d / 100 components from each
    scale_dimensions: bool = False  # scale each dimension of a sentence's word vectors to unit length
    weights: Callable[[WordStatistics], np.ndarray] = weighting.equal_weights  # of words, by statistics of the corpus
    remove: int = 0  # number of principal components to remove from the sentence vectors


RECIPES = {
    "average": Recipe(),
    "tfidf": Recipe(weights=weighting.inverse_document_frequencies),
    "sif": Recipe(weights=lambda words: weighting.smooth_inverse(words.probabilities), remove=1),
    "up": Recipe(scale_dimensions=True, weights=weighting.unsupervised_inverse_frequencies, remove=5),
    "all-but-the-top": Recipe(center_words=True),
}


class WordBaseline(Embedder):
    """The view ``average`` of weighted word vectors, which are read from their file.

    The kind is one of ``RECIPES``, the vocabulary that of the corpus, which ``parsed`` describes. The arrays are
    ``weights (V + 1,)``, and for ``center_words`` also ``mean (d,)`` and ``directions (k, d)``.
    """

    def __init__(
        self, kind: str, vectors: WordVectors, vocabulary: Vocabulary, arrays: dict[str, np.ndarray], parsed: Parsed
    ):
        self.recipe = RECIPES[kind]
        self.vectors = vectors
        self.vocabulary = vocabulary
        self.arrays = arrays
        self.views = (kind,)
        self.preparer = Preparer(parsed)
        self.representation = Representation(remove_component=self.recipe.remove > 0)
        self.n_components = max(self.recipe.remove, 1)
        self.encoders = [[Encoder("words", vectors.dim, linear=True)]]
        self._view = WordAverage(vectors.dim, vectors.dim, Settings())
        self._table = FixedWords(torch.zeros(1, vectors.dim))  # of no words: all are beyond it
        self._words = ExtendedVocabulary(Vocabulary([UNKNOWN], uncased=vectors.uncased), self.read)

    @classmethod
    def fit(cls, kind: str, vectors: WordVectors, words: WordStatistics, parsed: Parsed) -> Self:
        """Fit a baseline on word vectors and the word statistics of a corpus."""
        recipe = RECIPES[kind]
        arrays = {"weights": recipe.weights(words).astype(np.float32)}
        return cls(kind, vectors, words.vocabulary, arrays | (centre(vectors) if recipe.center_words else {}), parsed)

    def write(self, run: Path) -> dict[str, Any]:
        """Write weights and vocabulary; return the entries for the run's settings."""
        write_arrays(run / WEIGHTS, self.arrays, {"kind": self.views[0], "vectors": self.vectors.fingerprint})
        save_vocabularies(run, {CHANNEL: self.vocabulary})
        return {"vectors": str(self.vectors.path.resolve())}

    @classmethod
    def open(cls, run: Path, kind: str, settings: Mapping[str, Any], parsed: Parsed) -> Self:
        """Load a run that ``write`` wrote; InputError if a file is missing, damaged, or has changed."""
        vectors = WordVectors.open(settings["vectors"])
        about = parsed.vectors  # looked up in the same letter case, too
        if (vectors.fingerprint, vectors.uncased) != (about.get("fingerprint"), about.get("uncased", False)):
            raise InputError(f"{vectors.path}: not the word vectors that {run} was made from: make the baseline again")
        arrays, vocabulary = read_arrays(run / WEIGHTS, REMEDY), load_words(run, CHANNEL, vectors.uncased)
        wanted: dict[str, tuple[int, ...]] = {"weights": (len(vocabulary),)}
        if RECIPES[kind].center_words:
            wanted |= {"mean": (vectors.dim,), "directions": (max(1, vectors.dim // 100), vectors.dim)}
        if {name: each.shape for name, each in arrays.items()} != wanted:
            raise damaged(run / WEIGHTS, f"its arrays do not fit {WORDS} and the word vectors", REMEDY)
        return cls(kind, vectors, vocabulary, arrays, parsed)

    def read(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Which words have a vector, and these vectors ``(known, d)``: centred and weighted."""
        known, rows = self.vectors.read(words)
        if self.recipe.center_words:
            rows -= self.arrays["mean"]
            rows -= rows @ self.arrays["directions"].T @ self.arrays["directions"]
        rows *= self.arrays["weights"][self.vocabulary.ids(words)][known, None]
        return known, rows

    def encode_batch(self, vectors: SentenceVectors, sentences: Sequence[ParsedSentence]) -> ByView:
        """See ``Embedder``; words without a vector are skipped, and a sentence without others has one of zeros."""
        batch = collate(sentences, {"words": self._words}, {"tokens"})
        encoded: Encoded = self._view(self._table, batch, batch.ids["words"], vectors.read_states)
        if not self.recipe.scale_dimensions:
            return [[encoded]]
        known, rows = self.vectors.read([*chain.from_iterable(sentence.tokens for sentence in sentences)])
        squares = torch.zeros(len(known), self.vectors.dim)
        squares[torch.from_numpy(known)] = torch.from_numpy(rows).square()
        lengths = torch.segment_reduce(squares, "sum", offsets=batch.offsets, axis=0).sqrt()
        lengths = torch.where(lengths > 0, lengths, 1)  # (B, d), of each dimension of a sentence's word vectors
        if encoded.states is None or encoded.offsets is None:
            return [[Encoded(encoded.vector / lengths)]]
        of_states = lengths.repeat_interleave(encoded.offsets.diff(), dim=0)
        return [[Encoded(encoded.vector / lengths, encoded.states / of_states, encoded.offsets)]]


def centre(vectors: WordVectors) -> dict[str, np.ndarray]:
    """Mean and first d / 100 principal components (at least one) of all vectors of a file.

    All-but-the-top (Mu and Viswanath 2018, algorithm 1); here the components are those of the centred vectors.
    """
    total, products = np.zeros(vectors.dim), np.zeros((vectors.dim, vectors.dim))
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        rows = vectors.rows(np.arange(start, min(start + ROWS_AT_ONCE, len(vectors)))).astype(np.float64)
        total += rows.sum(axis=0)
        products += rows.T @ rows
    mean = total / len(vectors)
    _, directions = np.linalg.eigh(products / len(vectors) - np.outer(mean, mean))  # in ascending order of variance
    first = directions[:, ::-1][:, : max(1, vectors.dim // 100)].T
    return {"mean": mean.astype(np.float32), "directions": np.ascontiguousarray(first, dtype=np.float32)}


class TransformerBaseline(Embedder):
    """Vectors of a sentence-transformers model; components are fitted on the corpus that ``parsed`` describes.

    For errors see ``PublishedModel``.
    """

    poolings = ("vector",)

    def __init__(self, folder: Path, parsed: Parsed):
        self.model = PublishedModel(folder)
        self.views = (folder.resolve().name,)
        self.preparer = Preparer(parsed)
        self.representation = Representation()
        self.encoders = [[Encoder("transformer", self.model.vectors([["a"]]).shape[1])]]
        self.models = frozenset({folder})

    @property
    def device(self) -> torch.device:
        return self.model.device

    def to(self, device: str | torch.device) -> Self:
        self.model.to(device)
        return self

    def write(self, run: Path) -> dict[str, Any]:
        """Write a weights file that identifies the model; return its entries for the run's settings."""
        # The weights file holds no tensors; its notes identify the model that the scores belong to.
        write_weights(run, {}, {"kind": TRANSFORMER, "model": self.model.fingerprint})
        return {"model": str(self.model.folder.resolve()), "fingerprint": self.model.fingerprint}

    @classmethod
    def open(cls, run: Path, kind: str, settings: Mapping[str, Any], parsed: Parsed) -> Self:
        """Load a run that ``write`` wrote; InputError if the model is missing or has changed."""
        folder = Path(settings["model"])
        embedder = cls(folder, parsed)
        if embedder.model.fingerprint != settings["fingerprint"]:
            raise InputError(f"{folder}: not the model that {run} was made from: make the baseline again")
        return embedder

    def encode_batch(self, vectors: SentenceVectors, sentences: Sequence[ParsedSentence]) -> ByView:
        return [[Encoded(self.model.vectors([sentence.tokens for sentence in sentences]))]]


@KINDS.register(GIVEN)
class GivenVectors(Embedder):
    """Looks up the vectors of sentences by their tokens, in ``X.npy`` and ``X.txt``; see ``read_vectors``."""

    poolings = ("vector",)

    def __init__(self, file: Path):
        self.file = file
        self._rows, self._vectors = read_vectors(file)
        self.views = (file.stem,)
        self.preparer = Preparer(Parsed())
        self.representation = Representation()
        self.encoders = [[Encoder("given", self._vectors.shape[1])]]

    @classmethod
    def open(cls, run: Path, settings: Mapping[str, Any], parser: Parser | None = None) -> Self:
        """Load a run that ``given_run`` made; InputError if the vectors are missing or have changed."""
        file = Path(str(settings.get(GIVEN, "")))
        embedder = cls(file)
        if fingerprint(file) != settings.get(FINGERPRINT):
            raise InputError(f"{file}: not the vectors that {run} was made from: run eval --vectors again")
        return embedder

    def check(self, sentences: Sequence[Tokens], task: str) -> None:
        """Raise InputError unless all sentences of a task have vectors."""
        remedy = "encode the output of structviews tasks sentences, or limit --tasks"
        check_known(sentences, self._rows, task, self.file.with_suffix(".txt"), remedy)

    def encode_batch(self, vectors: SentenceVectors, sentences: Sequence[ParsedSentence]) -> ByView:
        tokens = [sentence.tokens for sentence in sentences]
        self.check(tokens, "the input")
        found = self._vectors[[self._rows[each] for each in tokens]].astype(np.float32)
        return [[Encoded(torch.from_numpy(found))]]


def given_run(file: Path, out: Path) -> Path:
    """Create a run from a file of vectors, or update ``out`` if it is already a run of this file.

    Raises InputError if the file has no valid vectors, or ``out`` is something else.
    """
    file = file.resolve()
    GivenVectors(file)
    settings: dict[str, Any] = {KIND: GIVEN, GIVEN: str(file), FINGERPRINT: fingerprint(file)}
    settings["views"] = {"names": [file.stem]}
    is_same = (out / CONFIG).is_file() and run_kind(out) == GIVEN and read_settings(out).get(GIVEN) == str(file)
    with nullcontext(out) if is_same else new_folder(out) as folder:
        # The weights file holds no tensors; its notes identify the vectors that the scores belong to.
        write_weights(folder, {}, {GIVEN: settings[FINGERPRINT]})
        write_settings(folder, settings)
    return out


def fingerprint(file: Path) -> str:
    """Hash of the vectors and their sentences."""
    return f"{file_hash(file)} {file_hash(file.with_suffix('.txt'))}"
