"""What the server knows of a run: vectors, trees, neighbours. All of it is called by one thread."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structviews.embedder import Embedder, Progress, check_finite
from structviews.errors import InputError
from structviews.evaluation.neighbours import nearest
from structviews.evaluation.pool import Pool, pool_vectors
from structviews.runs import run_names
from structviews.sentence import ParsedSentence

FIRST_SENTENCE = "A bird is singing."
KINDS = ("dependency", "constituency")


class Vectors(NamedTuple):
    """A sentence's vectors: of each view ``(width,)``, and as ``encode`` gives it ``(d,)``."""

    views: list[np.ndarray]
    joined: np.ndarray


class Neighbour(NamedTuple):
    """A sentence of the pool.

    Attributes:
        text: its words.
        place: where it stands first, see ``Pool.places``.
        times: how often it stands there.
        cosine: with the one that was asked for.
    """

    text: str
    place: int
    times: int
    cosine: float


class Drawing(NamedTuple):
    """A tree of a kind, ``dependency`` or ``constituency``, as SVG."""

    kind: str
    title: str
    svg: str


class Trees(NamedTuple):
    """A sentence with its trees, the attention of each encoder that attends, and drawings of all that."""

    sentence: ParsedSentence
    attention: dict[str, np.ndarray]
    drawings: list[Drawing]


class ServedRun:
    """A run, ready to answer.

    Args:
        name: what it is called by.
        embedder: the run, with the representation that is wanted.
        pool: sentences to search, if any.
        vectors: ``(n, d)`` of the pool.
    """

    def __init__(self, name: str, embedder: Embedder, pool: Pool | None = None, vectors: np.ndarray | None = None):
        self.name = name
        self.embedder = embedder
        self.pool = pool
        self._vectors = vectors

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
        """The nearest sentences of the pool, for each sentence as many as are asked for; the sentence itself is none.

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
                Neighbour(pool.texts[row], int(pool.places[row]), int(pool.counts[row]), float(score))
                for score, row in zip(scores[:k], rows[:k], strict=True)
                if row >= 0
            ]
            for scores, rows, (_, k) in zip(found.scores, found.rows, asked, strict=True)
        ]

    def trees(self, sentences: Sequence[str]) -> list[Trees]:
        """Each sentence's trees, also of runs that read none.

        Raises:
            InputError: for a sentence that cannot be parsed, or if the run's parser is missing here.
        """
        parsed = self.embedder.preparer.prepare(sentences, KINDS)
        attention = self.embedder.attention(parsed)
        found = []
        for i, sentence in enumerate(parsed):
            weights = {name: of_all[i] for name, of_all in attention.items()}
            found.append(Trees(sentence, weights, drawings(sentence, weights)))
        return found


def drawings(sentence: ParsedSentence, attention: dict[str, np.ndarray]) -> list[Drawing]:
    """The trees that a sentence has; the dependency tree once for each encoder that attends."""
    from structviews.parsing import svg  # noqa: PLC0415 - the offline stage loads when it is used
    from structviews.parsing.binarise import binary_tree, unbinarise  # noqa: PLC0415
    from structviews.parsing.drawing import reads_right_to_left  # noqa: PLC0415

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
    progress: Callable[[str], AbstractContextManager[Progress]],
) -> list[ServedRun]:
    """Load runs, and encode the pool with each where that is not done yet.

    Args:
        runs: their folders.
        pool: sentences to search, if any.
        similarity: take the vectors for similarity tasks.
        progress: shows what is being done.

    Raises:
        InputError: if one cannot be loaded, or cannot encode a sentence.
    """
    served = []
    for run, name in zip(runs, run_names(runs), strict=True):
        embedder = Embedder.load(run)
        embedder = embedder.for_similarity() if similarity else embedder
        try:
            ServedRun(name, embedder).encode([FIRST_SENTENCE])  # loads the parser too
        except InputError as error:
            raise InputError(f"{run}: cannot encode: {error}") from None
        vectors = None
        if pool:
            with progress(f"encoding {pool.path} with {name}") as show:
                vectors = pool_vectors(pool, run, embedder, show)
        served.append(ServedRun(name, embedder, pool, vectors))
    return served
