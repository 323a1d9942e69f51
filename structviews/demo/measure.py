"""The demo's evaluation on held-out documents, and its table.

Next sentences are retrieved: as training asks for it, one view of the next sentence by the other view of this one; and
by the joined vectors of both. Two probes of Conneau et al. (2018, "What you can cram into a single vector") are fitted,
whose labels come from the sentences themselves: sentence length (SentLen) and the sequence of constituents below the
top clause (TopConst; from Shi, Padhi and Knight, 2016). The trees are automatic parses, so TopConst measures agreement
with the parser, including its errors. ``structviews tasks make-probing`` makes all ten tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.evaluation.parses import Parses
from structviews.evaluation.probing.labels import top_constituents
from structviews.evaluation.retrieval.neighbours import cosine_scores, ranks_of_first
from structviews.evaluation.retrieval.next_sentence import Passages
from structviews.evaluation.scores.intervals import Proportion, proportion
from structviews.runtime.arrays import Array, starts_of
from structviews.runtime.terminal import Table, number_table

CANDIDATES = 100
LENGTHS, SEQUENCES = 6, 9  # classes of length, and sequences of constituents that have a class of their own
FOLDS = 5
STRENGTH = 0.01
"""Inverse L2 strength ``C`` for standardised features, chosen for a few hundred to a few thousand sentences."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The accuracy of a probe on held-out documents, and that of always predicting the most frequent training class."""

    accuracy: Proportion
    majority: Proportion


class Row(NamedTuple):
    """One row of the table; a bag of words has no two views."""

    name: str
    across: Proportion | None
    joined: Proportion
    length: Probe
    constituents: Probe


class Yardstick:
    """The held-out sentences, and the tasks of the table; InputError if there are too few sentences or documents."""

    def __init__(self, passages: Passages) -> None:
        self.passages = passages
        self.trials = passages.trials(CANDIDATES)
        self.length_classes = length_classes(passages.sentences)
        self.constituent_classes = top_constituent_classes(passages.sentences)

    def measure(self, name: str, *views: Array) -> Row:
        """Measure the vectors ``(n, d)`` of the held-out sentences by one or two views, as the row ``name``."""
        vectors = np.concatenate(views, axis=1)
        both = (self.length_classes, self.constituent_classes)
        length, constituents = (probe(vectors, classes, self.passages.documents) for classes in both)
        across = self.recalled(views, views[::-1]) if len(views) > 1 else None
        return Row(name, across, self.recalled([vectors], [vectors]), length, constituents)

    def recalled(self, anchors: Sequence[Array], candidates: Sequence[Array]) -> Proportion:
        """Recall at 1 of the next sentence, the mean over several kinds of vectors."""
        scores = (cosine_scores(*each, self.trials) for each in zip(anchors, candidates, strict=True))
        found = np.mean([ranks_of_first(each).recalled(1) for each in scores], axis=0)
        return proportion(found, self.trials.documents)


def length_classes(sentences: Sequence[ParsedSentence]) -> Array:
    """Length class of each sentence; (n,); as equal as possible without splitting a length."""
    lengths = np.array([len(sentence.tokens) for sentence in sentences])
    edges = np.unique(np.quantile(lengths, np.arange(1, LENGTHS) / LENGTHS, method="inverted_cdf"))
    return np.searchsorted(edges, lengths, side="left")


def top_constituent_classes(sentences: Sequence[ParsedSentence]) -> Array:
    """Class of each sentence by its top constituents; (n,); the most frequent is class 0, all rare ones the last."""
    sequences = top_constituents(Parses.of(sentences))
    counts = np.bincount(sequences.ids, minlength=len(sequences.names))
    classes = np.empty(len(counts), dtype=np.int64)
    classes[np.lexsort((sequences.names.astype(str), -counts))] = np.arange(len(counts)).clip(max=SEQUENCES)
    return classes[sequences.ids]


def probe(vectors: Array, classes: Array, documents: Array, folds: int = FOLDS) -> Probe:
    """Fit a logistic regression on standardised vectors and test it on other documents.

    Cross-validation by document: each fold is predicted by a classifier fitted on the others, so every sentence is
    tested once, without its own document in training. The intervals are over documents; they do not cover the choice of
    training sentences. Of ``vectors`` (n, d), ``classes`` (n,) and ``documents`` (n,). Raises InputError if a vector is
    not finite, or there are fewer documents than folds or fewer than two classes.
    """
    from sklearn.dummy import DummyClassifier  # noqa: PLC0415  slow to import
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import GroupKFold, cross_val_predict  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    if not np.isfinite(vectors).all():
        raise InputError("a sentence vector contains NaN or infinite numbers: train with a lower --lr")
    if (found := len(np.unique(documents))) < folds:  # examples have fewer
        raise InputError(f"{found} documents are too few for {folds} folds: hold out more documents")
    if len(np.unique(classes)) < 2:
        raise InputError("all sentences have the same class: a probe needs at least two; use more varied sentences")
    fitted = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=1000))
    predicted = (
        cross_val_predict(each, vectors, classes, groups=documents, cv=GroupKFold(folds))
        for each in (fitted, DummyClassifier(strategy="most_frequent"))
    )
    return Probe(*(proportion(each == classes, documents) for each in predicted))


def random_bag(texts: Sequence[Sequence[str]], dim: int) -> Array:
    """Mean of a random normal vector per word form; (n, dim). Captures word overlap only."""
    ids: dict[str, int] = {}
    words = np.array([ids.setdefault(word, len(ids)) for words in texts for word in words])
    table = np.random.default_rng(0).standard_normal((len(ids), dim), dtype=np.float32)
    lengths = np.array([len(words) for words in texts])
    return np.add.reduceat(table[words], starts_of(lengths), axis=0) / lengths[:, None]


def result_table(rows: Sequence[Row]) -> Table:
    """Format the rows, each with half of its interval; the last row is chance or the majority class."""
    first = rows[0]
    table = number_table(
        ["views"],
        ["across\nviews", "joined\nviews", "length", "top con-\nstituents"],
        title="Next sentence and probes on held-out documents",
        caption=f"per cent ± half of a 95 % interval over documents: the next sentence is found first among "
        f"{CANDIDATES} (n = {first.joined.count:,}); accuracy of probes (n = {first.length.accuracy.count:,})",
    )
    for name, across, joined, length, constituents in rows:
        table.add_row(name, *map(_cell, (across, joined, length.accuracy, constituents.accuracy)))
    table.add_section()
    chance = f"{100 / CANDIDATES:.1f}     "
    table.add_row("chance", chance, chance, _cell(first.length.majority), _cell(first.constituents.majority))
    return table


def _cell(found: Proportion | None) -> str:
    return f"{100 * found.value:.1f} ±{50 * (found.high - found.low):4.1f}" if found else ""
