"""Project sentence vectors to two dimensions and plot them.

Shapes: n sentences, d dimensions of a vector.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from structviews.errors import InputError
from structviews.runtime.pictures import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEIGHBOURS = 15
"""UMAP's ``n_neighbors``, at its default."""
# Characters of a plot's title in a line.
TITLE = 50
# Class symbols, in matplotlib and in text.
MARKERS, SYMBOLS = "o^sDv", "●▲■◆▼"


class Projection(NamedTuple):
    """A two-dimensional projection.

    Attributes:
        points: ``(n, 2)``.
        method: description of the projection method.
    """

    points: np.ndarray
    method: str


def project(vectors: np.ndarray, seed: int = 1) -> Projection:
    """Project vectors ``(n, d)`` to two dimensions: by UMAP where umap-learn is installed, else by PCA.

    UMAP (McInnes et al., 2018) preserves cosine neighbourhoods. It needs more than 15 sentences; for fewer, PCA is
    used. The result is deterministic for a given seed.

    Args:
        vectors: float32.
        seed: random seed of UMAP.

    Raises:
        InputError: if there are fewer than three vectors.
    """
    if len(vectors) < 3:
        raise InputError(f"{len(vectors)} distinct sentences are too few to plot: give at least 3")
    if len(vectors) > NEIGHBOURS and find_spec("umap"):
        return Projection(_umap(vectors, seed), "UMAP by cosine")
    from sklearn.decomposition import PCA  # noqa: PLC0415  slow to import

    with np.errstate(invalid="ignore"):  # without variance, the ratios are 0 / 0
        pca = PCA(2, svd_solver="full").fit(vectors)
    share = np.nan_to_num(pca.explained_variance_ratio_.sum())
    return Projection(pca.transform(vectors), f"PCA, {share:.0%} of the variance".replace("%", " %"))


def _umap(vectors: np.ndarray, seed: int) -> np.ndarray:
    import warnings  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # UMAP warns that a seed implies one thread
        from umap import UMAP  # noqa: PLC0415  an extra, slow to import

        return np.asarray(UMAP(n_neighbors=NEIGHBOURS, metric="cosine", random_state=seed).fit_transform(vectors))


class Classes(NamedTuple):
    """The labels of sentences.

    Attributes:
        names: the labels, most frequent first.
        of: ``(n,)`` index of each sentence's label in ``names``.
    """

    names: list[str]
    of: np.ndarray

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> "Classes":
        """Build classes from one label per sentence."""
        names, of, sizes = np.unique(np.asarray(labels, dtype=object), return_inverse=True, return_counts=True)
        order = np.argsort(-sizes, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return cls([str(names[i]) for i in order], place[of])

    def rows(self) -> list[np.ndarray]:
        """Row indices of each class."""
        return [np.flatnonzero(self.of == i) for i in range(len(self.names))]


def style(number: int) -> tuple[int, int]:
    """Colour and marker index of a class; the first 30 combinations are distinct."""
    return number % len(COLOURS), number // len(COLOURS) % len(MARKERS)


def drawn_rows(n: int, classes: Classes | None) -> list[np.ndarray]:
    """The rows of n sentences in drawing order: class by class."""
    return classes.rows() if classes else [np.arange(n)]


def scatter(projection: Projection, title: str, classes: Classes | None, *, legend: bool = True) -> "Figure":
    """Scatter plot, coloured by class.

    Args:
        projection: the points.
        title: title of the plot.
        classes: labels of the points, if any.
        legend: whether to draw a legend of the classes.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    figure = Figure(figsize=(6.4, 4.8) if legend else (4.8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    size = 14 if len(projection.points) <= 2000 else 5
    for number, rows in enumerate(drawn_rows(len(projection.points), classes)):
        colour, marker = style(number)
        name = classes.names[number] if classes else None
        x, y = projection.points[rows].T
        gid = f"points c{number % len(COLOURS)} l{number}"
        look: dict[str, Any] = {
            "s": size,
            "color": COLOURS[colour],
            "marker": MARKERS[marker],
            "alpha": 0.75,
            "linewidths": 0,
        }
        axes.scatter(x, y, label=name, clip_on=False, gid=gid, **look)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_alpha(0.3)
    axes.set_title(fill(title, TITLE), fontsize=11)
    axes.set_xlabel(projection.method, fontsize=9)
    if classes and legend:
        figure.legend(loc="outside right upper", frameon=False, markerscale=1.6)
    return figure
