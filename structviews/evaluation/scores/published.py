"""Published scores of papers, from ``published.toml``."""

import tomllib
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Published(NamedTuple):
    """One number from a paper."""

    paper: str  # its key
    table: str  # number
    row: str  # label
    model: str
    corpus: str  # empty if the paper does not state it
    measure: str  # such as MR accuracy, STS14 weighted mean, STS14/images, "MR, CR mean" or dim
    text: str  # as printed
    study: bool  # whether the table compares variants of the paper's own model

    @property
    def score(self) -> Decimal:
        """In per cent, or a correlation times 100, in whichever scale it is printed."""
        value = Decimal(self.text)
        return 100 * value if abs(value) < 1 else value


@cache
def papers() -> dict[str, dict[str, str]]:
    """The papers by key: title, and name of the file with the text."""
    found: dict[str, dict[str, str]] = _content()["papers"]
    return found


@cache
def published() -> list[Published]:
    """All numbers, in the order of the file."""
    return [
        Published(table["paper"], table["table"], row["row"], *_labels(table, row, i), text, table.get("study", False))
        for table in _content()["tables"]
        for row in table["rows"]
        for i, text in enumerate(row["figures"].split())
        if text != "-" and _labels(table, row, i)[0]
    ]


def _labels(table: dict[str, Any], row: dict[str, str], column: int) -> tuple[str, str, str]:
    """Model, corpus and measure; a table has models in rows and measures in columns, or vice versa."""
    if "models" in table:
        model, _, corpus = table["models"][column].partition("; ")
        return model, corpus, row["measure"]
    return row["model"], row.get("corpus", table.get("corpus", "")), table["measures"][column]


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(files("structviews.evaluation.scores").joinpath("published.toml").read_text(encoding="utf-8"))
