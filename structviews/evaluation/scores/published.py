"""Published scores of papers, from ``published.toml``."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib.resources import files
from statistics import mean
from typing import Any, NamedTuple

from structviews.evaluation.scores.figures import Cell, Figure
from structviews.evaluation.senteval.tasks.sts import STS_SETS

WEIGHTED, WITH_SMT = "†", "‡"


class Published(NamedTuple):
    """One number from a paper.

    Attributes:
        paper: key of the paper.
        table: number of the table.
        row: label of the row.
        model, corpus: the model, and its training corpus if the paper states it.
        measure: such as ``MR accuracy``, ``STS14 weighted mean``, ``STS14/images``, ``MR, CR mean`` or ``dim``.
        text: as printed.
        study: whether the table compares variants of the paper's own model.
    """

    paper: str
    table: str
    row: str
    model: str
    corpus: str
    measure: str
    text: str
    study: bool

    @property
    def score(self) -> Decimal:
        """In per cent, or a correlation times 100, in whichever scale it is printed."""
        value = Decimal(self.text)
        return 100 * value if abs(value) < 1 else value


@dataclass(frozen=True)
class PublishedRow:
    """All numbers of one paper for a model.

    Attributes:
        paper: key of the paper.
        name: the model, with its corpus in brackets.
        figures: the numbers by measure.
    """

    paper: str
    name: str
    figures: dict[str, Published]

    @property
    def dim(self) -> str:
        """Dimensions of the vectors; empty if the paper does not state them."""
        return self.figures["dim"].text if "dim" in self.figures else ""

    def source(self, tasks: Sequence[str]) -> str:
        """The paper, and its tables with numbers for the tasks."""
        tables = dict.fromkeys(figure.table for task in tasks for figure in self._of(task)[0])
        return f"{self.paper} {', '.join(tables)}"

    def cell(self, task: str) -> Cell:
        """The table cell for a task.

        For a year of STS, the mean over SentEval's data sets; if the paper has only an aggregate, that one, marked.
        """
        figures, mark = self._of(task)
        scores = [figure.score for figure in figures]
        if task in STS_SETS and scores:
            scores = [mean(scores)]
        # Round half up, as papers do: 87.85 becomes 87.9.
        rounded = [score.quantize(Decimal("0.1"), ROUND_HALF_UP) for score in scores]
        return Cell(tuple(Figure(float(score), str(score)) for score in rounded), mark)

    def _of(self, task: str) -> tuple[list[Published], str]:
        """The numbers for a task's cell, and its mark."""
        for measures, mark in _measures(task):
            if all(measure in self.figures for measure in measures):
                return [self.figures[measure] for measure in measures], mark
        return [], ""


def _measures(task: str) -> list[tuple[list[str], str]]:
    """The alternative sets of measures for a task's cell, best first, each with its mark."""
    if task in STS_SETS:
        sets = [f"{task}/{name}" for name in STS_SETS[task]]
        return [
            (sets, ""),
            ([f"{task} mean"], WITH_SMT * (task == "STS13")),
            ([f"{task} weighted mean"], WEIGHTED),
        ]
    kinds = [["accuracy", "f1"], ["accuracy"], ["pearson"]]
    return [([f"{task} {kind}" for kind in each], "") for each in kinds]


@cache
def papers() -> dict[str, dict[str, str]]:
    """The papers by key: title, and name of the file with the text."""
    found: dict[str, dict[str, str]] = _content()["papers"]
    return found


@cache
def published() -> list[Published]:
    """All numbers, in the order of the file."""
    return [
        Published(table["paper"], table["table"], row["row"], *_about(table, row, i), text, table.get("study", False))
        for table in _content()["tables"]
        for row in table["rows"]
        for i, text in enumerate(row["figures"].split())
        if text != "-" and _about(table, row, i)[0]
    ]


def _about(table: dict[str, Any], row: dict[str, str], column: int) -> tuple[str, str, str]:
    """Model, corpus and measure; a table has models in rows and measures in columns, or vice versa."""
    if "models" in table:
        model, _, corpus = table["models"][column].partition("; ")
        return model, corpus, row["measure"]
    return row["model"], row.get("corpus", table.get("corpus", "")), table["measures"][column]


def published_rows(tasks: Sequence[str]) -> list[PublishedRow]:
    """One row for each paper and model with a score for one of the tasks, except the variants of a study."""
    figures: dict[tuple[str, str], dict[str, Published]] = {}
    for each in (each for each in published() if not each.study):
        name = f"{each.model} ({each.corpus})" if each.corpus else each.model
        figures.setdefault((each.paper, name), {}).setdefault(each.measure, each)
    rows = [PublishedRow(paper, name, found) for (paper, name), found in figures.items()]
    return [row for row in rows if any(row.cell(task).figures for task in tasks)]


def published_legend(rows: Sequence[PublishedRow]) -> list[str]:
    """The legend for published rows: what the numbers are, and their sources."""
    if not rows:
        return []
    sources = "; ".join(f"{key}: {papers()[key]['title']}" for key in dict.fromkeys(row.paper for row in rows))
    return [
        f"published: by the papers' own protocols, with paper and tables (S1: table 1 of the supplement): {sources}",
        "published STS: unweighted mean of the scores for SentEval's data sets, or the published mean "
        f"({WITH_SMT} with the SMT set of 2013, {WEIGHTED} weighted by numbers of pairs)",
    ]


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(files("structviews.evaluation.scores").joinpath("published.toml").read_text(encoding="utf-8"))
