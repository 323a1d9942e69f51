"""Probes: what a linear classifier can predict from sentence vectors.

Two of the probes of Conneau et al. (2018, "What you can cram into a single vector"), whose labels come from the
sentences themselves: sentence length (SentLen) and the sequence of constituents below the top clause (TopConst; from
Shi, Padhi and Knight, 2016). The trees are automatic parses, so TopConst measures agreement with the parser, including
its errors. All ten tasks are written to files by ``structviews.evaluation.probing.making``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.evaluation.probing.labels import top_constituents
from structviews.evaluation.probing.parses import Parses
from structviews.evaluation.scores.intervals import Proportion, proportion

FOLDS = 5
STRENGTH = 0.01
"""Inverse L2 strength ``C`` for standardised features, chosen for a few hundred to a few thousand sentences."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a probe.

    Attributes:
        accuracy: accuracy of the classifier on held-out documents.
        majority: accuracy of always predicting the most frequent class of the training sentences.
    """

    accuracy: Proportion
    majority: Proportion


def length_classes(sentences: Sequence[ParsedSentence], bins: int = 6) -> NDArray[np.int64]:
    """Length class of each sentence; (n,), in ``0..bins-1``.

    The classes are as equal in size as possible without splitting a length.
    """
    lengths = np.array([len(sentence.tokens) for sentence in sentences])
    edges = np.unique(np.quantile(lengths, np.arange(1, bins) / bins, method="inverted_cdf"))
    return np.searchsorted(edges, lengths, side="left")


def top_constituent_classes(sentences: Sequence[ParsedSentence], frequent: int = 9) -> NDArray[np.int64]:
    """Class of each sentence by its top constituents; (n,), in ``0..frequent``.

    Each of the ``frequent`` most frequent sequences is a class (the most frequent is class 0); all others form the
    last class.

    Raises:
        InputError: if a sentence has no constituency tree.
    """
    bare = next((sentence for sentence in sentences if not sentence.has_constituents), None)
    if bare:
        raise InputError(f"no constituency tree for {' '.join(bare.tokens)!r}: use a constituency parser")
    sequences = top_constituents(Parses.of(sentences))
    counts = np.bincount(sequences.ids, minlength=len(sequences.names))
    classes = np.empty(len(counts), dtype=np.int64)
    classes[np.lexsort((sequences.names.astype(str), -counts))] = np.arange(len(counts)).clip(max=frequent)
    found: NDArray[np.int64] = classes[sequences.ids]
    return found


def probe(
    vectors: NDArray[np.floating], classes: NDArray[np.integer], documents: NDArray[np.integer], *, folds: int = FOLDS
) -> Probe:
    """Fit a logistic regression on standardised vectors and test it on other documents.

    Cross-validation by document: each fold is predicted by a classifier fitted on the others, so every sentence is
    tested once, without its own document in training. The intervals are over documents; they do not cover the
    choice of training sentences.

    Args:
        vectors: (n, d) sentence vectors.
        classes: (n,) class of each sentence.
        documents: (n,) document of each sentence.
        folds: number of folds.

    Raises:
        InputError: if a vector is not finite, or there are fewer documents than folds or fewer than two classes.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  slow to import
    from sklearn.model_selection import GroupKFold  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    check_probe(vectors, classes, documents, folds)
    correct = np.zeros(len(classes))
    majority = np.zeros(len(classes))
    for train, test in GroupKFold(folds).split(vectors, classes, documents):
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=1000))
        correct[test] = classifier.fit(vectors[train], classes[train]).predict(vectors[test]) == classes[test]
        majority[test] = np.bincount(classes[train]).argmax() == classes[test]
    return Probe(proportion(correct, documents), proportion(majority, documents))


def check_probe(
    vectors: NDArray[np.floating], classes: NDArray[np.integer], documents: NDArray[np.integer], folds: int
) -> None:
    """Raise InputError if a vector is not finite, or there are too few documents or classes."""
    if not np.isfinite(vectors).all():
        raise InputError("a sentence vector contains NaN or infinite numbers: train with a lower --lr")
    if len(np.unique(documents)) < folds:
        raise InputError(
            f"{len(np.unique(documents))} documents are too few for {folds} folds: hold out more documents"
        )
    if len(np.unique(classes)) < 2:
        raise InputError("all sentences have the same class: a probe needs at least two; use more varied sentences")
