"""Sample sentences, project their vectors to two dimensions, and plot them as a picture, a page or a part of a report.

Shapes: n sentences, d dimensions of a vector.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.representation import check_finite
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool
from structviews.report import html
from structviews.runtime import pictures
from structviews.runtime.files import text_lines
from structviews.runtime.pictures import COLOURS
from structviews.runtime.terminal import OnProgress
from structviews.runtime.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEIGHBOURS = 15
"""UMAP's ``n_neighbors``, at its default."""
KINDS = (".png", ".svg", ".html")
MOST_CLASSES = 12
"""Documents that still get a colour of their own; more of them are a scale, from the first to the last."""
CUT = 98
"""Percentile at which a scale ends, so that one long sentence does not make all others look short."""
# Characters of a plot's title in a line.
TITLE = 50
# Class symbols, in matplotlib and in text.
MARKERS, SYMBOLS = "o^sDv", "●▲■◆▼"


class Sample(NamedTuple):
    """A sample of a pool's sentences.

    Attributes:
        rows: ``(n,)`` rows in the pool, ascending.
        texts: the sentences as text.
        sentences: the sentences as encoder input.
    """

    rows: np.ndarray
    texts: list[str]
    sentences: list[Sentence]

    @classmethod
    def of(cls, pool: Pool, most: int) -> "Sample":
        """All distinct sentences of a pool, or at most ``most`` evenly spaced ones."""
        rows = np.unique(np.linspace(0, len(pool) - 1, min(most, len(pool))).round().astype(np.int64))
        sentences = [sentence for row in rows for sentence in pool.sentences(row, row + 1)]
        return cls(rows, [pool.texts[row] for row in rows], sentences)


def read_labels(path: Path, pool: Pool, rows: np.ndarray) -> list[str]:
    """Read the labels of some rows of a pool from a file with one label per line of the source text.

    Raises:
        InputError: if the file cannot be read, is too short, is longer than a text with one sentence per line, or lacks
            a label for one of the sentences.
    """
    lines = text_lines(path)
    found = pool.lines[rows]
    if pool.path.is_file() and len(lines) > (n := len(text_lines(pool.path))):
        raise InputError(f"{path}: {len(lines)} lines, but {pool.path} has {n}: give one label per line of that text")
    if found.max() > len(lines):
        raise InputError(
            f"{path}: {len(lines)} lines, but a sentence of {pool.path} is from line {found.max()} of its text: "
            "give one label per line of that text"
        )
    labels = [lines[line - 1].strip() for line in found]
    if "" in labels:
        raise InputError(f"{path}:{found[labels.index('')]}: no label, but {pool.path} has a sentence from that line")
    return labels


def prepared(sentences: Sequence[Sentence], embedders: Sequence[Embedder]) -> Sequence[Sentence]:
    """Parse the sentences once if all runs share an installed parser; otherwise return them unchanged.

    In that case each run parses them itself, or reports why it cannot.
    """
    reading = [embedder for embedder in embedders if embedder.parsers]
    if len({repr(parser) for embedder in reading for parser in embedder.parsers}) != 1:
        return sentences
    try:
        return reading[0].preparer.prepare(sentences, frozenset().union(*(embedder.needs for embedder in reading)))
    except InputError:
        return sentences


def sample_vectors(embedder: Embedder, pool: Pool, sample: Sample, progress: OnProgress | None = None) -> np.ndarray:
    """Vectors ``(n, d)`` of a sample.

    Raises:
        InputError: if a sentence cannot be encoded or its vector is not finite; names the sentence's place.
    """
    with pool.naming(sample.rows):
        vectors = embedder.encode(sample.sentences, show_progress_bar=progress)
        check_finite(vectors)
    return vectors


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # UMAP warns that a seed implies one thread
            from umap import UMAP  # noqa: PLC0415  an extra, slow to import

            umap = UMAP(n_neighbors=NEIGHBOURS, metric="cosine", random_state=seed)
            return Projection(np.asarray(umap.fit_transform(vectors)), "UMAP by cosine")
    from sklearn.decomposition import PCA  # noqa: PLC0415  slow to import

    with np.errstate(invalid="ignore"):  # without variance, the ratios are 0 / 0
        pca = PCA(2, svd_solver="full").fit(vectors)
    share = np.nan_to_num(pca.explained_variance_ratio_.sum())
    return Projection(pca.transform(vectors), f"PCA, {share:.0%} of the variance".replace("%", " %"))


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
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return cls([str(names[i]) for i in order], rank[of])

    def legend(self) -> list[dict[str, Any]]:
        """Template data: name, colour and symbol of each class."""
        styles = (style(number) for number in range(len(self.names)))
        return [
            {"name": name, "colour": colour, "symbol": SYMBOLS[marker]}
            for name, (colour, marker) in zip(self.names, styles, strict=True)
        ]


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


def style(number: int) -> tuple[int, int]:
    """Colour and marker index of a class; the first 30 combinations are distinct."""
    return number % len(COLOURS), number // len(COLOURS) % len(MARKERS)


def drawn_rows(n: int, classes: Classes | None) -> list[np.ndarray]:
    """The rows of n sentences in drawing order: class by class."""
    return [np.flatnonzero(classes.of == i) for i in range(len(classes.names))] if classes else [np.arange(n)]


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


def cloud(projections: list[tuple[str, Projection]], sample: Sample, classes: Classes | None) -> dict[str, Any]:
    """Template data for the projections of one sample: plots, texts and label styles.

    Args:
        projections: title and projection of each run.
        sample: the sentences.
        classes: their labels, if any.
    """
    drawn = []
    for title, projection in projections:
        draw = partial(scatter, projection, title, classes, legend=False)
        svg = pictures.inline_svg(draw, f"projection {title}".strip())
        drawn.append(html.markup(svg))
    order = [int(row) for rows in drawn_rows(len(sample.texts), classes) for row in rows]
    return {
        "clouds": drawn,
        "points": {
            "order": order,
            "texts": sample.texts,
            "labels": [classes.names[i] for i in classes.of] if classes else [],
        },
        "labels": classes.legend() if classes else [],
    }


def check_out(path: Path) -> None:
    """Raise InputError unless a picture or page can be written to ``path``."""
    pictures.check_file(path, KINDS)
    if path.suffix.lower() == ".html":
        html.require_templates(str(path))
    else:
        pictures.require_matplotlib(str(path))


def draw_run(
    run: Path,
    pool: Pool,
    out: Path,
    *,
    labels: Path | None = None,
    most: int,
    progress: OnProgress | None = None,
    precision: str = "auto",
) -> tuple[Projection, Sample]:
    """Encode sentences with a run, project the vectors to two dimensions, and plot them.

    Args:
        run: run folder.
        pool: the sentences.
        out: file to write; its ending must be one of ``KINDS``.
        labels: file with one label per line of the pool's text.
        most: maximum number of sentences to plot.
        progress: called with the number of sentences encoded and the total.
        precision: see ``Embedder.load``.

    Raises:
        InputError: if a file cannot be read or written, or a sentence cannot be encoded.
    """
    check_out(out)
    sample = Sample.of(pool, most)
    colours = colourings(pool, sample, read_labels(labels, pool, sample.rows) if labels else None)
    embedder = Embedder.load(run, precision=precision)
    projection = project(sample_vectors(embedder, pool, sample, progress))
    title = f"{run.resolve().name}: {counted(len(sample.texts), 'sentence')} of {pool.path.name}"
    if out.suffix.lower() == ".html":
        html.write_page(out, "projection.html", page_content(title, projection, pool, sample, colours))
    else:
        pictures.write_picture(out, lambda: coloured(projection, title, colours[0]))
    return projection, sample


def coloured(projection: Projection, title: str, colouring: Colouring) -> "Figure":
    """The scatter plot in the colours of a colouring, with their legend."""
    if isinstance(colouring.by, Classes):
        return scatter(projection, title, colouring.by)
    figure = scatter(projection, title, None)
    (points,) = figure.axes[0].collections
    points.set(array=colouring.by.values, cmap="plasma_r", clim=(colouring.by.low, colouring.by.high))
    figure.colorbar(points, label=colouring.name, shrink=0.6, extend="max" if colouring.by.is_cut else "neither")
    return figure


def page_content(
    title: str, projection: Projection, pool: Pool, sample: Sample, colours: list[Colouring]
) -> dict[str, Any]:
    """Template data of the page: points in a square from 0 to 1, with y downwards, and what is known of them."""
    points = projection.points - projection.points.min(0)
    points = points / (points.max() or 1)
    points[:, 1] = points[:, 1].max() - points[:, 1]
    x, y = points.T.astype(float).round(4).tolist()
    return {
        "title": title,
        "method": projection.method,
        "data": {
            "x": x,
            "y": y,
            "texts": [pool.shown(row) for row in sample.rows],
            "lines": pool.lines[sample.rows].tolist(),
            "colourings": [{"name": each.name, **colouring_content(each.by)} for each in colours],
        },
    }


def colouring_content(by: Classes | Scale) -> dict[str, Any]:
    """Template data of a colouring: an index into named classes for each sentence, or a number."""
    if isinstance(by, Scale):
        return {"values": by.values.tolist(), "low": by.low, "high": by.high, "cut": by.is_cut}
    return {"values": by.of.tolist(), "classes": by.legend()}
