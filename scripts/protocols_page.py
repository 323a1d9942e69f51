"""Write docs/protocols.md: what the protocol alone changes, from the results of one run under every protocol.

    structviews eval RUN --senteval DIR --partial --protocol P      # for each protocol P
    python scripts/protocols_page.py RUN

Scores, times and strengths are those of the run's ``results*.json``.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from structviews.evaluation.scores.results import all_results
from structviews.evaluation.scores.tables import factor, in_order, shown_scores
from structviews.evaluation.senteval.protocols import PROTOCOLS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "protocols.md"
HEAD = """# What the protocol changes

This page shows one run's scores under every [protocol](evaluation.md#protocol): the same vectors of the same
sentences, scored with other folds, grids and classifiers. So numbers from papers with different protocols can differ
by as much, with no difference between their models. The run is an earlier `default` model, trained on novels.

<!-- not run: it needs SentEval's files -->

    structviews eval RUN --senteval DIR --partial
    structviews eval RUN --senteval DIR --partial --protocol senteval-torch
    structviews eval RUN --senteval DIR --partial --protocol kiros

This page is written by `python scripts/protocols_page.py RUN` from the run's `results*.json`.
"""
SCORES = """## Scores

Accuracy in percent, MRPC accuracy/F1, SICK-R Pearson x 100. `*`: on part of the task ({partial}), where a
few examples decide. `-`: the protocol does not cover the task.
"""
SECONDS = """## Seconds

Seconds spent on scoring, on one thread; encoding, which is the same for all, comes on top.
"""
STRENGTHS = """## Strengths

The strengths that the classifiers chose, and how often: inverse penalties C under `senteval` and `kiros`, Adam's
weight decay under `senteval-torch`. One in bold is the first or the last of its grid, beyond which a better one may
lie. Vectors of length 1, as under `kiros`, need a lower penalty, so a higher C.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run that was scored under every protocol")
    run = parser.parse_args().run
    found = {results["protocol"]["name"]: results for results in all_results(run)}
    if missing := [name for name in PROTOCOLS if name not in found]:
        sys.exit(f"{run}: no scores under {', '.join(missing)}: run structviews eval with --protocol first")
    PAGE.write_text(page({name: found[name] for name in PROTOCOLS}), encoding="utf-8")


def page(found: dict[str, dict[str, Any]]) -> str:
    """The page's text, from the results under each protocol."""
    tasks = in_order({task for results in found.values() for task in results["tasks"]})
    partial = [task for task in tasks if any(each["tasks"].get(task, {}).get("partial") for each in found.values())]
    chosen = [task for task in tasks if any("strengths" in each["tasks"].get(task, {}) for each in found.values())]
    parts = [
        HEAD,
        SCORES.format(partial=", ".join(partial) or "none"),
        table(found, [f"{task}*" if task in partial else task for task in tasks], tasks, score),
        SECONDS,
        table(found, tasks, tasks, lambda entry, results: f"{entry['seconds']['scoring']:.1f}"),
        STRENGTHS,
        table(found, chosen, chosen, strengths),
    ]
    return "\n".join(parts)


def table(found: dict[str, dict[str, Any]], heads: list[str], tasks: list[str], cell: Any) -> str:
    """A line for each task, a column for each protocol."""
    lines = [f"| task | {' | '.join(f'`{name}`' for name in found)} |", "|---" + "|--:" * len(found) + "|"]
    for head, task in zip(heads, tasks, strict=True):
        cells = [cell(entry, results) if (entry := results["tasks"].get(task)) else "-" for results in found.values()]
        lines.append(f"| {head} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def score(entry: dict[str, Any], results: dict[str, Any]) -> str:
    """The scores that tables show."""
    return "/".join(f"{factor(name) * entry['scores'][name]:.1f}" for name in shown_scores(entry["scores"]))


def strengths(entry: dict[str, Any], results: dict[str, Any]) -> str:
    """The chosen strengths, each with its number of choices; those at an end of the grid in bold."""
    chosen, at_end = entry["strengths"], entry["at_grid_end"]
    ends = {end(chosen) for end, which in ((min, "first"), (max, "last")) if at_end.get(which)}
    counts = sorted(Counter(chosen).items())
    return ", ".join(f"{f'**{value:g}**' if value in ends else f'{value:g}'} x {n}" for value, n in counts)


if __name__ == "__main__":
    main()
