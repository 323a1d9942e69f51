"""A run's sentence vectors as a picture or an interactive page."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from structviews import pictures
from structviews.embedder import Embedder
from structviews.evaluation.pool import Pool
from structviews.report import pages
from structviews.report.projection import SYMBOLS, Classes, Projection, drawn_rows, project, scatter, style
from structviews.report.sample import Sample, read_labels, sample_vectors

KINDS = (".png", ".svg", ".html")


def check_out(path: Path) -> None:
    """Raise InputError unless a picture or page of this name can be made."""
    pictures.check_file(path, KINDS)
    if path.suffix.lower() == ".html":
        pages.require_pages(str(path))
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
    """Encode sentences with a run, project them, and draw them.

    Args:
        run: its folder.
        pool: the sentences.
        out: file to write, of one of ``KINDS``.
        labels: file with a label for each line of the pool's text.
        most: how many sentences are drawn at most.
        progress: told the number of sentences encoded and their total.

    Raises:
        InputError: if one of these cannot be read, encoded or written.
    """
    check_out(out)
    sample = Sample.of(pool, most)
    classes = Classes.of_labels(read_labels(labels, pool, sample.rows)) if labels else None
    projection = project(sample_vectors(Embedder.load(run), pool, sample, progress))
    title = f"{run.resolve().name}: {len(sample.texts):,} sentences of {pool.path.name}"
    if out.suffix.lower() == ".html":
        content = {"title": title, **cloud([("", projection)], sample, classes)}
        pages.write_page(out, "projection.html", content)
    else:
        pictures.write_picture(out, lambda: scatter(projection, title, classes))
    return projection, sample


def cloud(projections: list[tuple[str, Projection]], sample: Sample, classes: Classes | None) -> dict[str, Any]:
    """What the templates draw the projections of one sample from: pictures, texts, and the labels' styles.

    Args:
        projections: of each run, with a title.
        sample: the sentences.
        classes: their labels, if they have any.
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
