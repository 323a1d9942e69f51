"""Sentences in the plane: their vectors projected to two dimensions, and drawn.

Shapes: n sentences, d length of a vector.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from structviews.errors import InputError
from structviews.pictures import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEIGHBOURS = 15
"""How many of a sentence's neighbours UMAP wants to keep near it; its default."""
# What stands for a class in matplotlib, and in text.
MARKERS, SYMBOLS = "o^sDv", "●▲■◆▼"


class Projection(NamedTuple):
    """Points in the plane.

    Attributes:
        points: ``(n, 2)``.
        method: how they were found.
    """

    points: np.ndarray
    method: str


def project(vectors: np.ndarray, seed: int = 1) -> Projection:
    """Project vectors ``(n, d)`` to two dimensions: by UMAP where umap-learn is installed, else by PCA.

    UMAP (McInnes et al., 2018) keeps neighbours by cosine together, which takes more than 15 sentences; of fewer,
    PCA is made in any case. The same vectors and seed give the same points.

    Args:
        vectors: float32.
        seed: of UMAP.

    Raises:
        InputError: if there are fewer than three.
    """
    if len(vectors) < 3:
        raise InputError(f"{len(vectors)} different sentences are too few for a picture: give at least 3")
    if len(vectors) > NEIGHBOURS and find_spec("umap"):
        return Projection(_umap(vectors, seed), "UMAP by cosine")
    from sklearn.decomposition import PCA  # noqa: PLC0415  slow to import

    with np.errstate(invalid="ignore"):  # shares of no variance
        pca = PCA(2, svd_solver="full").fit(vectors)
    share = np.nan_to_num(pca.explained_variance_ratio_.sum())
    return Projection(pca.transform(vectors), f"PCA, {share:.0%} of the variance".replace("%", " %"))


def _umap(vectors: np.ndarray, seed: int) -> np.ndarray:
    import warnings  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seed means one thread
        from umap import UMAP  # noqa: PLC0415  an extra, slow to import

        return np.asarray(UMAP(n_neighbors=NEIGHBOURS, metric="cosine", random_state=seed).fit_transform(vectors))


class Classes(NamedTuple):
    """The labels of sentences.

    Attributes:
        names: of the labels, the most frequent first.
        of: ``(n,)`` which of them each sentence has.
    """

    names: list[str]
    of: np.ndarray

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> "Classes":
        """The classes of a label for each sentence."""
        names, of, sizes = np.unique(np.asarray(labels, dtype=object), return_inverse=True, return_counts=True)
        order = np.argsort(-sizes, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return cls([str(names[i]) for i in order], place[of])

    def rows(self) -> list[np.ndarray]:
        """The sentences of each class."""
        return [np.flatnonzero(self.of == i) for i in range(len(self.names))]


def style(number: int) -> tuple[int, int]:
    """Places of a class' colour and marker; no two of the first 30 classes have both in common."""
    return number % len(COLOURS), number // len(COLOURS) % len(MARKERS)


def drawn_rows(n: int, classes: Classes | None) -> list[np.ndarray]:
    """The rows of n sentences as ``scatter`` draws them: class after class."""
    return classes.rows() if classes else [np.arange(n)]


def scatter(projection: Projection, title: str, classes: Classes | None, *, legend: bool = True) -> "Figure":
    """Draw points, coloured by class.

    Args:
        projection: where they are.
        title: of the picture.
        classes: their labels, if they have any.
        legend: whether the classes are named beside the points.
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
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(projection.method, fontsize=9)
    if classes and legend:
        figure.legend(loc="outside right upper", frameon=False, markerscale=1.6)
    return figure
