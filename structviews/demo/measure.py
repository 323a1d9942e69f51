"""The demo's evaluation on held-out documents, and its table.

Next sentences are retrieved, and two probes of Conneau et al. (2018, "What you can cram into a single vector") fitted,
whose labels come from the sentences themselves: sentence length (SentLen) and the sequence of constituents below the
top clause (TopConst; from Shi, Padhi and Knight, 2016). The trees are automatic parses, so TopConst measures agreement
with the parser, including its errors. ``structviews tasks make-probing`` makes all ten tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.evaluation.parses import Parses
from structviews.evaluation.probing.labels import top_constituents
from structviews.evaluation.retrieval.neighbours import CANDIDATES, cosine_scores, neighbour_trials, ranks_of_first
from structviews.evaluation.scores.intervals import Proportion, proportion
from structviews.runtime.terminal import Table, number_table

FOLDS = 5
STRENGTH = 0.01
"""Inverse L2 strength ``C`` for standardised features, chosen for a few hundred to a few thousand sentences."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The accuracy of a probe on held-out documents, and that of always predicting the most frequent training class."""

    accuracy: Proportion
    majority: Proportion


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    name: str
    dim: int
    recall: Proportion
    length: Probe
    constituents: Probe


class Yardstick:
    """The held-out sentences, in corpus order with documents and positions (n,), and the tasks of the table.

    Raises InputError if there are too few sentences or documents.
    """

    def __init__(
        self, sentences: Sequence[ParsedSentence], documents: NDArray[np.integer], positions: NDArray[np.integer]
    ) -> None:
        self.sentences = sentences
        self.documents = documents
        self.positions = positions
        self.trials = neighbour_trials(documents, positions, [s.tokens for s in sentences], seed=0)
        self.length_classes = length_classes(sentences)
        self.constituent_classes = top_constituent_classes(sentences)

    def measure(self, name: str, vectors: NDArray[np.floating]) -> Row:
        """Measure the vectors ``(n, d)`` of the held-out sentences, as the row ``name``."""
        return Row(
            name,
            vectors.shape[1],
            proportion(ranks_of_first(cosine_scores(vectors, self.trials)).recalled(1), self.trials.documents),
            probe(vectors, self.length_classes, self.documents),
            probe(vectors, self.constituent_classes, self.documents),
        )


def length_classes(sentences: Sequence[ParsedSentence], bins: int = 6) -> NDArray[np.int64]:
    """Length class of each sentence; (n,), in ``0..bins-1``; as equal as possible without splitting a length."""
    lengths = np.array([len(sentence.tokens) for sentence in sentences])
    edges = np.unique(np.quantile(lengths, np.arange(1, bins) / bins, method="inverted_cdf"))
    return np.searchsorted(edges, lengths, side="left")


def top_constituent_classes(sentences: Sequence[ParsedSentence], frequent: int = 9) -> NDArray[np.int64]:
    """Class of each sentence by its top constituents; (n,), in ``0..frequent``.

    Each of the ``frequent`` most frequent sequences is a class, the most frequent class 0; all others form the last.
    """
    sequences = top_constituents(Parses.of(sentences))
    counts = np.bincount(sequences.ids, minlength=len(sequences.names))
    classes = np.empty(len(counts), dtype=np.int64)
    classes[np.lexsort((sequences.names.astype(str), -counts))] = np.arange(len(counts)).clip(max=frequent)
    return classes[sequences.ids]


def probe(
    vectors: NDArray[np.floating], classes: NDArray[np.integer], documents: NDArray[np.integer], *, folds: int = FOLDS
) -> Probe:
    """Fit a logistic regression on standardised vectors and test it on other documents.

    Cross-validation by document: each fold is predicted by a classifier fitted on the others, so every sentence is
    tested once, without its own document in training. The intervals are over documents; they do not cover the
    choice of training sentences.

    Of ``vectors`` (n, d), ``classes`` (n,) and ``documents`` (n,). Raises InputError if a vector is not finite, or
    there are fewer documents than folds or fewer than two classes.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  slow to import
    from sklearn.model_selection import GroupKFold  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    if not np.isfinite(vectors).all():
        raise InputError("a sentence vector contains NaN or infinite numbers: train with a lower --lr")
    if (found := len(np.unique(documents))) < folds:
        raise InputError(f"{found} documents are too few for {folds} folds: hold out more documents")
    if len(np.unique(classes)) < 2:
        raise InputError("all sentences have the same class: a probe needs at least two; use more varied sentences")
    correct = np.zeros(len(classes))
    majority = np.zeros(len(classes))
    for train, test in GroupKFold(folds).split(vectors, classes, documents):
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=1000))
        correct[test] = classifier.fit(vectors[train], classes[train]).predict(vectors[test]) == classes[test]
        majority[test] = np.bincount(classes[train]).argmax() == classes[test]
    return Probe(proportion(correct, documents), proportion(majority, documents))


def random_bag(texts: Sequence[Sequence[str]], dim: int) -> NDArray[np.float32]:
    """Mean of a random normal vector per word form; (n, dim). Captures word overlap only."""
    ids: dict[str, int] = {}
    words = np.array([ids.setdefault(word, len(ids)) for words in texts for word in words])
    table = np.random.default_rng(0).standard_normal((len(ids), dim), dtype=np.float32)
    lengths = np.array([len(words) for words in texts])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return np.add.reduceat(table[words], starts, axis=0) / lengths[:, None]


def result_table(rows: Sequence[Row]) -> Table:
    """Format the rows with counts and intervals; the last row is chance or the majority class."""
    first = rows[0]
    measured = {
        f"next sentence\namong {CANDIDATES}\nrecall@1": first.recall,
        "probe:\nlength\naccuracy": first.length.accuracy,
        "probe: top\nconstituents\naccuracy": first.constituents.accuracy,
    }
    table = number_table(
        ["views"],
        ["dim", *(f"{heading}\nn = {found.count:,}" for heading, found in measured.items())],
        title="Held-out documents: per cent, with 95 % intervals over documents",
        caption=f"chance: 1 in {CANDIDATES} for the neighbour; for the probes, always the most frequent class",
    )
    for row in rows:
        table.add_row(row.name, str(row.dim), *map(str, (row.recall, row.length.accuracy, row.constituents.accuracy)))
    table.add_section()
    chance = f"{100 / CANDIDATES:.1f}"
    table.add_row("chance", "", chance, f"{first.length.majority}", f"{first.constituents.majority}")
    return table
