"""``structviews table`` and ``compare``."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import console, errors, explain, say, write
from structviews.cli.options import Run, Runs, Seed, named_run, names_in, one_run, only_corpus
from structviews.errors import InputError
from structviews.runs.bundled import typed

app = typer.Typer()
# The most sentences of each kind of perturbation, unless asked otherwise.
MOST_ALTERED = 2_000


class TableFormat(StrEnum):
    """Formats of ``structviews table``."""

    rich = "rich"
    md = "md"
    latex = "latex"


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
    """Print the scores of runs, a row each, or of one task.

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
    """Print the table on stdout, with its legend and notes."""
    from structviews.evaluation.scores import rendering
    from structviews.evaluation.scores.tables import score_table

    table = score_table(runs, intervals=intervals, published=published)
    if format == "md":
        write(rendering.as_markdown(table))
    elif format == "latex":
        write(rendering.as_latex(table))
    else:
        console.print(*rendering.as_rich(table, console.width), sep="\n")
        for remark in table.legend:
            explain(remark)
        for note in table.notes:  # unbroken, for the commands in them
            say(note)


def print_matrix(runs: list[Path], task: str, picture: Path | None) -> None:
    """Print a task's scores as a matrix of views, and draw them if ``picture`` is given."""
    from structviews.evaluation.scores import heatmap
    from structviews.runtime.pictures import write_picture

    matrix = heatmap.view_matrix(runs, task)
    if picture:
        write_picture(picture, lambda: heatmap.picture(matrix))
    console.print(heatmap.as_rich(matrix))
    for remark in matrix.notes:
        explain(remark)


@app.command("compare")
def compare_two(
    first: Run,
    second: Annotated[
        Path | None,
        typer.Argument(
            help="The run to compare it with; with --by it may be left out.",
            show_default=False,
            parser=named_run,
            callback=one_run,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="Compare what the views notice, not scores: comma-separated perturbations, or all.",
            show_default=False,
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(help="With --by: a parsed corpus of English.", show_default="the only *.parsed here"),
    ] = None,
    sentences: Annotated[
        int | None,
        typer.Option(min=2, help="With --by: most sentences of each kind.", show_default=str(MOST_ALTERED)),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="With --by: print this many examples of each kind.")] = 0,
    seed: Seed = 1,
) -> None:
    """Test on which tasks the scores of two runs differ.

    With --by, alter the sentences of a corpus by rules over their trees, and measure how far each view's vectors move,
    of one run or of two.

    Example: structviews compare runs/dep-const runs/seq-seq

    Example: structviews compare default --by passive,swapped-arguments --corpus corpus.parsed --show 3
    """
    from structviews.evaluation.scores import compare

    if by is not None:
        runs = [first, second] if second else [first]
        corpus, most = corpus or only_corpus("choose one with --corpus"), sentences or MOST_ALTERED
        compare_by(runs, names_in(by), corpus, most, show, seed)
        return
    for option, value in (("--corpus", corpus), ("--sentences", sentences), ("--show", show)):
        if value:
            raise InputError(f"{option} {value}: only with --by, which names perturbations, such as --by all")
    if not second:
        raise InputError(f"{typed(first)}: give a second run to compare its scores with, or --by with perturbations")
    comparison = compare.compare_runs(first, second)
    console.print(compare.as_rich(comparison))
    for remark in comparison.notes:
        explain(remark)


def compare_by(runs: list[Path], names: Sequence[str], corpus: Path, most: int, show: int, seed: int) -> None:
    """Print how far altered sentences of a corpus are from their originals, by kind and view."""
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.perturbing import noticing
    from structviews.runtime.terminal import rate_bar

    kinds = noticing.chosen_kinds(names)
    samples = noticing.draw(ParsedCorpus.open(corpus), kinds, most, seed)
    found = []
    for run in runs:
        with rate_bar(errors, typed(run), "sentences") as progress:
            progress.stage("loading")
            found.append(noticing.notice(Embedder.load(run), samples, progress))
    for sample in samples if show else ():
        for line in noticing.examples(sample, show):
            say(line)
    two = len(runs) == 2
    console.print(noticing.as_rich(noticing.rows_of_runs(samples, found), two))
    named = [f"A: {typed(runs[0])}; B: {typed(runs[1])}"] if two else []
    names_found = {sample.name for sample in samples}
    left_out = [name for name in noticing.with_contrasts(kinds) if name not in names_found]
    missing = [f"fewer than two sentences: {', '.join(left_out)}"] if left_out else []
    for remark in [*named, *noticing.NOTES, *(noticing.NOTES_OF_TWO if two else ()), *missing]:
        explain(remark)
