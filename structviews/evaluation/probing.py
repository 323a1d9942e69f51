"""Probes: what a linear classifier can read from sentence vectors.

Two of the probes of Conneau et al. (2018, "What you can cram into a single vector"), whose labels
come from the sentences themselves: the class of the sentence's length (SentLen) and the sequence of
constituents below its top clause (TopConst; from Shi, Padhi and Knight, 2016). The trees are those
of the parser, so TopConst measures agreement with the parser, whose errors it contains.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structviews.errors import InputError
from structviews.evaluation.intervals import Proportion, proportion
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
    """Class of each sentence by its :func:`top_constituents`; (n,), in ``0..frequent``.

    The ``frequent`` most frequent sequences are a class each (the first is class 0) and all others
    are the last class.
    """
    sequences = [top_constituents(sentence) for sentence in sentences]
    counts = sorted(Counter(sequences).items(), key=lambda item: (-item[1], item[0]))
    classes = {sequence: number for number, (sequence, _) in enumerate(counts[:frequent])}
    return np.array([classes.get(sequence, frequent) for sequence in sequences])


def top_constituents(sentence: ParsedSentence) -> tuple[str, ...]:
    """Labels of what stands directly below the clause at the root, such as ``("NP", "VP", ".")``.

    Nodes that exist only through binarisation are dissolved, and a word without a constituent of its
    own gives its tag. Where the root is a unary chain (``S+VP``), the clause has one child.

    Raises:
        InputError: if the sentence has no constituency tree.
    """
    if not sentence.has_constituents:
        raise InputError(f"no constituency tree for {' '.join(sentence.tokens)!r}: parse with one that has them")
    n = len(sentence.tokens)
    _, *below = sentence.labels[-1].split("+")
    if below:
        return (below[0],)
    if n == 1:
        return (tag(sentence, 0),)
    found = []
    waiting = [sentence.right[-1], sentence.left[-1]]
    while waiting:
        node = waiting.pop()
        label = sentence.labels[node].split("+")[0]
        if label:
            found.append(label)
        elif node < n:
            found.append(tag(sentence, node))
        else:
            waiting += [sentence.right[node - n], sentence.left[node - n]]
    return tuple(found)


def tag(sentence: ParsedSentence, word: int) -> str:
    """The word's part of speech, or the word itself where the parser gave none."""
    return sentence.tags[word] if sentence.tags else sentence.tokens[word]


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
