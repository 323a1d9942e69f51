"""One task's scores as a matrix, view by view: on the terminal and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table as RichTable

from structviews import views
from structviews.cache import write_whole
from structviews.errors import InputError
from structviews.evaluation.cells import MISSING
from structviews.evaluation.tables import score_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PICTURES = (".png", ".svg", ".pdf")


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


def view_matrix(runs: Sequence[Path], task: str) -> Matrix:
    """The scores of the runs that have two views.

    Raises:
        InputError: if no such run has a score for the task, or several rows of the table are of one pair.
    """
    table = score_table(runs)
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
    kind = path.suffix.lower()
    if kind not in PICTURES:
        raise InputError(f"{path}: pictures are {', '.join(PICTURES)}; give the file one of these endings")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no folder {path.parent}; make it first")
    try:
        from matplotlib import rc_context  # noqa: PLC0415  only here
    except ImportError:
        raise InputError("--picture needs matplotlib; pip install 'structviews[plots]'") from None
    buffer = BytesIO()
    # No date and no random names in the file, so that equal scores give equal bytes.
    metadata = {".png": None, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[kind]
    with rc_context({"svg.hashsalt": "structviews"}):
        _picture(matrix).savefig(buffer, format=kind[1:], dpi=200, metadata=metadata)
    write_whole(path, lambda file: file.write(buffer.getbuffer()))


def _picture(matrix: Matrix) -> "Picture":
    from matplotlib import colormaps  # noqa: PLC0415  only here
    from matplotlib.figure import Figure  # noqa: PLC0415

    n = len(matrix.views)
    figure = Figure(figsize=(1.9 + 0.9 * n, 1.1 + 0.72 * n), layout="constrained")
    axes = figure.add_subplot()
    colours = colormaps["viridis"].with_extremes(bad="#f0f0f0")
    image = axes.imshow(np.ma.masked_invalid(matrix.values), cmap=colours, aspect="auto")
    axes.set_xticks(range(n), matrix.views)
    axes.set_yticks(range(n), matrix.views)
    axes.set_xticks(np.arange(0.5, n - 1), minor=True)
    axes.set_yticks(np.arange(0.5, n - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(matrix.values):
        # Written on what is drawn: dark on bright cells, bright on dark ones.
        bright = np.isnan(value) or sum(colours(image.norm(value))[:3]) > 1.5
        text = matrix.texts[i][j].replace(" ± ", "\n± ")
        axes.text(j, i, text, ha="center", va="center", color="black" if bright else "white")
    axes.set_title(matrix.task)
    figure.colorbar(image).outline.set_visible(False)
    return figure
