"""Two runs on the same test examples: which differences are more than chance."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as RichTable

from structviews.config import read_settings
from structviews.errors import InputError
from structviews.evaluation.intervals import Difference, Tested, holm, paired_differences
from structviews.evaluation.results import all_results, load_predictions, load_results
from structviews.evaluation.tables import factor, in_order, shown_scores

NOTES = (
    "A - B with the 95 % interval of a paired bootstrap over the test examples, and its p, two-sided, not below 0.001; "
    "Holm: p adjusted for all rows, bold below 0.05",
    "the intervals hold for these two trained models; how much another training seed changes them is not in them",
)


@dataclass(frozen=True)
class Comparison:
    """Two runs, score by score.

    Attributes:
        rows: the task, the score's name, in units of the table (per cent, correlations x 100), and Holm's p.
        notes: what the numbers are, and what could not be compared.
    """

    rows: list[tuple[str, str, Difference, float]]
    notes: list[str]


def compare_runs(first: Path, second: Path) -> Comparison:
    """Paired test of two runs' own results, on every task that both have.

    Raises:
        InputError: if a run has no results or no predictions, or they are not of one protocol and the same data.
    """
    results = [_results(run) for run in (first, second)]
    names = [str(run) for run in (first, second)]
    _check_protocol(names, results)
    both = in_order([task for task in results[0]["tasks"] if task in results[1]["tasks"]])
    if not both:
        raise InputError(f"{first} and {second}: no task that both have; evaluate both on the same tasks")
    for task in both:
        _check_data(task, names, results)
    predictions = [load_predictions(run, result) for run, result in zip((first, second), results, strict=True)]
    tasks = [task for task in both if all(task in each for each in predictions)]
    if not tasks:
        raise InputError(
            f"{first} and {second}: no task of which both have the predictions; "
            f"run: structviews eval {first} {second} --senteval DIR --tasks {','.join(both)}"
        )
    found = []
    for task in tasks:
        tested = [each[task] for each in predictions]
        _check_gold(task, names, tested)
        scores = shown_scores(results[0]["tasks"][task]["scores"])
        found += [(task, *each) for each in paired_differences(scores, *tested).items()]
    adjusted = holm([difference.p for *_, difference in found])
    rows = [(task, score, each, p) for (task, score, each), p in zip(found, adjusted, strict=True)]
    return Comparison(rows, [f"A: {first}; B: {second}", *NOTES, *_left_out(names, results, tasks)])


def as_rich(comparison: Comparison) -> RichTable:
    """For a terminal."""
    table = RichTable()
    for i, name in enumerate(("task", "score", "A", "B", "A - B", "95 % interval", "p", "Holm")):
        table.add_column(name, justify="left" if i < 2 else "right", no_wrap=i != 1)
    for task, score, each, p in comparison.rows:
        by = factor(score)
        first, second, low, high = (by * value for value in (each.first, each.second, each.low, each.high))
        cells = (f"{first:.1f}", f"{second:.1f}", f"{first - second:+.1f}", f"[{low:+.1f}, {high:+.1f}]")
        table.add_row(task, score, *cells, f"{each.p:.3f}", f"[bold]{p:.3f}[/bold]" if p < 0.05 else f"{p:.3f}")
    return table


def _results(run: Path) -> dict[str, Any]:
    read_settings(run)
    results = load_results(run)
    if not results or not results["tasks"] or results not in all_results(run):
        raise InputError(f"{run}: no scores of the weights it has; run: structviews eval {run} --senteval DIR")
    return results


def _check_protocol(names: list[str], results: list[dict[str, Any]]) -> None:
    first, second = (result["protocol"] for result in results)
    differing = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    if differing:
        found = [protocol.get(differing[0]) for protocol in (first, second)]
        values = "" if any(isinstance(value, dict) for value in found) else f" {found[0]!r} and {found[1]!r}"
        raise InputError(
            f"{names[0]} and {names[1]}: scored by different protocols ({differing[0]}{values}); "
            "evaluate both by the same one"
        )


def _check_data(task: str, names: list[str], results: list[dict[str, Any]]) -> None:
    first, second = (result["tasks"][task]["data"] for result in results)
    differing = [file for file in {**first, **second} if first.get(file) != second.get(file)]
    if differing:
        raise InputError(
            f"{names[0]} and {names[1]}: {task} was scored on different data ({differing[0]} differs); "
            "evaluate both with the same folder"
        )


def _check_gold(task: str, names: list[str], tested: list[dict[str, Tested]]) -> None:
    first, second = ({part: gold for part, (_, gold) in parts.items()} for parts in tested)
    if first.keys() != second.keys() or not all(np.array_equal(first[part], second[part]) for part in first):
        raise InputError(
            f"{names[0]} and {names[1]}: {task} was scored on other examples, or in another order; evaluate both again"
        )


def _left_out(names: list[str], results: list[dict[str, Any]], tasks: list[str]) -> list[str]:
    notes = []
    for name, result in zip(names, results, strict=True):
        others = [task for task in result["tasks"] if task not in tasks]
        if others:
            notes.append(f"not compared, of {name}: {', '.join(others)}; no score or no predictions of one of the two")
    for task in tasks:
        for file, counts in results[0]["tasks"][task]["partial"].items():
            notes.append(f"{task}: on part of the task, {file} has {counts}")
    return notes
