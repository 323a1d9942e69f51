"""The score table: one row per run, one column per task."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from structviews.evaluation.scores.figures import BEST, MISSING, TIE, Cell, Figure
from structviews.evaluation.scores.published import published_legend, published_rows
from structviews.evaluation.scores.results import CAPTION_TASK, all_results
from structviews.evaluation.senteval.protocols.senteval_protocol import SENTEVAL
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.finding import task_names
from structviews.evaluation.senteval.tasks.probing import PROBING
from structviews.runs.bundled import typed
from structviews.runs.config import loose_settings
from structviews.runs.settings_file import read_settings, run_kind, run_views

PARTIAL = "*"
# In the description of vectors, see ``Embedder.description``.
HALF = "bf16"
FIXED = ("run", "views", "dim")
COUNT = "n"
SEEDS = "runs that differ only in their seed share a row: mean ± sample standard deviation over n runs"
INTERVALS = "[low, high]: 95 % bootstrap interval over the test examples; for several runs, the mean of their intervals"
Scored = tuple[Path, dict[str, Any] | None]
# What the numbers of some tasks are; those of all others are accuracies.
ACCURACY = "accuracy in percent"
MEANINGS = {
    ("MRPC",): "accuracy/F1",
    ("SICK-R", "STS-B"): "Pearson x 100, supervised",
    ("STS12", "STS13", "STS14", "STS15", "STS16"): (
        "Pearson x 100 of cosines, unweighted mean over the year's data sets"
    ),
    ("SICK14", "STS-B-cos"): "Pearson x 100 of the test pairs' cosines",
    (CAPTION_TASK,): "R@1 of captions by image/of images by caption",
}


@dataclass(frozen=True)
class Row:
    """The labels of a row, and one cell per task."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def texts(self) -> list[str]:
        """All columns as plain text."""
        return [*self.labels, *map(str, self.cells)]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of several runs, ready to print.

    Attributes:
        header: column names: run, views, dimensions, number of runs if any row has several, tasks.
        runs: one row per run and representation, or per group of runs that differ only in their seed; ``-`` for a
            missing score, ``*`` after a score on part of a task.
        published: rows from papers.
        legend: explanation of the numbers.
        notes: the reason for each missing score.
    """

    header: list[str]
    runs: list[Row]
    published: list[Row]
    legend: list[str]
    notes: list[str]

    @property
    def rows(self) -> list[list[str]]:
        """The rows of the runs as plain text."""
        return [row.texts for row in self.runs]

    @property
    def n_fixed(self) -> int:
        """Number of columns before the tasks."""
        return len(FIXED) + (self.header[len(FIXED) :][:1] == [COUNT])


def score_table(
    runs: Sequence[Path], *, tasks: Collection[str] = (), intervals: bool = False, published: bool | str = False
) -> ScoreTable:
    """Read the runs' ``config.toml`` and ``results.json`` into a table.

    Args:
        runs: the runs' folders.
        tasks: tasks to show; by default all that any run was evaluated on.
        intervals: append the 95 % interval to each score.
        published: add rows from papers with a score for one of the tasks; or those of the model with this name.

    Raises:
        InputError: if a folder is not a run, or one of its files cannot be read.
    """
    for run in runs:
        run_views(run)
    scored: list[Scored] = []
    for run in runs:
        scored += [(run, result) for result in all_results(run)] or [(run, None)]
    scored = _named_where_they_differ(scored)
    groups = _by_settings(scored)
    counted = any(len(group) > 1 for group in groups)
    asked = {name for _, result in scored if result for name in (*result["tasks"], *result["unavailable"])}
    tasks = in_order(tasks or asked)
    rows = [
        Row(
            (
                _group_name(group),
                _views_cell(group[0][0]),
                _dimension(next((result for _, result in group if result), None)),
                *([str(len(group))] if counted else []),
            ),
            tuple(_cell(name, [result for _, result in group], intervals) for name in tasks),
        )
        for group in groups
    ]
    legend = meanings([name for i, name in enumerate(tasks) if any(row.cells[i].figures for row in rows)])
    if counted and tasks:
        legend.append(SEEDS)
    if intervals and any(figure.interval for row in rows for cell in row.cells for figure in cell.figures):
        legend.append(INTERVALS)
    legend += [note for _, result in scored if result for note in partial_notes(result, tasks)]
    legend += grid_end_notes([result for _, result in scored if result], tasks)
    papers = [row for row in published_rows(tasks) if published in (True, row.name)]
    legend += published_legend(papers)
    empty = ("",) if counted else ()
    return ScoreTable(
        [*FIXED, *([COUNT] if counted else []), *tasks],
        _marked(rows),
        [Row((row.name, row.source(tasks), row.dim, *empty), tuple(map(row.cell, tasks))) for row in papers],
        list(dict.fromkeys(legend)),
        list(dict.fromkeys(note for run, result in scored for note in _notes(run, result, tasks))),
    )


def meanings(tasks: Sequence[str]) -> list[str]:
    """What the numbers of some tasks are, as one line; none if there are no tasks."""
    special = {name for names in MEANINGS for name in names}
    found = [] if special.issuperset(tasks) else [ACCURACY]
    for names, meaning in MEANINGS.items():
        if there := [name for name in names if name in tasks]:
            found.append(f"{', '.join(there)} {meaning}")
    return ["; ".join(found)] if found else []


def _name(run: Path) -> str:
    return Path(run).resolve().name


def _views_cell(run: Path) -> str:
    return ",".join(run_views(run)) + " (random)" * (run_kind(run) == "random")


def _row_name(run: Path, result: dict[str, Any] | None) -> str:
    """The run's name, with the representation and protocol if they are not the default ones."""
    differences = _differences(result or {})
    return f"{_name(run)} ({', '.join(differences)})" if differences else _name(run)


def _differences(result: dict[str, Any]) -> list[str]:
    named = (
        (result.get("representation", "vector"), "vector"),
        (_protocol(result), SENTEVAL.name),
    )
    return [name for name, usual in named if name != usual]


def _named_where_they_differ(scored: Sequence[Scored]) -> list[Scored]:
    """The scores without a word on the precision of their vectors, if it is the same for all."""
    parts = [result.get("representation", "vector").split(", ") if result else [] for _, result in scored]
    if not all(HALF in each for each in parts if each):
        return list(scored)
    named = [", ".join(part for part in each if part != HALF) for each in parts]
    return [
        (run, result and result | {"representation": name}) for (run, result), name in zip(scored, named, strict=True)
    ]


def _dimension(result: dict[str, Any] | None) -> str:
    """Dimensions of the vectors; two numbers if those for similarity tasks differ."""
    result = result or {"tasks": {}}
    dims = [entry.get("dim", result.get("dim", MISSING)) for entry in result["tasks"].values()]
    return "/".join(dict.fromkeys(map(str, dims))) or MISSING


def _by_settings(scored: Sequence[Scored]) -> list[list[Scored]]:
    """Groups of runs that differ only in their seed, in the order of their first members."""
    groups: dict[Any, list[Scored]] = {}
    seeds: dict[Any, list[Any]] = {}
    own: dict[str, list[str]] = {}  # the representation and protocol to assume for a run without scores
    for run, result in sorted(scored, key=lambda each: each[1] is None):
        settings = read_settings(run)
        seed = settings.get("optimisation", {}).pop("seed", None)
        for table, name in loose_settings():
            settings.get(table, {}).pop(name, None)
        text = json.dumps(settings, sort_keys=True, default=str)
        if result:
            own.setdefault(text, _differences(result))
        key = (text, *(_differences(result) if result else own.get(text, ())))
        if seed is None or seed in seeds.setdefault(key, []):  # no seed, or a repeated one: a row of its own
            groups[run, len(groups)] = [(run, result)]
        else:
            seeds[key].append(seed)
            groups.setdefault(key, []).append((run, result))
    places = {run: place for place, (run, _) in reversed(list(enumerate(scored)))}
    ordered = [sorted(group, key=lambda each: places[each[0]]) for group in groups.values()]
    return sorted(ordered, key=lambda group: places[group[0][0]])


def _group_name(group: Sequence[Scored]) -> str:
    """The name of a row: for several runs, their common prefix."""
    names = [_row_name(run, result) for run, result in group]
    if len(group) == 1:
        return names[0]
    own = [_name(run) for run, _ in group]
    stem = commonprefix(own).removesuffix("seed").rstrip("-_. ")  # noqa: RUF071 - of names, not of paths
    return names[0].replace(own[0], stem) if stem else names[0]


def _cell(task: str, results: Sequence[dict[str, Any] | None], intervals: bool) -> Cell:
    """The score, or mean and deviation over several runs, with the number of runs if some have no score."""
    entries = [result["tasks"][task] for result in results if result and task in result["tasks"]]
    if not entries:
        return Cell()
    few = f" ({len(entries)})" if len(entries) < len(results) else ""
    figures = tuple(_figure(score, entries, intervals) for score in shown_scores(entries[0]["scores"]))
    return Cell(figures, PARTIAL * any(entry["partial"] for entry in entries) + few)


def _figure(score: str, entries: Sequence[dict[str, Any]], intervals: bool) -> Figure:
    by = factor(score)
    values = [by * entry["scores"][score] for entry in entries]
    found = [entry["intervals"][score] for entry in entries if score in entry.get("intervals", ())]
    ends = [by * fmean(each) for each in zip(*found, strict=True)] if len(found) == len(entries) else []
    text = f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
    text += f" [{ends[0]:.1f}, {ends[1]:.1f}]" if intervals and ends else ""
    return Figure(fmean(values), text, (ends[0], ends[1]) if ends else None)


def in_order(tasks: Collection[str]) -> list[str]:
    """The tasks in table order: SentEval's first, then others by name."""
    known = [name for name in (*task_names(), *PROBING) if name in tasks]
    return known + sorted(set(tasks) - set(known))


def shown_scores(scores: Collection[str]) -> list[str]:
    """Which of a task's scores the table shows."""
    for name in ("pearson mean", "pearson"):
        if name in scores:
            return [name]
    shown = ("accuracy", "f1", "image to text R@1", "text to image R@1")
    return [name for name in shown if name in scores]


def factor(score: str) -> int:
    """Factor for a score in the table: correlations are shown times 100."""
    return 100 if score.startswith(("pearson", "spearman")) else 1


def _marked(rows: Sequence[Row]) -> list[Row]:
    """Mark the best score of each task, and those within its interval.

    Scores on part of a task are never marked.
    """
    columns = [_marked_column(column) for column in zip(*(row.cells for row in rows), strict=True)]
    return [Row(row.labels, tuple(column[i] for column in columns)) for i, row in enumerate(rows)]


def _marked_column(cells: Sequence[Cell]) -> list[Cell]:
    whole = [cell for cell in cells if cell.figures and PARTIAL not in cell.suffix]
    if len(whole) < 2:
        return list(cells)
    best = [
        max(figures, key=lambda figure: figure.value) for figures in zip(*(cell.figures for cell in whole), strict=True)
    ]
    return [Cell(tuple(map(_against, cell.figures, best)), cell.suffix) if cell in whole else cell for cell in cells]


def _against(figure: Figure, best: Figure) -> Figure:
    # Scores that print the same are ties.
    if round(figure.value, 1) == round(best.value, 1):
        return replace(figure, mark=BEST)
    return replace(figure, mark=TIE if best.interval and figure.value >= best.interval[0] else "")


def _notes(run: Path, result: dict[str, Any] | None, tasks: Sequence[str]) -> list[str]:
    """Reasons for the missing scores of one run."""
    if not result:
        return [f"{_name(run)}: this model has not been evaluated; run: structviews eval {typed(run)} --senteval DIR"]
    notes = []
    missing = [name for name in tasks if name not in result["tasks"] and name != CAPTION_TASK]
    reasons: dict[str, list[str]] = {}
    for name in missing:
        if name in result["unavailable"]:
            reasons.setdefault(result["unavailable"][name], []).append(name)
    notes += [f"{', '.join(names)} unavailable: {reason}" for reason, names in reasons.items()]
    left = [name for name in missing if name not in result["unavailable"]]
    if left:
        folders = [" --senteval DIR" * any(name in TASKS for name in left)]
        folders.append(" --probing DIR" * any(name not in TASKS for name in left))
        command = f"structviews eval {typed(run)}{''.join(folders)} --tasks {','.join(left)}{result.get('flags', '')}"
        notes.append(f"{_row_name(run, result)}: {', '.join(left)} not evaluated; run: {command}")
    return notes


def partial_notes(result: dict[str, Any], tasks: Sequence[str]) -> list[str]:
    """Notes on scores on part of a task, one for each task."""
    partial = {name: result["tasks"][name]["partial"] for name in tasks if name in result["tasks"]}
    return [
        f"{name}*: scored on part of the task: {', '.join(f'{file} has {counts}' for file, counts in files.items())}"
        for name, files in partial.items()
        if files
    ]


def grid_end_notes(results: Sequence[dict[str, Any]], tasks: Sequence[str]) -> list[str]:
    """For each protocol, a note on classifiers whose strength is the first or last of the grid, if there are any."""
    found: dict[str, list[str]] = {}
    for protocol in dict.fromkeys(_protocol(result) for result in results):
        for name in tasks:
            entries = [result["tasks"].get(name, {}) for result in results if _protocol(result) == protocol]
            ends = [entry["at_grid_end"] for entry in entries if entry.get("at_grid_end")]
            choices = sum(each["choices"] for each in ends)
            for end in ("first", "last"):
                if count := sum(each[end] for each in ends):
                    found.setdefault(protocol, []).append(f"{name} the {end} in {count:,} of {choices:,}")
    return [
        f"{protocol}: strength chosen at an end of its grid, beyond which it may be better: {', '.join(where)}"
        for protocol, where in found.items()
    ]


def _protocol(result: dict[str, Any]) -> str:
    return str(result.get("protocol", {}).get("name", SENTEVAL.name))
