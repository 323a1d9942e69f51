"""Weighted averages of pretrained word vectors.

Shapes: B sentences with m words in total, d dimensions of a word vector, V words of the corpus.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.pooled import PooledEmbedder
from structviews.encoding.preparation import Preparer
from structviews.encoding.representation import Encoder, reduce_segments
from structviews.errors import InputError
from structviews.runs.folder import WEIGHTS, WORDS
from structviews.runs.settings_file import Parsed
from structviews.runs.weights import load_words, save_vocabularies
from structviews.runs.which_vectors import Representation
from structviews.runtime.seals import damaged, read_arrays, write_arrays
from structviews.views.view import Encoded
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import (
    Vocabulary,
    WordStatistics,
    equal_weights,
    inverse_document_frequencies,
    smooth_inverse_frequencies,
    unsupervised_inverse_frequencies,
)

CHANNEL = "words"  # under which the run keeps its vocabulary
ROWS_AT_ONCE = 2**16
REMEDY = "make the baseline again"


@dataclass(frozen=True)
class Recipe:
    """How a baseline combines word vectors.

    Attributes:
        weights: computes word weights from corpus statistics.
        remove: number of principal components to remove from the sentence vectors.
        scale_dimensions: whether to scale each dimension of a sentence's word vectors to unit length first.
        center_words: whether to remove the mean of all word vectors and their first d / 100 principal components
            from each word vector.
    """

    weights: Callable[[WordStatistics], np.ndarray] = equal_weights
    remove: int = 0
    scale_dimensions: bool = False
    center_words: bool = False


RECIPES = {
    "average": Recipe(),
    "tfidf": Recipe(inverse_document_frequencies),
    "sif": Recipe(smooth_inverse_frequencies, remove=1),
    "up": Recipe(unsupervised_inverse_frequencies, remove=5, scale_dimensions=True),
    "all-but-the-top": Recipe(center_words=True),
}


class WordBaseline(PooledEmbedder):
    """Weighted mean of a sentence's word vectors; words without a vector are skipped.

    Args:
        kind: one of ``RECIPES``.
        vectors: the word vectors, read from disk.
        vocabulary: words of the corpus.
        tensors: ``weights (V + 1,)``, and for ``center_words`` also ``mean (d,)`` and ``directions (k, d)``.
        parsed: description of the corpus.
    """

    def __init__(
        self, kind: str, vectors: WordVectors, vocabulary: Vocabulary, tensors: dict[str, np.ndarray], parsed: Parsed
    ):
        self.recipe = RECIPES[kind]
        self.vectors = vectors
        self.vocabulary = vocabulary
        self.tensors = tensors
        self.views = (kind,)
        self.parsers = []
        self.preparer = Preparer(parsed)
        self.representation = Representation(remove_component=self.recipe.remove > 0)
        self.n_components = max(self.recipe.remove, 1)
        self.encoders = [[Encoder("words", vectors.dim, linear=True)]]
        self.components = {}

    @classmethod
    def fit(cls, kind: str, vectors: WordVectors, words: WordStatistics, parsed: Parsed) -> Self:
        """Fit a baseline on word vectors and the word statistics of a corpus."""
        recipe = RECIPES[kind]
        tensors = {"weights": recipe.weights(words).astype(np.float32)}
        return cls(kind, vectors, words.vocabulary, tensors | (centre(vectors) if recipe.center_words else {}), parsed)

    def write(self, run: Path) -> dict[str, Any]:
        """Write weights and vocabulary; return the entries for the run's settings."""
        write_arrays(run / WEIGHTS, self.tensors, {"kind": self.views[0], "vectors": self.vectors.fingerprint})
        save_vocabularies(run, {CHANNEL: self.vocabulary})
        return {"vectors": str(self.vectors.path.resolve())}

    @classmethod
    def open(cls, run: Path, kind: str, settings: dict[str, Any], parsed: Parsed) -> Self:
        """Load a run that ``write`` wrote.

        Raises:
            InputError: if a file is missing, damaged, or has changed.
        """
        vectors = WordVectors.open(settings["vectors"])
        about = parsed.vectors  # looked up in the same letter case, too
        if (vectors.fingerprint, vectors.uncased) != (about.get("fingerprint"), about.get("uncased", False)):
            raise InputError(f"{vectors.path}: not the word vectors that {run} was made from: make the baseline again")
        tensors, vocabulary = read_arrays(run / WEIGHTS, REMEDY), load_words(run, CHANNEL, vectors.uncased)
        wanted: dict[str, tuple[int, ...]] = {"weights": (len(vocabulary),)}
        if RECIPES[kind].center_words:
            wanted |= {"mean": (vectors.dim,), "directions": (first_directions(vectors), vectors.dim)}
        if {name: each.shape for name, each in tensors.items()} != wanted:
            raise damaged(run / WEIGHTS, f"its arrays do not fit {WORDS} and the word vectors", REMEDY)
        return cls(kind, vectors, vocabulary, tensors, parsed)

    def _pool(
        self, sentences: Sequence[ParsedSentence], poolings: Sequence[str], chosen: Sequence[int]
    ) -> Iterable[tuple[str, Tensor]]:
        (encoder,) = self.encoders[0]
        encoded = self._encode(sentences)
        for pooling in poolings:
            yield f"{encoder.name}.{pooling}", encoder.pool(encoded, pooling)

    def _encode(self, sentences: Sequence[ParsedSentence]) -> Encoded:
        """Weighted vectors of the known words; a sentence without known words gets one zero vector."""
        words = list(chain.from_iterable(s.tokens for s in sentences))
        known, rows = self.vectors.read(words)
        sentence = np.repeat(np.arange(len(sentences)), [len(s.tokens) for s in sentences])[known]
        rows = self._processed(rows, sentence, len(sentences))
        rows *= self.tensors["weights"][self.vocabulary.ids(words)[known], None]
        counts = np.bincount(sentence, minlength=len(sentences))
        lengths = np.maximum(counts, 1)
        states = np.zeros((lengths.sum(), self.vectors.dim), dtype=np.float32)
        states[np.repeat(counts > 0, lengths)] = rows
        offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
        vector = reduce_segments(torch.from_numpy(states), offsets, "mean")
        return Encoded(vector, torch.from_numpy(states), offsets)

    def _processed(self, rows: np.ndarray, sentence: np.ndarray, n_sentences: int) -> np.ndarray:
        """Word vectors ``(m, d)``, changed in place, before weighting."""
        if self.recipe.center_words:
            rows -= self.tensors["mean"]
            rows -= rows @ self.tensors["directions"].T @ self.tensors["directions"]
        if self.recipe.scale_dimensions:
            squares = torch.zeros(n_sentences, rows.shape[1]).index_add_(
                0, torch.from_numpy(sentence), torch.from_numpy(rows).square()
            )
            lengths = squares.sqrt_().numpy()[sentence]
            rows /= np.where(lengths > 0, lengths, 1)
        return rows


def first_directions(vectors: WordVectors) -> int:
    """How many principal components ``centre`` returns."""
    return max(1, vectors.dim // 100)


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
    first = directions[:, ::-1][:, : first_directions(vectors)].T
    return {"mean": mean.astype(np.float32), "directions": np.ascontiguousarray(first, dtype=np.float32)}
