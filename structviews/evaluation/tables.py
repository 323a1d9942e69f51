"""The table of runs: one row per view pair, one column per task."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from os.path import commonprefix
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.table import Table as RichTable

from structviews.config import TrainConfig, read_settings, run_kind, run_views
from structviews.errors import InputError
from structviews.evaluation.results import all_results, model_checksum
from structviews.evaluation.tasks import PROBING, TASKS

MISSING = "-"
# Settings that do not say what was trained.
LOOSE = {field.name for field in fields(TrainConfig) if not field.compare}
FIXED = ("run", "views", "dim")
COUNT = "n"
SEEDS = "runs that differ by their seed alone are one row: mean ± sample standard deviation over the n of them"
Scored = tuple[Path, dict[str, Any] | None]
LEGEND = (
    "accuracy in percent; MRPC accuracy/F1; SICK-R and STS-B Pearson x 100, supervised; "
    "STS12-STS16 Pearson x 100 of cosines, unweighted mean over the year's data sets; SICK14 and STS-B-cos that of "
    "SICK's and STS-B's test pairs"
)


@dataclass(frozen=True)
class ScoreTable:
    """Scores of several runs, ready to print.

    Attributes:
        header: names of the columns: run, views, dimension, number of runs where some row has several, tasks.
        rows: one for each run and representation, or for all runs that differ by their seed; ``-`` where there is
            no score, ``*`` after a score on part of a task.
        notes: what the numbers are, and why each missing one is missing.
    """

    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    @property
    def n_fixed(self) -> int:
        """How many columns stand before the tasks."""
        return len(FIXED) + (self.header[len(FIXED) :][:1] == [COUNT])


def score_table(runs: Sequence[Path]) -> ScoreTable:
    """Read the runs' ``config.toml`` and ``results.json`` into a table.

    Raises:
        InputError: if a folder is not a run, or one of its files cannot be read.
    """
    for run in runs:
        run_views(run)
    scored = [(run, result) for run in runs for result in _current_results(run)]
    groups = _by_settings(scored)
    counted = any(len(group) > 1 for group in groups)
    asked = {name for _, result in scored if result for name in (*result["tasks"], *result["unavailable"])}
    tasks = [name for name in (*TASKS, *PROBING) if name in asked]
    tasks += sorted(asked - set(tasks))
    rows = [
        [
            _group_name(group),
            _views_cell(group[0][0]),
            _dimension(next((result for _, result in group if result), None)),
            *([str(len(group))] if counted else []),
            *(_cell(name, [result for _, result in group]) for name in tasks),
        ]
        for group in groups
    ]
    notes = [LEGEND] if tasks else []
    if counted and tasks:
        notes.append(SEEDS)
    for run, result in scored:
        notes += _notes(run, result, tasks)
    return ScoreTable([*FIXED, *([COUNT] if counted else []), *tasks], rows, list(dict.fromkeys(notes)))


def as_rich(table: ScoreTable, width: int) -> list[RichTable]:
    """The table for a terminal of ``width`` characters: several, each with some of the tasks, where one is too wide.

    The notes are printed below it.
    """
    widths = [max(map(len, column)) + 3 for column in zip(table.header, *table.rows, strict=True)]
    widths[0] = min(widths[0], width // 3)  # the name of a run with its vectors may take several lines
    parts: list[list[int]] = [[]]
    for column in range(table.n_fixed, len(table.header)):
        if parts[-1] and sum(widths[i] for i in (*range(table.n_fixed), *parts[-1], column)) + 1 > width:
            parts.append([])
        parts[-1].append(column)
    return [_rich_part(table, [*range(table.n_fixed), *part]) for part in parts]


def _rich_part(table: ScoreTable, columns: list[int]) -> RichTable:
    rich = RichTable()
    for i in columns:
        rich.add_column(table.header[i], justify="left" if i < 2 else "right", no_wrap=i > 0)
    for row in table.rows:
        rich.add_row(*(row[i] for i in columns))
    return rich


def as_markdown(table: ScoreTable) -> str:
    """The table and its notes in Markdown."""
    rule = ["---" if i < 2 else "--:" for i in range(len(table.header))]
    lines = ["| " + " | ".join(row) + " |" for row in (table.header, rule, *table.rows)]
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes)]) + "\n"


def as_csv(table: ScoreTable) -> str:
    """The table as comma-separated values, without its notes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    return text.getvalue()


def _current_results(run: Path) -> list[dict[str, Any] | None]:
    """The run's results for each of its representations, but for those of other weights than it has now; or None."""
    results: list[dict[str, Any] | None] = list(all_results(run))
    try:
        model = model_checksum(run) if results else ""
    except InputError:  # the weights are elsewhere, the scores are here
        return results
    return [result for result in results if result and result["model"] == model] or [None]


def _name(run: Path) -> str:
    return Path(run).resolve().name


def _views_cell(run: Path) -> str:
    return ",".join(run_views(run)) + " (random)" * (run_kind(run) == "random")


def _row_name(run: Path, result: dict[str, Any] | None) -> str:
    """The run's name, and which vectors were scored where they are not what training scored."""
    vectors = (result or {}).get("representation", "vector")
    return _name(run) if vectors == "vector" else f"{_name(run)} ({vectors})"


def _dimension(result: dict[str, Any] | None) -> str:
    """Of the tasks' vectors; two numbers where similarity tasks have others."""
    dims = {str(entry.get("dim", result["dim"])): None for entry in result["tasks"].values()} if result else {}
    return "/".join(dims) or MISSING


def _by_settings(scored: Sequence[Scored]) -> list[list[Scored]]:
    """The runs in groups that differ by their seed alone, each in the place of its first."""
    groups: dict[Any, list[Scored]] = {}
    seeds: dict[Any, list[Any]] = {}
    own: dict[str, Any] = {}  # vectors that a run without scores would be scored with
    for run, result in sorted(scored, key=lambda each: each[1] is None):
        settings = read_settings(run)
        seed = settings.pop("seed", None)
        others = {name: value for name, value in settings.items() if name not in LOOSE}
        text = json.dumps(others, sort_keys=True, default=str)
        if result:
            own.setdefault(text, result.get("representation"))
        key = (text, result.get("representation") if result else own.get(text))
        if seed is None or seed in seeds.setdefault(key, []):  # nothing to take a mean over
            groups[run, len(groups)] = [(run, result)]
        else:
            seeds[key].append(seed)
            groups.setdefault(key, []).append((run, result))
    places = {run: place for place, (run, _) in reversed(list(enumerate(scored)))}
    ordered = [sorted(group, key=lambda each: places[each[0]]) for group in groups.values()]
    return sorted(ordered, key=lambda group: places[group[0][0]])


def _group_name(group: Sequence[Scored]) -> str:
    """Of several runs, what their names begin with."""
    names = [_row_name(run, result) for run, result in group]
    if len(group) == 1:
        return names[0]
    own = [_name(run) for run, _ in group]
    stem = commonprefix(own).removesuffix("seed").rstrip("-_. ")  # noqa: RUF071 - of names, not of paths
    return names[0].replace(own[0], stem) if stem else names[0]


def _cell(task: str, results: Sequence[dict[str, Any] | None]) -> str:
    """The score, or of several runs mean and deviation, with the number of runs where some have none."""
    entries = [result["tasks"][task] for result in results if result and task in result["tasks"]]
    if not entries:
        return MISSING
    metrics = zip(*(_scores(entry["scores"]) for entry in entries), strict=True)
    text = "/".join(_mean(list(values)) for values in metrics)
    few = f" ({len(entries)})" if len(entries) < len(results) else ""
    return text + "*" * any(entry["partial"] for entry in entries) + few


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def _scores(scores: dict[str, float]) -> list[float]:
    """What the table shows of a task's scores."""
    for name in ("pearson mean", "pearson"):
        if name in scores:
            return [100 * scores[name]]
    return [scores[name] for name in ("accuracy", "f1") if name in scores]


def _notes(run: Path, result: dict[str, Any] | None, tasks: Sequence[str]) -> list[str]:
    """Why scores of one run are missing or marked."""
    if not result:
        return [f"{_name(run)}: this model is not evaluated; run: structviews eval {run} --senteval DIR"]
    notes = []
    missing = [name for name in tasks if name not in result["tasks"]]
    notes += [f"{name} unavailable: {result['unavailable'][name]}" for name in missing if name in result["unavailable"]]
    left = [name for name in missing if name not in result["unavailable"]]
    if left:
        command = f"structviews eval {run} --senteval DIR --tasks {','.join(left)}{result.get('flags', '')}"
        notes.append(f"{_row_name(run, result)}: {', '.join(left)} not evaluated; run: {command}")
    for name in tasks:
        for file, counts in result["tasks"].get(name, {"partial": {}})["partial"].items():
            notes.append(f"{name}*: scored on part of the task, {file} has {counts}")
    return notes
