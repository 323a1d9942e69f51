"""Probes: what a linear classifier can read from sentence vectors.

Two of the probes of Conneau et al. (2018, "What you can cram into a single vector"), whose labels
come from the sentences themselves: the class of the sentence's length (SentLen) and the sequence of
constituents below its top clause (TopConst; from Shi, Padhi and Knight, 2016). The trees are those
of the parser, so TopConst measures agreement with the parser, whose errors it contains. All ten, in
files, are made by ``structviews.probing``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structviews.errors import InputError
from structviews.evaluation.intervals import Proportion, proportion
from structviews.probing.labels import top_constituents
from structviews.probing.parses import Parses
from structviews.sentence import ParsedSentence

FOLDS = 5
STRENGTH = 0.01
"""Inverse L2 strength ``C`` on standardised features: chosen for some hundred to a few thousand sentences."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe found.

    Attributes:
        accuracy: of the classifier on sentences of documents it was not fit on.
        majority: of always answering the most frequent class of the same training sentences.
    """

    accuracy: Proportion
    majority: Proportion


def length_classes(sentences: Sequence[ParsedSentence], bins: int = 6) -> NDArray[np.int64]:
    """Class of each sentence by its number of words; (n,), in ``0..bins-1``.

    The classes are as equally frequent as whole numbers of words allow.
    """
    lengths = np.array([len(sentence.tokens) for sentence in sentences])
    edges = np.unique(np.quantile(lengths, np.arange(1, bins) / bins, method="inverted_cdf"))
    return np.searchsorted(edges, lengths, side="left")


def top_constituent_classes(sentences: Sequence[ParsedSentence], frequent: int = 9) -> NDArray[np.int64]:
    """Class of each sentence by its top constituents; (n,), in ``0..frequent``.

    The ``frequent`` most frequent sequences are a class each (the first is class 0) and all others
    are the last class.

    Raises:
        InputError: if a sentence has no constituency tree.
    """
    bare = next((sentence for sentence in sentences if not sentence.has_constituents), None)
    if bare:
        raise InputError(f"no constituency tree for {' '.join(bare.tokens)!r}: parse with one that has them")
    sequences = top_constituents(Parses.of(sentences))
    counts = np.bincount(sequences.ids, minlength=len(sequences.names))
    classes = np.empty(len(counts), dtype=np.int64)
    classes[np.lexsort((sequences.names.astype(str), -counts))] = np.arange(len(counts)).clip(max=frequent)
    return classes[sequences.ids]


def probe(
    vectors: NDArray[np.floating], classes: NDArray[np.integer], documents: NDArray[np.integer], *, folds: int = FOLDS
) -> Probe:
    """Fit a logistic regression on standardised vectors and test it on other documents.

    The documents are dealt into ``folds`` parts of about equal size; each part is predicted by a
    classifier fit on the others, so every sentence is tested once and never with its own document
    in training. The intervals are over documents and do not contain the choice of training
    sentences.

    Args:
        vectors: (n, d) sentence vectors.
        classes: (n,) class of each sentence.
        documents: (n,) document of each sentence.
        folds: number of parts.

    Raises:
        InputError: if a vector is not finite, there are fewer documents than folds, or one class.
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
    """Raise InputError unless there is something to classify and to hold out."""
    if not np.isfinite(vectors).all():
        raise InputError("a sentence vector is not finite: the model has overflowed; train with a lower --lr")
    if len(np.unique(documents)) < folds:
        raise InputError(
            f"{len(np.unique(documents))} documents are too few for {folds} folds: hold out more documents"
        )
    if len(np.unique(classes)) < 2:
        raise InputError("all sentences are of one class: a probe needs at least two; give it more varied sentences")
