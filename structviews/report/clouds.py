"""Template data for the projections of several runs, side by side."""

from functools import partial
from typing import Any

from structviews.report.projection import SYMBOLS, Classes, Projection, drawn_rows, scatter, style
from structviews.report.sample import Sample
from structviews.runtime import pictures


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
