"""How far the vectors of altered sentences are from those of the originals, for each view of a run.

Shapes: n sentences of a sample, d dimensions of a vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.evaluation.perturbing.altered import Sample
from structviews.evaluation.scores.intervals import Difference, Proportion, holm, mean_difference, proportion
from structviews.runtime.arrays import Array
from structviews.runtime.terminal import OnProgress

WHOLE = "all views"
"""The name of the vector that ``encode`` returns, beside those of the views."""
# Sums in another order make equal bags differ a little: distances below this are 0, and those as close are equal.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Moved:
    """How far altered sentences are from their originals, and how far those are from one another.

    Attributes:
        distances: (n,) 1 - cos(original, altered).
        others: (n,) mean of 1 - cos(original, t) over the other originals t of the sample.
    """

    distances: Array
    others: Array

    @property
    def relative(self) -> Array:
        """(n,) the distances as shares of those to other sentences."""
        shares: Array = self.distances / self.others
        return shares


@dataclass(frozen=True)
class Row:
    """One measure of one view, for one run or two.

    Attributes:
        what: the sample's name.
        view: name of the view, or ``WHOLE``.
        found: the mean with its interval, of each run that has the view, by the run's place.
        difference: the paired difference of two runs, if both have the view.
        adjusted: its p by Holm's method.
    """

    what: str
    view: str
    found: dict[int, Proportion]
    difference: Difference | None = None
    adjusted: float | None = None


def moved_by(original: Array, altered: Array) -> Moved:
    """Distances of vectors (n, d), n at least 2, by cosine; a vector of zeros is at distance 1 from all others."""
    original, altered = (_units(vectors) for vectors in (original, altered))
    total = original.sum(axis=0)
    own = np.einsum("nd,nd->n", original, original)
    others = 1 - (original @ total - own) / (len(original) - 1)
    distances = 1 - np.einsum("nd,nd->n", original, altered)
    return Moved(np.where(distances <= ROUNDING, 0, distances), np.maximum(others, ROUNDING))


def notice(
    embedder: Embedder, samples: Sequence[Sample], progress: OnProgress | None = None
) -> list[dict[str, list[Moved]]]:
    """How far each sample's sentences move, by view.

    Originals and altered sentences are both given as words, so that the run's parser makes the trees of both.

    Args:
        embedder: a run.
        samples: the sentences, at least two in each sample.
        progress: called with the number of sentences encoded and the total.

    Returns:
        For each sample, what each of its kinds does, by the view's name; first that of ``WHOLE``.
    """
    texts = [[sample.originals, *sample.altered] for sample in samples]
    total, done, found = sum(len(form) for forms in texts for form in forms), 0, []
    for forms in texts:

        def told(now: int, _: int, before: int = done) -> None:
            if progress:
                progress(before + now, total)

        sentences = [words for form in forms for words in form]
        views = embedder.encode_views(sentences, progress=told)
        named = {WHOLE: embedder.joined(views), **dict(zip(embedder.view_names, views, strict=True))}
        parts = {name: np.split(vectors, len(forms)) for name, vectors in named.items()}
        found.append(
            {name: [moved_by(original, each) for each in altered] for name, (original, *altered) in parts.items()}
        )
        done += len(sentences)
    return found


def rows_of_runs(samples: Sequence[Sample], runs: Sequence[Sequence[Mapping[str, Sequence[Moved]]]]) -> list[Row]:
    """The table of one run, or of two with their differences: each sample, for each view.

    Args:
        samples: the sentences.
        runs: for each run, what ``notice`` returns.
    """
    views = list(dict.fromkeys(view for run in runs for view in run[0]))
    rows = []
    for number, sample in enumerate(samples):
        for view in views:
            values = {k: outcomes(run[number][view]) for k, run in enumerate(runs) if view in run[number]}
            rows.append(_row(sample.name, view, values, sample.documents))
    adjusted = iter(holm([row.difference.p for row in rows if row.difference]))
    return [replace(row, adjusted=next(adjusted)) if row.difference else row for row in rows]


def outcomes(moved: Sequence[Moved]) -> Array:
    """(n,) the relative distances of one kind; of a contrast, whether the first kind's form is nearer."""
    return moved[0].relative if len(moved) == 1 else nearer(*(each.distances for each in moved))


def nearer(keeping: Array, changing: Array) -> Array:
    """(n,) 1 where the first distance is smaller, 0 where it is larger, a half where they are equal up to rounding."""
    gaps = changing - keeping
    won: Array = np.where(np.abs(gaps) <= ROUNDING, 0.5, (gaps > 0).astype(float))
    return won


def _row(what: str, view: str, values: Mapping[int, Array], documents: Array) -> Row:
    """Means with their intervals; if all sentences are of one document, the bootstrap draws sentences."""
    if len(np.unique(documents)) < 2:
        documents = np.arange(len(documents))
    found = {k: proportion(each, documents) for k, each in values.items()}
    difference = mean_difference(values[0], values[1], documents) if len(values) == 2 else None
    return Row(what, view, found, difference)


def _units(vectors: Array) -> Array:
    """The vectors (n, d) at length 1, in double precision."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    units: Array = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return units
