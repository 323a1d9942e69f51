"""What the points of a projection can be coloured by.

Shape: n sentences.
"""

from typing import NamedTuple

import numpy as np

from structviews.evaluation.retrieval.candidates import Pool
from structviews.report.projection import Classes
from structviews.report.sample import Sample

MOST_CLASSES = 12
"""Documents that still get a colour of their own; more of them are a scale, from the first to the last."""
CUT = 98
"""Percentile at which a scale ends, so that one long sentence does not make all others look short."""


class Scale(NamedTuple):
    """Numbers that colours stand for, from ``low`` to ``high``; ``values`` are ``(n,)`` integers."""

    values: np.ndarray
    low: int
    high: int

    @property
    def is_cut(self) -> bool:
        """Whether there are higher numbers."""
        return bool(self.values.max() > self.high)


class Colouring(NamedTuple):
    """A way to colour points: by classes, or by a number."""

    name: str
    by: Classes | Scale


def colourings(pool: Pool, sample: Sample, labels: list[str] | None) -> list[Colouring]:
    """The colourings that sentences have, that which is shown at first coming first.

    Args:
        pool: the sentences.
        sample: those that are drawn.
        labels: a label for each of these, if there are any.
    """
    lengths = np.array([len(pool.texts[row].split()) for row in sample.rows])
    documents = pool.documents[sample.rows]
    by_length = Colouring("length in words", Scale(lengths, int(lengths.min()), int(np.percentile(lengths, CUT))))
    n_documents = len(np.unique(documents))
    found = [by_length]
    if 1 < n_documents <= MOST_CLASSES:
        names, of = np.unique(documents, return_inverse=True)
        found.insert(0, Colouring("document", Classes([f"document {name}" for name in names], of)))
    elif n_documents > MOST_CLASSES:
        found.append(Colouring("document", Scale(documents, int(documents.min()), int(documents.max()))))
    if labels:
        found.insert(0, Colouring("label", Classes.of_labels(labels)))
    return found
