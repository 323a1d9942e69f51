"""Sample sentences, project their vectors to two dimensions, and plot them as a picture or a page made from a template.

Shapes: n sentences, d dimensions of a vector.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool
from structviews.runtime import pictures
from structviews.runtime.files import text_lines, write_output
from structviews.runtime.machine import require
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
    """A sample of a pool's sentences: their rows ``(n,)`` in the pool, ascending, as text, and as encoder input."""

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

    Raises InputError if the file cannot be read, or does not have a label for each of the sentences.
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


class Projection(NamedTuple):
    """Points ``(n, 2)`` in two dimensions, and a description of the projection method."""

    points: np.ndarray
    method: str


def project(vectors: np.ndarray, seed: int = 1) -> Projection:
    """Project vectors ``(n, d)``, float32, to two dimensions: by UMAP where umap-learn is installed, else by PCA.

    UMAP (McInnes et al., 2018) preserves cosine neighbourhoods. It needs more than 15 sentences; for fewer, PCA is
    used. The result is deterministic for a given seed. InputError if there are fewer than three vectors.
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
    """The labels of sentences: their names, and the index ``(n,)`` of each sentence's label in these."""

    names: list[str]
    of: np.ndarray

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> "Classes":
        """Classes from one label per sentence, the most frequent first."""
        counts = Counter(labels)
        names = sorted(counts, key=lambda name: (-counts[name], name))
        number = {name: i for i, name in enumerate(names)}
        return cls(names, np.array([number[label] for label in labels]))

    def legend(self) -> list[dict[str, Any]]:
        """Template data: name, colour and symbol of each class."""
        styles = ((name, *style(i)) for i, name in enumerate(self.names))
        return [{"name": name, "colour": colour, "symbol": SYMBOLS[marker]} for name, colour, marker in styles]

    def content(self) -> dict[str, Any]:
        """Template data of the colouring by class."""
        return {"values": self.of.tolist(), "classes": self.legend()}


class Scale(NamedTuple):
    """Numbers that colours stand for, from ``low`` to ``high``; ``values`` are ``(n,)`` integers."""

    values: np.ndarray
    low: int
    high: int

    @property
    def is_cut(self) -> bool:
        """Whether there are higher numbers."""
        return bool(self.values.max() > self.high)

    def content(self) -> dict[str, Any]:
        """Template data of the colouring by number."""
        return {"values": self.values.tolist(), "low": self.low, "high": self.high, "cut": self.is_cut}


def colourings(pool: Pool, sample: Sample, labels: list[str] | None) -> dict[str, Classes | Scale]:
    """What the sentences of a sample may be coloured by, beginning with what is shown at first.

    ``labels`` has one for each, if there are any.
    """
    lengths = np.array([len(text.split()) for text in sample.texts])
    documents = pool.documents[sample.rows]
    numbers, of = np.unique(documents, return_inverse=True)
    found: dict[str, Classes | Scale] = {}
    if labels:
        found["label"] = Classes.of_labels(labels)
    if 1 < len(numbers) <= MOST_CLASSES:
        found["document"] = Classes([f"document {number}" for number in numbers], of)
    found["length in words"] = Scale(lengths, int(lengths.min()), int(np.percentile(lengths, CUT)))
    if len(numbers) > MOST_CLASSES:
        found["document"] = Scale(documents, int(documents.min()), int(documents.max()))
    return found


def style(number: int) -> tuple[int, int]:
    """Colour and marker index of a class; the first 30 combinations are distinct."""
    return number % len(COLOURS), number // len(COLOURS) % len(MARKERS)


def drawn_rows(n: int, classes: Classes | None) -> list[np.ndarray]:
    """The rows of n sentences in drawing order: class by class."""
    return [np.flatnonzero(classes.of == i) for i in range(len(classes.names))] if classes else [np.arange(n)]


def scatter(
    projection: Projection, title: str, name: str = "", by: Classes | Scale | None = None, *, legend: bool = True
) -> "Figure":
    """Scatter plot, coloured ``by`` what ``name`` says, if anything."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    figure = Figure(figsize=(6.4, 4.8) if legend else (4.8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    classes = by if isinstance(by, Classes) else None
    look: dict[str, Any] = {"s": 14 if len(projection.points) <= 2000 else 5, "alpha": 0.75, "linewidths": 0}
    for number, rows in enumerate(drawn_rows(len(projection.points), classes)):
        colour, marker = style(number)
        gid = f"points c{number % len(COLOURS)} l{number}"
        label = classes.names[number] if classes else None
        look |= {"color": COLOURS[colour], "marker": MARKERS[marker], "label": label, "gid": gid}
        axes.scatter(*projection.points[rows].T, clip_on=False, **look)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_alpha(0.3)
    axes.set_title(fill(title, TITLE), fontsize=11)
    axes.set_xlabel(projection.method, fontsize=9)
    if classes and legend:
        figure.legend(loc="outside right upper", frameon=False, markerscale=1.6)
    if isinstance(by, Scale):
        (points,) = axes.collections
        points.set(array=by.values, cmap="plasma_r", clim=(by.low, by.high))
        figure.colorbar(points, label=name, shrink=0.6, extend="max" if by.is_cut else "neither")
    return figure


def check_out(path: Path) -> None:
    """Raise InputError unless a picture or page can be written to ``path``."""
    pictures.check_file(path, KINDS)
    package, extra = ("jinja2", "report") if path.suffix.lower() == ".html" else ("matplotlib", "plots")
    require(package, str(path), extra)


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
    """Encode at most ``most`` sentences with a run, project the vectors to two dimensions, and plot them.

    ``out`` ends in one of ``KINDS``; the file ``labels`` has one label per line of the pool's text. Raises InputError
    if a file cannot be read or written, or a sentence cannot be encoded.
    """
    sample = Sample.of(pool, most)
    colours = colourings(pool, sample, read_labels(labels, pool, sample.rows) if labels else None)
    embedder = Embedder.load(run, precision=precision)
    projection = project(pool.encode(embedder, sample.rows, sample.sentences, progress))
    title = f"{run.resolve().name}: {counted(len(sample.texts), 'sentence')} of {pool.path.name}"
    if out.suffix.lower() == ".html":
        write_page(out, "projection.html", page_content(title, projection, pool, sample, colours))
    else:
        pictures.write_picture(out, partial(scatter, projection, title, *next(iter(colours.items()))))
    return projection, sample


def page_content(
    title: str, projection: Projection, pool: Pool, sample: Sample, colours: dict[str, Classes | Scale]
) -> dict[str, Any]:
    """Template data of the page: points in a square from 0 to 1, with y downwards, their sentences and colourings."""
    points = projection.points - projection.points.min(0)
    points = points / (points.max() or 1)
    points[:, 1] = points[:, 1].max() - points[:, 1]
    x, y = points.T.astype(float).round(4).tolist()
    texts, lines = [pool.shown(row) for row in sample.rows], pool.lines[sample.rows].tolist()
    named = [{"name": name, **by.content()} for name, by in colours.items()]
    data = {"x": x, "y": y, "texts": texts, "lines": lines, "colourings": named}
    return {"title": title, "method": projection.method, "data": data}


def write_page(path: Path, template: str, content: Mapping[str, Any]) -> None:
    """Render a template of this package's ``templates`` folder and write it atomically.

    All of ``content`` is escaped, except what the template calls safe.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  an extra

    how: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader("structviews.report"), autoescape=True, **how)
    page = environment.get_template(template).render(content, n_colours=len(COLOURS), version=version("structviews"))
    write_output(path, page.encode())
