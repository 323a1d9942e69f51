"""``structviews table`` and ``compare``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import console, explain, inform, say, write
from structviews.cli.which_runs import Run, Runs
from structviews.errors import InputError

PANEL = "Evaluation"
app = typer.Typer()


class TableFormat(StrEnum):
    """Formats of ``structviews table``."""

    rich = "rich"
    md = "md"
    csv = "csv"
    latex = "latex"
    html = "html"


@app.command("table")
def table_of_runs(
    runs: Runs,
    format: Annotated[TableFormat, typer.Option(help="How to print the table.")] = TableFormat.rich,
    intervals: Annotated[bool, typer.Option("--intervals", help="Add each score's 95 % confidence interval.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Add the papers' published results, set apart.")
    ] = False,
    matrix: Annotated[
        str | None, typer.Option(metavar="TASK", help="Show one task's scores as a matrix of views.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the matrix to a .png, .svg or .pdf file.", show_default=False)
    ] = None,
) -> None:
    """Print the scores of runs, one row per run, or of one task as a matrix of views.

    Example: structviews table runs --format latex --published > table.tex

    Example: structviews table runs --matrix SICK-R --picture sick-r.svg
    """
    if matrix:
        if intervals or published or format != "rich":
            raise InputError("--matrix takes no option but --picture: leave out --format, --intervals and --published")
        print_matrix(runs, matrix, picture)
    elif picture:
        raise InputError(f"--picture {picture}: draws a single task: choose it with --matrix TASK")
    else:
        print_scores(runs, format, intervals, published)


def print_scores(runs: list[Path], format: str, intervals: bool = False, published: bool = False) -> None:
    """Print the table on stdout; with csv its legend and notes go to stderr."""
    from structviews.evaluation.scores import rendering
    from structviews.evaluation.scores.tables import score_table

    table = score_table(runs, intervals=intervals, published=published)
    written = {
        "md": rendering.as_markdown,
        "csv": rendering.as_csv,
        "latex": rendering.as_latex,
        "html": rendering.as_html,
    }
    if format in written:
        write(written[format](table))
    else:
        console.print(*rendering.as_rich(table, console.width), sep="\n")
    if format == "csv":
        for remark in (*table.legend, *table.notes):
            inform(remark)
    if format == "rich":
        for remark in table.legend:
            explain(remark)
        for note in table.notes:  # unbroken, for the commands in them
            say(note)


def print_matrix(runs: list[Path], task: str, picture: Path | None) -> None:
    """Print a task's scores as a matrix of views, and draw them if ``picture`` is given."""
    from structviews.evaluation.scores import heatmap

    matrix = heatmap.view_matrix(runs, task)
    if picture:
        heatmap.draw(matrix, picture)
    console.print(heatmap.as_rich(matrix))
    for remark in matrix.notes:
        explain(remark)


@app.command("compare")
def compare_two(
    first: Run,
    second: Run,
) -> None:
    """Test whether two runs' scores differ significantly, on every task that both have.

    Example: structviews compare runs/dep-const runs/seq-seq
    """
    from structviews.evaluation.scores import compare

    comparison = compare.compare_runs(first, second)
    console.print(compare.as_rich(comparison))
    for remark in comparison.notes:
        explain(remark)
