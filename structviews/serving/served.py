"""A served run: its vectors, trees and neighbours. Called from a single thread."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import check_finite
from structviews.encoding.word_limit import DEFAULT_LIMIT, WordLimit, one_warning
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
from structviews.evaluation.retrieval.neighbours import nearest
from structviews.parsing import svg
from structviews.parsing.binarise import binary_tree, unbinarise
from structviews.parsing.drawing import reads_right_to_left
from structviews.runs.folder import run_names
from structviews.runtime.terminal import OnProgress
from structviews.serving.random_pairs import RandomPairs

FIRST_SENTENCE = "Yes"  # of one word, which every limit allows
KINDS = ("dependency", "constituency")


class Vectors(NamedTuple):
    """A sentence's vectors: one per view ``(width,)``, and the joined one ``(d,)`` that ``encode`` returns."""

    views: list[np.ndarray]
    joined: np.ndarray


class Neighbour(NamedTuple):
    """A sentence of the search pool.

    Attributes:
        text: the sentence.
        place: its first occurrence; see ``Pool.places``.
        times: number of occurrences.
        cosine: similarity to the query.
    """

    text: str
    place: int
    times: int
    cosine: float


class Drawing(NamedTuple):
    """A tree as SVG; ``kind`` is ``dependency`` or ``constituency``."""

    kind: str
    title: str
    svg: str


class Trees(NamedTuple):
    """A sentence with its trees, the weights of each attentive encoder, and drawings of both."""

    sentence: ParsedSentence
    attention: dict[str, np.ndarray]
    drawings: list[Drawing]


class ServedRun:
    """A loaded run that answers requests.

    Args:
        name: its name in requests.
        embedder: the run, with the representation to serve.
        pool: sentences to search, if any.
        vectors: ``(n, d)`` vectors of the pool.
        random_pairs: what cosines of the pool's sentences are like, if known.
    """

    def __init__(
        self,
        name: str,
        embedder: Embedder,
        pool: Pool | None = None,
        vectors: np.ndarray | None = None,
        random_pairs: RandomPairs | None = None,
    ):
        self.name = name
        self.embedder = embedder
        self.pool = pool
        self.random_pairs = random_pairs
        self._vectors = vectors

    def warning(self, sentences: Sequence[str]) -> str | None:
        """A line on sentences that are not in the run's language; None if nothing shows that."""
        return self.embedder.preparer.language_remark(sentences)

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> list[Vectors]:
        """The vectors of each sentence.

        Raises:
            InputError: for a sentence that cannot be encoded.
        """
        views = self.embedder.encode_views(sentences)
        joined = self.embedder.joined(views)
        check_finite(joined)
        return [Vectors([view[i] for view in views], vector) for i, vector in enumerate(joined)]

    def neighbours(self, asked: Sequence[tuple[str, int]]) -> list[list[Neighbour]]:
        """The k nearest sentences of the pool for each (sentence, k), excluding the sentence itself.

        Raises:
            InputError: if there is no pool, or for a sentence that cannot be encoded.
        """
        pool, vectors = self.pool, self._vectors
        if pool is None or vectors is None:
            raise InputError("no corpus to search: start structviews serve with --corpus")
        texts, sentences = zip(*(pool.read(text) for text, _ in asked), strict=True)
        queries = np.stack([each.joined for each in self.encode(sentences)])
        found = nearest(queries, vectors, max(k for _, k in asked), pool.rows_of(texts))
        return [
            [
                Neighbour(pool.shown(row), int(pool.places[row]), int(pool.counts[row]), float(score))
                for score, row in zip(scores[:k], rows[:k], strict=True)
                if row >= 0
            ]
            for scores, rows, (_, k) in zip(found.scores, found.rows, asked, strict=True)
        ]

    def trees(self, sentences: Sequence[str]) -> list[Trees]:
        """Each sentence's trees, even if the run itself reads none.

        Raises:
            InputError: if a sentence cannot be parsed, or the run's parser is not installed.
        """
        parsed = self.embedder.preparer.prepare(sentences, KINDS, self.embedder.limit)
        attention = self.embedder.attention(parsed)
        found = []
        for i, sentence in enumerate(parsed):
            weights = {name: of_all[i] for name, of_all in attention.items()}
            found.append(Trees(sentence, weights, drawings(sentence, weights)))
        return found


def drawings(sentence: ParsedSentence, attention: dict[str, np.ndarray]) -> list[Drawing]:
    """Draw a sentence's trees; the dependency tree once per attentive encoder."""

    pictures: list[tuple[str, str, svg.Picture]] = []
    if sentence.has_dependencies:
        pictures = [
            (KINDS[0], f"Dependency tree, attention of {name}", svg.dependency_tree(sentence, weights.tolist()))
            for name, weights in attention.items()
        ] or [(KINDS[0], "Dependency tree", svg.dependency_tree(sentence))]
    if sentence.has_constituents:
        mirrored = reads_right_to_left(sentence.tokens)
        pictures += [
            (KINDS[1], "Constituency tree", svg.bracket_tree(unbinarise(sentence), mirrored)),
            (KINDS[1], "Binarised, level by level", svg.bracket_tree(binary_tree(sentence), mirrored, levels=True)),
        ]
    return [Drawing(kind, title, svg.drawing([picture], sentence.tokens)) for kind, title, picture in pictures]


def open_runs(
    runs: Sequence[Path],
    pool: Pool | None,
    similarity: bool,
    progress: Callable[[str], AbstractContextManager[OnProgress]],
    limit: WordLimit = DEFAULT_LIMIT,
    precision: str = "auto",
) -> list[ServedRun]:
    """Load runs, and encode the pool with each unless cached vectors exist.

    Args:
        runs: run folders.
        pool: sentences to search, if any.
        similarity: use the representation for similarity tasks.
        progress: shows the current step.
        limit: the longest sentence that is encoded.
        precision: see ``Embedder.load``.

    Raises:
        InputError: if a run cannot be loaded, or cannot encode a sentence.
    """
    served = []
    for run, name in zip(runs, run_names(runs), strict=True):
        embedder = Embedder.load(run, precision=precision).with_limit(**vars(limit))
        embedder = embedder.for_similarity() if similarity else embedder
        try:
            ServedRun(name, embedder).encode([FIRST_SENTENCE])  # loads the parser too
        except InputError as error:
            raise InputError(f"{run}: cannot encode: {error}") from None
        vectors = pairs = None
        if pool:
            with progress(f"encoding {pool.path} with {name}") as show, one_warning():
                vectors = pool_vectors(pool, run, embedder, show)
                pairs = RandomPairs.of(pool, embedder)
        served.append(ServedRun(name, embedder, pool, vectors, pairs))
    return served
