"""Weighted averages of pretrained word vectors.

Shapes: B sentences of m words, d length of a word vector, V words of the corpus.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from torch import Tensor

from structviews.baselines.statistics import (
    WordStatistics,
    equal_weights,
    inverse_document_frequencies,
    smooth_inverse_frequencies,
    unsupervised_inverse_frequencies,
)
from structviews.cache import write_whole
from structviews.checkpoint import WEIGHTS
from structviews.config import Parsed
from structviews.embedder import PooledEmbedder
from structviews.errors import InputError
from structviews.preparation import Preparer
from structviews.representation import Encoder, Representation, load_components, reduce_segments
from structviews.sentence import ParsedSentence
from structviews.views import Encoded
from structviews.vocabulary import Vocabulary
from structviews.word_vectors import WordVectors

WORDS = "vocabulary.words.txt"
ROWS_AT_ONCE = 2**16


@dataclass(frozen=True)
class Recipe:
    """What a baseline makes of word vectors.

    Attributes:
        weights: of each word, from the statistics of the corpus.
        remove: how many principal components of the sentences' vectors are removed.
        scale_dimensions: whether a sentence's word vectors are first scaled to length 1 along each dimension.
        center_words: whether the mean of all word vectors and their first d / 100 principal components are
            removed from each.
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
    """A weighted mean of the vectors of a sentence's words; those without a vector are left out.

    Args:
        kind: one of ``RECIPES``.
        vectors: the word vectors, which stay on disk.
        vocabulary: words of the corpus.
        tensors: ``weights (V + 1,)``, and for centred words their ``mean (d,)`` and ``directions (k, d)``.
        parsed: the corpus.
    """

    def __init__(
        self, kind: str, vectors: WordVectors, vocabulary: Vocabulary, tensors: dict[str, np.ndarray], parsed: Parsed
    ):
        self.recipe = RECIPES[kind]
        self.vectors = vectors
        self.vocabulary = vocabulary
        self.tensors = tensors
        self.views = (kind,)
        self.needs = frozenset({"tokens"})
        self.parsers = []
        self.preparer = Preparer(parsed)
        self.representation = Representation(remove_component=self.recipe.remove > 0)
        self.n_components = max(self.recipe.remove, 1)
        self.encoders = [[Encoder("words", vectors.dim, linear=True)]]
        self.components = {}

    @classmethod
    def fit(cls, kind: str, vectors: WordVectors, words: WordStatistics, parsed: Parsed) -> Self:
        """From word vectors and the words of a corpus."""
        recipe = RECIPES[kind]
        tensors = {"weights": recipe.weights(words).astype(np.float32)}
        return cls(kind, vectors, words.vocabulary, tensors | (centre(vectors) if recipe.center_words else {}), parsed)

    def save(self, run: Path) -> dict[str, Any]:
        """Write weights and words; return what the run's settings need."""
        about = {"kind": self.views[0], "vectors": self.vectors.fingerprint}
        content = save(self.tensors, metadata=about)
        write_whole(run / WEIGHTS, lambda file: file.write(content))
        self.vocabulary.save(run / WORDS)
        return {"vectors": str(self.vectors.path.resolve())}

    @classmethod
    def open(cls, run: Path, kind: str, settings: dict[str, Any], parsed: Parsed) -> Self:
        """Load what ``save`` wrote.

        Raises:
            InputError: if a file is missing, damaged, or not the one that the baseline was made with.
        """
        vectors = WordVectors.open(settings["vectors"])
        if vectors.fingerprint != parsed.vectors["fingerprint"]:
            raise InputError(f"{vectors.path}: not the word vectors that {run} was made with: make the baseline again")
        try:
            tensors = load_file(run / WEIGHTS)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{run / WEIGHTS}: not readable ({error}): make the baseline again") from None
        embedder = cls(kind, vectors, Vocabulary.load(run / WORDS), tensors, parsed)
        embedder.components = load_components(run)
        return embedder

    def _pool(self, sentences: Sequence[ParsedSentence], poolings: Sequence[str]) -> Iterable[tuple[str, Tensor]]:
        (encoder,) = self.encoders[0]
        encoded = self._encode(sentences)
        for pooling in poolings:
            yield f"{encoder.name}.{pooling}", encoder.pool(encoded, pooling)

    def _encode(self, sentences: Sequence[ParsedSentence]) -> Encoded:
        """Weighted vectors of the words that have one; a sentence without any has one that is zero."""
        words = pa.array(list(chain.from_iterable(s.tokens for s in sentences)), pa.string())
        places = self.vectors.find(words)
        known = places >= 0
        sentence = np.repeat(np.arange(len(sentences)), [len(s.tokens) for s in sentences])[known]
        rows = self._rows(places[known], sentence, len(sentences))
        rows *= self.tensors["weights"][self.vocabulary.ids(words)[known], None]
        counts = np.bincount(sentence, minlength=len(sentences))
        lengths = np.maximum(counts, 1)
        states = np.zeros((lengths.sum(), self.vectors.dim), dtype=np.float32)
        states[np.repeat(counts > 0, lengths)] = rows
        offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
        vector = reduce_segments(torch.from_numpy(states), offsets, "mean")
        return Encoded(vector, torch.from_numpy(states), offsets)

    def _rows(self, places: np.ndarray, sentence: np.ndarray, n_sentences: int) -> np.ndarray:
        """Vectors ``(m, d)`` of words, before they are weighed."""
        rows = self.vectors.rows(places)
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


def centre(vectors: WordVectors) -> dict[str, np.ndarray]:
    """Mean and first d / 100 principal components, at least one, of all the vectors of a file.

    (All-but-the-top; Mu and Viswanath 2018, algorithm 1. Here the components are of the centred vectors.)
    """
    total, products = np.zeros(vectors.dim), np.zeros((vectors.dim, vectors.dim))
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        rows = vectors.rows(np.arange(start, min(start + ROWS_AT_ONCE, len(vectors)))).astype(np.float64)
        total += rows.sum(axis=0)
        products += rows.T @ rows
    mean = total / len(vectors)
    _, directions = np.linalg.eigh(products / len(vectors) - np.outer(mean, mean))  # by rising variance
    first = directions[:, ::-1][:, : max(1, vectors.dim // 100)].T
    return {"mean": mean.astype(np.float32), "directions": np.ascontiguousarray(first, dtype=np.float32)}
