"""Plot a run's sentence vectors as a picture or an interactive page."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval.candidates import Pool
from structviews.report import html
from structviews.report.colourings import Colouring, Scale, colourings
from structviews.report.projection import SYMBOLS, Classes, Projection, project, scatter, style
from structviews.report.sample import Sample, read_labels, sample_vectors
from structviews.runtime import pictures
from structviews.runtime.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".html")


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
    progress: Callable[[int, int], None] | None = None,
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
    styles = [style(i) for i in range(len(by.names))]
    names = [
        {"name": name, "colour": colour, "symbol": SYMBOLS[marker]}
        for name, (colour, marker) in zip(by.names, styles, strict=True)
    ]
    return {"values": by.of.tolist(), "classes": names}
