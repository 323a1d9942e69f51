"""One task's scores as a matrix, view by view: on the terminal and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table as RichTable

from structviews import views
from structviews.errors import InputError
from structviews.evaluation.cells import MISSING
from structviews.evaluation.tables import score_table
from structviews.pictures import write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True)
class Matrix:
    """The scores of pairs of views, which stand on both sides of the diagonal.

    Attributes:
        task: its name.
        views: (V,) names.
        values: (V, V) scores in the units of the table, nan where no run has the pair.
        texts: (V, V) the scores as written.
        notes: what the numbers are, and what is not in the matrix.
    """

    task: str
    views: list[str]
    values: np.ndarray
    texts: list[list[str]]
    notes: list[str]


def view_matrix(runs: Sequence[Path], task: str, *, intervals: bool = False) -> Matrix:
    """The scores of the runs that have two views.

    Args:
        runs: their folders.
        task: whose scores.
        intervals: write the 95 % interval behind each score.

    Raises:
        InputError: if no such run has a score for the task, or several rows of the table are of one pair.
    """
    table = score_table(runs, intervals=intervals)
    tasks = table.header[table.n_fixed :]
    if task not in tasks:
        raise InputError(f"--matrix {task}: no run has a score for it; scored are {', '.join(tasks) or 'none'}")
    pairs: dict[frozenset[str], tuple[str, str, float]] = {}
    left_out = []
    for row in table.runs:
        pair, cell = row.labels[1].split(","), row.cells[tasks.index(task)]
        if len(pair) != 2 or not cell.figures:
            left_out.append(row.labels[0])
            continue
        name, *_ = pairs.setdefault(frozenset(pair), (row.labels[0], str(cell), cell.figures[0].value))
        if name != row.labels[0]:
            raise InputError(
                f"--matrix {task}: {name} and {row.labels[0]} are both of the views {', '.join(pair)}; give one of them"
            )
    if not pairs:
        raise InputError(f"--matrix {task}: no run of two views has a score for it; evaluate one first")
    known = {name: place for place, name in enumerate(views.names())}
    names = sorted(set().union(*pairs), key=lambda name: (known.get(name, len(known)), name))
    values = np.full((len(names), len(names)), np.nan)
    texts = [[MISSING] * len(names) for _ in names]
    for both, (_, text, value) in pairs.items():
        ends = [names.index(name) for name in both]
        for i, j in ((ends[0], ends[-1]), (ends[-1], ends[0])):
            values[i, j], texts[i][j] = value, text
    notes = [
        note for note in table.legend if not note.startswith(tuple(f"{other}*" for other in tasks if other != task))
    ]
    if left_out:
        notes.append(f"not in the matrix, not of two views or without a score: {', '.join(left_out)}")
    return Matrix(task, names, values, texts, notes)


def as_rich(matrix: Matrix) -> RichTable:
    """For a terminal."""
    table = RichTable(title=matrix.task)
    table.add_column("")
    for name in matrix.views:
        table.add_column(name, justify="right", no_wrap=True)
    for name, texts in zip(matrix.views, matrix.texts, strict=True):
        table.add_row(name, *texts)
    return table


def draw(matrix: Matrix, path: Path) -> None:
    """Write the heat map as a picture, of the kind that the file's ending says.

    Raises:
        InputError: for another ending, a folder that is not there, or without matplotlib.
    """
    write_picture(path, lambda: picture(matrix))


def picture(matrix: Matrix) -> "Picture":
    """The heat map, in the colours that matplotlib is set to."""
    from matplotlib import colormaps, rcParams  # noqa: PLC0415  only here
    from matplotlib.figure import Figure  # noqa: PLC0415

    n = len(matrix.views)
    width = 1.1 if any(" [" in text for texts in matrix.texts for text in texts) else 0.9
    figure = Figure(figsize=(1.9 + width * n, 1.1 + 0.72 * n), layout="constrained")
    axes = figure.add_subplot()
    colours = colormaps["viridis"].with_extremes(bad=(0.5, 0.5, 0.5, 0.12))
    image = axes.imshow(np.ma.masked_invalid(matrix.values), cmap=colours, aspect="auto")
    axes.set_xticks(range(n), matrix.views)
    axes.set_yticks(range(n), matrix.views)
    axes.set_xticks(np.arange(0.5, n - 1), minor=True)
    axes.set_yticks(np.arange(0.5, n - 1), minor=True)
    axes.grid(which="minor", color=rcParams["figure.facecolor"], linewidth=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(matrix.values):
        text = matrix.texts[i][j].replace(" ± ", "\n± ").replace(" [", "\n[")
        colour = rcParams["text.color"]
        if not np.isnan(value):  # written on what is drawn: dark on bright cells, bright on dark ones
            colour = "black" if luminance(*colours(image.norm(value))[:3]) > 0.18 else "white"
        axes.text(j, i, text, ha="center", va="center", color=colour)
    axes.set_title(matrix.task)
    figure.colorbar(image).outline.set_visible(False)
    return figure


def luminance(red: float, green: float, blue: float) -> float:
    """How bright a colour looks; from 0.18 on, black stands out from it more than white."""
    return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
