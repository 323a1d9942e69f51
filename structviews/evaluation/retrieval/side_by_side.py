"""Nearest sentences by several runs, side by side (structured views, table 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from structviews.evaluation.retrieval.neighbours import Found
from structviews.runtime.terminal import Table as RichTable


@dataclass(frozen=True)
class Neighbours:
    """The nearest sentences to some queries by several runs.

    Attributes:
        queries: the query sentences.
        runs: names of the runs.
        found: results of each run.
    """

    queries: Sequence[str]
    runs: Sequence[str]
    found: Sequence[Found]

    def of(self, query: int, run: int) -> list[tuple[float, int]]:
        """Cosines and rows of a query's nearest sentences by a run, nearest first."""
        scores, rows = self.found[run].scores[query], self.found[run].rows[query]
        return [(float(score), int(row)) for score, row in zip(scores, rows, strict=True) if row >= 0]


def as_rich(neighbours: Neighbours, describe: Callable[[int], str]) -> list[RichTable]:
    """Terminal output: one table per query, one column per run; ``describe`` gives the sentence of a row."""
    tables = []
    for number, query in enumerate(neighbours.queries):
        table = RichTable(title=Text(query), title_justify="left", show_lines=True)
        for name in neighbours.runs:
            table.add_column(Text(name), ratio=1, overflow="fold")
        each = [
            [f"{score:.3f}  {describe(row)}" for score, row in neighbours.of(number, run)]
            for run in range(len(neighbours.runs))
        ]
        for place in range(max(map(len, each), default=0)):
            table.add_row(*(Text(shown[place]) if place < len(shown) else "" for shown in each))
        tables.append(table)
    return tables
