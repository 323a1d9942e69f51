"""A served run and what it answers: vectors, similarities, trees and neighbours. Called from a single thread."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import check_finite, normalised
from structviews.encoding.word_limit import DEFAULT_LIMIT, WordLimit, one_warning
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
from structviews.evaluation.retrieval.neighbours import nearest
from structviews.parsing import svg
from structviews.runs.folder import run_names
from structviews.runtime.terminal import OnProgress

FIRST_SENTENCE = "Yes"  # of one word, which every limit allows
KINDS: tuple[Literal["dependency"], Literal["constituency"]] = ("dependency", "constituency")
# Sentences of the sample of random pairs, all 8,128 of which are compared: this fixes a share to about 0.02.
SAMPLE, SEED = 128, 1


class Vectors(NamedTuple):
    """A sentence's vectors: one per view ``(width,)``, and the joined one ``(d,)`` that ``encode`` returns."""

    views: list[np.ndarray]
    joined: np.ndarray


class Similarity(BaseModel):
    """Cosine similarities of two sentences."""

    views: dict[str, float] = Field(description="cosine under each view")
    joined: float = Field(description="cosine of the vectors that /encode returns")


class ComparedPair(Similarity):
    """Cosine similarities of two sentences, and how they compare with random pairs of the corpus."""

    closer_than: Similarity | None = Field(
        description="share, from 0 to 1, of random pairs of the corpus that have a lower cosine; null without a corpus"
    )


class Neighbour(BaseModel):
    """A sentence of the corpus."""

    text: str
    place: int = Field(description="first occurrence, in the corpus's unit")
    times: int = Field(description="number of occurrences")
    cosine: float


class Drawing(BaseModel):
    """A tree drawn as an SVG document."""

    kind: Literal["dependency", "constituency"]
    title: str
    svg: str


class Tree(BaseModel):
    """A sentence and its trees."""

    tokens: list[str]
    tags: list[str]
    heads: list[int] = Field(description="head of each word, from 1; 0 for the root")
    relations: list[str]
    constituents: list[tuple[int, int, str]] = Field(description="first word (from 0), end (exclusive), label")
    attention: dict[str, list[float | None]] = Field(
        description="by encoder: attention weight of each word among its siblings; null for the root"
    )
    drawings: list[Drawing]


class ServedRun:
    """A loaded run that answers requests, about a pool of sentences and their vectors ``(n, d)`` if there is one."""

    def __init__(self, name: str, embedder: Embedder, pool: Pool | None = None, vectors: np.ndarray | None = None):
        self.name = name
        self.embedder = embedder
        self.pool = pool
        self._vectors = vectors
        self.random_cosines = random_cosines(pool, embedder) if pool and len(pool) > 1 else None

    def warning(self, sentences: Sequence[str]) -> str | None:
        """A line on sentences that are not in the run's language; None if nothing shows that."""
        return self.embedder.preparer.language_remark(sentences)

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> list[Vectors]:
        """The vectors of each sentence; raises InputError for one that cannot be encoded."""
        views = self.embedder.encode_views(sentences)
        joined = self.embedder.joined(views)
        check_finite(joined)
        return [Vectors([view[i] for view in views], vector) for i, vector in enumerate(joined)]

    def compare(self, a: Vectors, b: Vectors) -> ComparedPair:
        """The cosines of two sentences."""
        ends = zip([*a.views, a.joined], [*b.views, b.joined], strict=True)
        cosines = [cosine(*pair) for pair in ends]
        closer = None
        if self.random_cosines:
            shares = zip(self.random_cosines, cosines, strict=True)
            closer = self._similarity([float(np.searchsorted(random, each) / len(random)) for random, each in shares])
        return ComparedPair(**self._similarity(cosines).model_dump(), closer_than=closer)

    def _similarity(self, numbers: Sequence[float]) -> Similarity:
        """A number under each view and, last, of the joined vectors."""
        return Similarity(views=dict(zip(self.embedder.view_names, numbers[:-1], strict=True)), joined=numbers[-1])

    def neighbours(self, requests: Sequence[tuple[str, int]]) -> list[list[Neighbour]]:
        """The k nearest sentences of the pool for each (sentence, k), excluding the sentence itself; see ``encode``."""
        pool, vectors = self.pool, self._vectors
        if pool is None or vectors is None:
            raise InputError("no corpus to search: start structviews serve with --corpus")
        texts, sentences = zip(*(pool.read(text) for text, _ in requests), strict=True)
        queries = np.stack([each.joined for each in self.encode(sentences)])
        found = nearest(queries, vectors, max(k for _, k in requests), pool.rows_of(texts))

        def neighbour(score: float, row: int) -> Neighbour:
            place, times = int(pool.positions[row]), int(pool.counts[row])
            return Neighbour(text=pool.shown(row), place=place, times=times, cosine=float(score))

        return [
            [neighbour(score, row) for score, row in zip(scores[:k], rows[:k], strict=True) if row >= 0]
            for scores, rows, (_, k) in zip(found.scores, found.rows, requests, strict=True)
        ]

    def trees(self, sentences: Sequence[str]) -> list[Tree]:
        """Each sentence's trees, even if the run itself reads none; raises InputError if one cannot be parsed."""
        parsed = self.embedder.preparer.prepare(sentences, KINDS, self.embedder.limit)
        attention = self.embedder.attention(parsed)
        found = []
        for i, sentence in enumerate(parsed):
            weights = {name: of_all[i] for name, of_all in attention.items()}
            shown = {name: [None if np.isnan(w) else w for w in each.tolist()] for name, each in weights.items()}
            words = {name: list(getattr(sentence, name)) for name in ("tokens", "tags", "heads", "relations")}
            pictures = drawings(sentence, weights)
            found.append(Tree(**words, constituents=sentence.spans(), attention=shown, drawings=pictures))
        return found


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of two vectors ``(d,)``; 0 if either is zero."""
    a, b = normalised(np.stack([a, b]).astype(np.float64))
    return float(a @ b)


def random_cosines(pool: Pool, embedder: Embedder) -> list[np.ndarray]:
    """Ascending ``(pairs,)`` cosines of all pairs in a seeded sample, under each view and, last, of the joined vectors.

    A cosine has no scale of its own: 0.3 is close under one run, and 0.8 what any two sentences have under another.
    """
    rows = np.random.default_rng(SEED).permutation(len(pool))[:SAMPLE]
    sentences = [sentence for row in rows for sentence in pool.sentences(row, row + 1)]
    with pool.naming(rows):
        views = embedder.encode_views(sentences)
    above = np.triu_indices(len(rows), k=1)
    directions = (normalised(vectors.astype(np.float64)) for vectors in [*views, embedder.joined(views)])
    return [np.sort((each @ each.T)[above]) for each in directions]


def drawings(sentence: ParsedSentence, attention: dict[str, np.ndarray]) -> list[Drawing]:
    """Draw a sentence's trees; the dependency tree once per attentive encoder."""
    pictures: list[tuple[Literal["dependency", "constituency"], str, svg.Picture]] = []
    if sentence.has_dependencies:
        pictures = [
            (KINDS[0], f"Dependency tree, attention of {name}", svg.dependency_tree(sentence, weights.tolist()))
            for name, weights in attention.items()
        ] or [(KINDS[0], "Dependency tree", svg.dependency_tree(sentence))]
    if sentence.has_constituents:
        pictures += [(KINDS[1], title.capitalize(), tree) for title, tree in svg.titled_trees(sentence)]
    return [Drawing(kind=kind, title=title, svg=svg.drawing([tree], sentence.tokens)) for kind, title, tree in pictures]


def open_runs(
    runs: Sequence[Path],
    pool: Pool | None,
    similarity: bool,
    progress: Callable[[str], AbstractContextManager[OnProgress]],
    limit: WordLimit = DEFAULT_LIMIT,
    precision: str = "auto",
) -> list[ServedRun]:
    """Load runs, or their representations for similarity tasks, and encode the pool with each if there is one."""
    served = []
    for run, name in zip(runs, run_names(runs), strict=True):
        embedder = Embedder.load(run, precision=precision).with_limit(**vars(limit))
        embedder = embedder.for_similarity() if similarity else embedder
        try:
            ServedRun(name, embedder).encode([FIRST_SENTENCE])  # loads the parser too
        except InputError as error:
            raise InputError(f"{run}: cannot encode: {error}") from None
        if pool is None:
            served.append(ServedRun(name, embedder))
            continue
        with progress(f"encoding {pool.path} with {name}") as show, one_warning():
            served.append(ServedRun(name, embedder, pool, pool_vectors(pool, run, embedder, show)))
    return served
