"""The scores on the report page: the runs' own, those of papers, and heat maps of the pairs of views."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from structviews.errors import InputError
from structviews.evaluation.scores import heatmap
from structviews.evaluation.scores.rendering import MARKS, has_marks, html_table, side_by_side
from structviews.evaluation.scores.tables import ScoreTable, score_table
from structviews.runtime import pictures

# The fewest pairs of views that a heat map compares.
PAIRS = 2


def scores(runs: Sequence[Path]) -> dict[str, Any]:
    """The table of the runs."""
    every = score_table(runs, intervals=True)
    tasks = scored_tasks(every)
    if not tasks:
        return {"tables": [], "missing": every.notes}
    own = score_table(runs, tasks=tasks, intervals=True)
    return {
        "tables": drawn(own),
        "marks": MARKS if has_marks(own) else "",
        "notes": own.legend,
        "unscored": every.notes,
        "missing": [],
    }


def published(runs: Sequence[Path]) -> dict[str, Any]:
    """The papers' scores on the tasks of the runs."""
    own = score_table(runs)
    tasks = scored_tasks(own)
    papers = score_table([], tasks=tasks, published=True)
    if not tasks or not papers.published:
        return {"tables": [], "missing": ["no paper has a score on the tasks of these runs"]}
    table = replace(papers, header=["model", "paper, table", *papers.header[2:]])
    return {"tables": drawn(table), "notes": [note for note in papers.legend if note not in own.legend], "missing": []}


def scored_tasks(table: ScoreTable) -> list[str]:
    """The tasks that a run has a score for."""
    tasks = table.header[table.n_fixed :]
    return [task for i, task in enumerate(tasks) if any(row.cells[i].figures for row in table.runs)]


def drawn(table: ScoreTable) -> list[Any]:
    """A table as HTML, in parts that fit the page's width."""
    from markupsafe import Markup  # noqa: PLC0415  comes with jinja2

    return [Markup(html_table(table, part)) for part in side_by_side(table)]


def pairs_of_views(runs: Sequence[Path]) -> dict[str, Any]:
    """A heat map for each task that several pairs of views are scored on."""
    from markupsafe import Markup  # noqa: PLC0415  comes with jinja2

    matrices = []
    why_not: dict[str, None] = {}
    for task in scored_tasks(score_table(runs)):
        try:
            matrix = heatmap.view_matrix(runs, task)
        except InputError as error:
            why_not[str(error).removeprefix(f"--matrix {task}: ")] = None
            continue
        if matrix.n_pairs >= PAIRS:
            matrices.append(Markup(pictures.inline_svg(partial(heatmap.picture, matrix), f"{task} by views")))
    if not matrices and not why_not:
        why_not["give the runs of several pairs of views, with scores"] = None
    missing = [f"no heat map: {why}" for why in why_not]
    return {"matrices": matrices, "note": heatmap.SCALE_NOTE, "missing": missing}
