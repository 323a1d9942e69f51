"""The pictures of the study's pages."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from training_figures import STYLE

from pairs.draws import LEVELS, MEAN, Draws, Estimate
from pairs.plan import Row
from structviews.runtime.pictures import COLOURS, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXIS = "mean of the tasks"


def write(path: Path, name: str, make: Callable[[], "Figure"]) -> None:
    """Save a picture, in the colours of these pages' other ones."""
    start, rest = inline_svg(make, name).split("\n", 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{start}\n{STYLE}{rest}", encoding="utf-8")


def intervals(found: Mapping[Row, Estimate], marked: Sequence[Row]) -> "Figure":
    """A point with its interval for each row, the best on top; ``marked`` rows in another colour."""
    rows = sorted(found, key=lambda row: found[row].value)
    figure, axes = axes_of(0.24 * len(rows) + 0.9)
    for place, row in enumerate(rows):
        each = found[row]
        colour = COLOURS[3] if row in marked else COLOURS[0]
        axes.plot([each.low, each.high], [place, place], color=colour, linewidth=1.5)
        axes.plot([each.value], [place], "o", color=colour, markersize=4)
    axes.set_yticks(range(len(rows)), [row.title for row in rows], fontsize=8)
    axes.set_xlabel(AXIS)
    axes.grid(axis="x", alpha=0.25)
    return figure


def lines(
    draws: Draws, series: Mapping[str, Mapping[Row, float]], label: str, *, fitted: Sequence[str] = (), far: float = 0
) -> "Figure":
    """Points with intervals over numbers; ``fitted`` series have a line with its 95 % band, up to ``far``.

    Numbers on a scale of sizes are given as their logarithms to the base 10.
    """
    figure, axes = axes_of(3.8)
    for number, (name, rows) in enumerate(series.items()):
        colour = COLOURS[number]
        for row, x in rows.items():
            each = draws.estimate(row, MEAN)
            axes.plot([x, x], [each.low, each.high], color=colour, linewidth=1.5)
        axes.plot(list(rows.values()), [draws.of(row, MEAN)[0] for row in rows], "o", color=colour, label=name)
        if name in fitted:
            ends = np.linspace(min(rows.values()), far or max(rows.values()), 40)
            band = fit(draws, rows, MEAN) @ np.stack([np.ones_like(ends), ends])
            low, high = np.percentile(band[1:], LEVELS, axis=0)
            axes.plot(ends, band[0], color=colour, linewidth=1)
            axes.fill(np.r_[ends, ends[::-1]], np.r_[low, high[::-1]], color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel(label)
    axes.set_ylabel(AXIS)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False)
    return figure


def fit(draws: Draws, rows: Mapping[Row, float], score: str) -> np.ndarray:
    """Least squares of a score on a number, for each draw: ``(1 + B, 2)``, the constant and the slope."""
    table = np.stack([np.ones(len(rows)), list(rows.values())], axis=1)
    found: np.ndarray = (np.linalg.pinv(table) @ np.stack([draws.of(row, score) for row in rows])).T
    return found


def axes_of(height: float) -> "tuple[Figure, Axes]":
    """A figure with one panel."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
