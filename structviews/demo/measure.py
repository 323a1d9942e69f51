"""The demo's evaluation on held-out documents, and its table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structviews.corpus.sentence import ParsedSentence
from structviews.evaluation.probing.probe import (
    Probe,
    length_classes,
    probe,
    top_constituent_classes,
)
from structviews.evaluation.retrieval.ranking import (
    CANDIDATES,
    cosine_scores,
    neighbour_trials,
    recall,
)
from structviews.evaluation.scores.intervals import Proportion
from structviews.runtime.terminal import Table

UNTRAINED = "untrained bag of words"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    name: str
    dim: int
    recall: Proportion
    length: Probe
    constituents: Probe


class Yardstick:
    """The held-out sentences with the retrieval and probing tasks of the table.

    Args:
        sentences: the ``n`` held-out sentences, with constituency trees, in corpus order.
        documents: (n,) document of each sentence.
        positions: (n,) position of each sentence in its document.
        seed: random seed for sampling candidates.

    Raises:
        InputError: if there are too few sentences or documents.
    """

    def __init__(
        self,
        sentences: Sequence[ParsedSentence],
        documents: NDArray[np.integer],
        positions: NDArray[np.integer],
        seed: int = 0,
    ) -> None:
        self.sentences = sentences
        self.documents = documents
        self.positions = positions
        self.trials = neighbour_trials(documents, positions, [s.tokens for s in sentences], seed=seed)
        self.length_classes = length_classes(sentences)
        self.constituent_classes = top_constituent_classes(sentences)

    def measure_untrained(self, dim: int, seed: int = 0) -> Row:
        """Measure the mean of random word vectors as a baseline."""
        return self.measure(UNTRAINED, random_bag([sentence.tokens for sentence in self.sentences], dim, seed))

    def measure(self, name: str, vectors: NDArray[np.floating]) -> Row:
        """Measure the vectors of the held-out sentences.

        Args:
            name: name of the row.
            vectors: (n, d) array; neighbours are ranked by cosine.
        """
        return Row(
            name,
            vectors.shape[1],
            recall(cosine_scores(vectors, self.trials), self.trials.documents),
            probe(vectors, self.length_classes, self.documents),
            probe(vectors, self.constituent_classes, self.documents),
        )


def random_bag(texts: Sequence[Sequence[str]], dim: int, seed: int = 0) -> NDArray[np.float32]:
    """Mean of a random normal vector per word form; (n, dim). Captures word overlap only."""
    ids: dict[str, int] = {}
    words = np.array([ids.setdefault(word, len(ids)) for words in texts for word in words])
    table = np.random.default_rng(seed).standard_normal((len(ids), dim), dtype=np.float32)
    lengths = np.array([len(words) for words in texts])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    means: NDArray[np.float32] = np.add.reduceat(table[words], starts, axis=0) / lengths[:, None]
    return means


def result_table(rows: Sequence[Row]) -> Table:
    """Format the rows with counts and intervals; the last row is chance or the majority class."""
    first = rows[0]
    table = Table(
        title="Held-out documents: per cent, with 95 % intervals over documents",
        caption=f"chance: 1 in {CANDIDATES} for the neighbour; for the probes, always the most frequent class",
    )
    table.add_column("views")
    table.add_column("dim", justify="right", no_wrap=True)
    for heading, found in (
        (f"next sentence\namong {CANDIDATES}\nrecall@1", first.recall),
        ("probe:\nlength\naccuracy", first.length.accuracy),
        ("probe: top\nconstituents\naccuracy", first.constituents.accuracy),
    ):
        table.add_column(f"{heading}\nn = {found.count:,}", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.name, str(row.dim), *map(str, (row.recall, row.length.accuracy, row.constituents.accuracy)))
    table.add_section()
    chance = f"{100 / CANDIDATES:.1f}"
    table.add_row("chance", "", chance, f"{first.length.majority}", f"{first.constituents.majority}")
    return table
