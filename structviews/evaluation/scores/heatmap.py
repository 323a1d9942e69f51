"""Scores on one task as a matrix of view pairs, on the terminal and as a heat map."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from structviews.errors import InputError
from structviews.evaluation.scores.tables import MISSING, score_table
from structviews.runtime.terminal import Table, number_table
from structviews.views import VIEWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

SCALE = 10  # the narrowest colour scale, in points
SCALE_NOTE = (
    f"Each colour scale spans at least {SCALE} points and twice the widest 95 % interval of its scores, so that a "
    "difference within chance looks small."
)


@dataclass(frozen=True)
class Matrix:
    """Scores of pairs of V views on a task, as a symmetric matrix."""

    task: str
    views: list[str]
    values: np.ndarray  # (V, V), in the units of the table, NaN where no run has the pair
    texts: list[list[str]]  # (V, V), as printed
    interval: float  # width of the widest 95 % interval of the scores, 0 if none is known
    n_pairs: int  # pairs with a score
    notes: list[str]  # explanation of the numbers, and what is not in the matrix

    @property
    def scale(self) -> tuple[float, float]:
        """The scores at the ends of the colour scale: see ``SCALE_NOTE``."""
        low, high = float(np.nanmin(self.values)), float(np.nanmax(self.values))
        margin = max(0.0, SCALE - (high - low), 2 * self.interval - (high - low)) / 2
        above = max(0.0, high + margin - 100)
        return low - margin - above, high + margin - above


def view_matrix(runs: Sequence[Path], task: str) -> Matrix:
    """The matrix of scores of the runs with two views on a task, named in any case.

    InputError if no such run has a score for the task, or several rows of the table have the same pair.
    """
    table = score_table(runs)
    tasks, scored = table.tasks, table.scored_tasks
    task = next((name for name in scored if name.lower() == task.lower()), task)
    if task not in scored:
        raise InputError(f"--matrix {task}: no run has a score for it; scored tasks: {', '.join(scored) or 'none'}")
    pairs: dict[frozenset[str], tuple[str, str, float]] = {}
    left_out = []
    widest = 0.0
    for row in table.runs:
        pair, cell = row.labels[1].split(","), row.cells[tasks.index(task)]
        if len(pair) != 2 or not cell.figures:
            left_out.append(row.labels[0])
            continue
        low, high = cell.figures[0].interval or (0.0, 0.0)
        widest = max(widest, high - low)
        name, *_ = pairs.setdefault(frozenset(pair), (row.labels[0], str(cell), cell.figures[0].value))
        if name != row.labels[0]:
            rows = f"{name} and {row.labels[0]}"
            raise InputError(f"--matrix {task}: {rows} have the same views {', '.join(pair)}; give one of them")
    if not pairs:
        raise InputError(f"--matrix {task}: no run with two views has a score for this task; evaluate one first")
    order = {name: number for number, name in enumerate(VIEWS)}
    names = sorted(set().union(*pairs), key=lambda name: (order.get(name, len(order)), name))
    values = np.full((len(names), len(names)), np.nan)
    texts = [[MISSING] * len(names) for _ in names]
    for both, (_, text, value) in pairs.items():
        ends = [names.index(name) for name in both]
        for i, j in ((ends[0], ends[-1]), (ends[-1], ends[0])):
            values[i, j], texts[i][j] = value, text
    notes = score_table(runs, tasks=[task]).legend
    if left_out:
        notes.append(f"not in the matrix (not two views, or no score): {', '.join(left_out)}")
    return Matrix(task, names, values, texts, widest, len(pairs), notes)


def as_rich(matrix: Matrix) -> Table:
    """The matrix as a terminal table."""
    table = number_table([""], matrix.views, title=matrix.task)
    for name, texts in zip(matrix.views, matrix.texts, strict=True):
        table.add_row(name, *texts)
    return table


def picture(matrix: Matrix) -> "Picture":
    """The heat map, in matplotlib's configured colours."""
    from matplotlib import colormaps, rcParams  # noqa: PLC0415  only here
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    n = len(matrix.views)
    figure = Figure(figsize=(1.4 + 0.9 * n, 0.9 + 0.55 * n), layout="constrained")
    axes = figure.add_subplot()
    colours = colormaps["viridis"].with_extremes(bad=(0.5, 0.5, 0.5, 0.12))
    low, high = matrix.scale
    image = axes.imshow(np.ma.masked_invalid(matrix.values), cmap=colours, vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(n), matrix.views)
    axes.set_yticks(range(n), matrix.views)
    axes.set_xticks(np.arange(0.5, n - 1), minor=True)
    axes.set_yticks(np.arange(0.5, n - 1), minor=True)
    axes.grid(which="minor", color=rcParams["figure.facecolor"], linewidth=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(matrix.values):
        text = matrix.texts[i][j].replace(" ± ", "\n± ")
        colour = rcParams["text.color"]
        if not np.isnan(value):  # text on a coloured cell: dark on bright, bright on dark
            luminance = np.dot((0.2126, 0.7152, 0.0722), np.power(colours(image.norm(value))[:3], 2.2))
            colour = "black" if luminance > 0.18 else "white"
        axes.text(j, i, text, ha="center", va="center", color=colour)
    axes.set_title(matrix.task)
    bar = figure.colorbar(image, fraction=0.06, pad=0.03, aspect=15, ticks=MaxNLocator(5, integer=True))
    bar.outline.set_visible(False)
    return figure
