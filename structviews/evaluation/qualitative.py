"""What several runs find near the same sentences, side by side (structured views, table 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text

from structviews.evaluation.neighbours import Found


@dataclass(frozen=True)
class Neighbours:
    """The nearest sentences of some queries by several runs.

    Attributes:
        queries: the sentences.
        runs: names.
        found: of each run.
    """

    queries: Sequence[str]
    runs: Sequence[str]
    found: Sequence[Found]

    def of(self, query: int, run: int) -> list[tuple[float, int]]:
        """Cosines and rows of what a run finds for a query, the nearest first."""
        scores, rows = self.found[run].scores[query], self.found[run].rows[query]
        return [(float(score), int(row)) for score, row in zip(scores, rows, strict=True) if row >= 0]


def as_rich(neighbours: Neighbours, describe: Callable[[int], str]) -> list[RichTable]:
    """For a terminal: a table for each query, with a column for each run; ``describe`` gives a row's sentence."""
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
