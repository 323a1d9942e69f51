"""Plot a run's sentence vectors as a picture or an interactive page."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval.candidates import Pool
from structviews.report import html
from structviews.report.projection import (
    SYMBOLS,
    Classes,
    Projection,
    drawn_rows,
    project,
    scatter,
    style,
)
from structviews.report.sample import Sample, read_labels, sample_vectors
from structviews.runtime import pictures
from structviews.runtime.wording import counted

KINDS = (".png", ".svg", ".html")


def check_out(path: Path) -> None:
    """Raise InputError unless a picture or page can be written to ``path``."""
    pictures.check_file(path, KINDS)
    if path.suffix.lower() == ".html":
        html.require_pages(str(path))
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
) -> tuple[Projection, Sample]:
    """Encode sentences with a run, project the vectors to two dimensions, and plot them.

    Args:
        run: run folder.
        pool: the sentences.
        out: file to write; its ending must be one of ``KINDS``.
        labels: file with one label per line of the pool's text.
        most: maximum number of sentences to plot.
        progress: called with the number of sentences encoded and the total.

    Raises:
        InputError: if a file cannot be read or written, or a sentence cannot be encoded.
    """
    check_out(out)
    sample = Sample.of(pool, most)
    classes = Classes.of_labels(read_labels(labels, pool, sample.rows)) if labels else None
    projection = project(sample_vectors(Embedder.load(run), pool, sample, progress))
    title = f"{run.resolve().name}: {counted(len(sample.texts), 'sentence')} of {pool.path.name}"
    if out.suffix.lower() == ".html":
        content = {"title": title, **cloud([("", projection)], sample, classes)}
        html.write_page(out, "projection.html", content)
    else:
        pictures.write_picture(out, lambda: scatter(projection, title, classes))
    return projection, sample


def cloud(projections: list[tuple[str, Projection]], sample: Sample, classes: Classes | None) -> dict[str, Any]:
    """Template data for the projections of one sample: plots, texts and label styles.

    Args:
        projections: title and projection of each run.
        sample: the sentences.
        classes: their labels, if any.
    """
    from markupsafe import Markup  # noqa: PLC0415  comes with jinja2

    drawn = []
    for title, projection in projections:
        draw = partial(scatter, projection, title, classes, legend=False)
        svg = pictures.inline_svg(draw, f"projection {title}".strip())
        drawn.append(Markup(svg))
    order = [int(row) for rows in drawn_rows(len(sample.texts), classes) for row in rows]
    styles = [style(i) for i in range(len(classes.names))] if classes else []
    return {
        "clouds": drawn,
        "points": {
            "order": order,
            "texts": sample.texts,
            "labels": [classes.names[i] for i in classes.of] if classes else [],
        },
        "labels": [
            {"name": name, "colour": colour, "symbol": SYMBOLS[marker]}
            for name, (colour, marker) in zip(classes.names if classes else [], styles, strict=True)
        ],
    }
