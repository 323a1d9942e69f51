"""Compare two runs on the same test examples, with significance tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structviews.errors import InputError
from structviews.evaluation.scores.intervals import FIXED_MODELS, Difference, holm, paired_differences
from structviews.evaluation.scores.results import all_results, load_predictions, load_results, shown_scores, signature
from structviews.evaluation.scores.tables import factor, in_order, partial_notes
from structviews.runs.settings_file import read_settings
from structviews.runtime.terminal import Table, number_table

NOTES = (
    "A - B with the 95 % interval of a paired bootstrap over the test examples, and its two-sided p, at least 0.001; "
    "Holm: p corrected for all rows, bold below 0.05",
    FIXED_MODELS,
)
# Task, name of the score, difference, and p adjusted by Holm's method.
Compared = tuple[str, str, Difference, float]


def compare_runs(first: Path, second: Path) -> tuple[list[Compared], list[str]]:
    """Paired test of two runs' own results on every task that both have: each score; and notes.

    The notes explain the numbers, and name what could not be compared. InputError if there is no such task, or the runs
    differ in protocol or data.
    """
    results: list[dict[str, Any]] = []
    for run in (first, second):
        read_settings(run)
        found = load_results(run)
        if not found or not found["tasks"] or found not in all_results(run):
            raise InputError(f"{run}: no scores for its current weights; run: structviews eval {run} --senteval DIR")
        results.append(found)
    pair = f"{first} and {second}"
    protocols = [result.get("protocol", {}) for result in results]
    if differing := _differing(*protocols):
        one, other = (protocol.get(differing) for protocol in protocols)
        how = differing if isinstance(one, dict) or isinstance(other, dict) else f"{differing} {one!r} and {other!r}"
        raise InputError(f"{pair}: scored by different protocols ({how}); evaluate both by the same protocol")
    both = in_order([task for task in results[0]["tasks"] if task in results[1]["tasks"]])
    if not both:
        raise InputError(f"{pair}: no task in common; evaluate both on the same tasks")
    for task in both:
        if file := _differing(*(result["tasks"][task].get("data", {}) for result in results)):
            what = f"{task} was scored on different data ({file} differs)"
            raise InputError(f"{pair}: {what}; evaluate both with the same folder")
    predictions = [load_predictions(run, result) for run, result in zip((first, second), results, strict=True)]
    tasks = [task for task in both if all(task in each for each in predictions)]
    if not tasks:
        command = f"structviews eval {first} {second} --senteval DIR --tasks {','.join(both)}"
        raise InputError(f"{pair}: no task with predictions of both; run: {command}")
    differences = []
    for task in tasks:
        tested = [each[task] for each in predictions]
        gold, others = ({part: gold for part, (_, gold) in parts.items()} for parts in tested)
        if gold.keys() != others.keys() or not all(np.array_equal(gold[part], others[part]) for part in gold):
            raise InputError(f"{pair}: {task} was scored on different examples, or in another order; rerun both")
        scores = shown_scores(results[0]["tasks"][task]["scores"])
        if not scores:
            raise InputError(f"{first}: no known score of {task}: run structviews eval {first} again")
        differences += [(task, *each) for each in paired_differences(scores, *tested).items()]
    adjusted = holm([difference.p for *_, difference in differences])
    signed = zip("AB", (first, second), results, strict=True)
    notes = [*(f"{name}: {run}, {signature(result, tasks)}" for name, run, result in signed), *NOTES]
    for run, result in zip((first, second), results, strict=True):
        if left_out := [task for task in result["tasks"] if task not in tasks]:
            notes.append(f"{run}: not compared: {', '.join(left_out)}; one of the runs has no score or no predictions")
    rows = [(task, score, each, p) for (task, score, each), p in zip(differences, adjusted, strict=True)]
    return rows, notes + partial_notes(results, tasks)


def _differing(first: dict[str, Any], second: dict[str, Any]) -> str:
    """The first key whose values differ; empty if there is none."""
    return next((key for key in {**first, **second} if first.get(key) != second.get(key)), "")


def as_rich(rows: Sequence[Compared]) -> Table:
    """The comparison as a terminal table."""
    table = number_table(["task", "score"], ["A", "B", "A - B", "95 % interval", "p", "Holm"])
    for task, score, each, p in rows:
        by = factor(score)
        table.add_row(task, score, f"{by * each.first:.1f}", f"{by * each.second:.1f}", *each.cells(by, p))
    return table
