"""Published scores of papers, from ``published.toml``, and means of several tasks as papers print them."""

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from statistics import mean
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


def papers() -> dict[str, dict[str, str]]:
    """The papers by key: title, and name of the file with the text."""
    return _content()["papers"]


@cache
def published() -> list[Published]:
    """All numbers, in the order of the file; a table has models in rows and measures in columns, or vice versa."""
    found = []
    for table in _content()["tables"]:
        for row in table["rows"]:
            place = table["paper"], table["table"], row["row"]
            for i, text in enumerate(row["figures"].split()):
                if "models" in table:
                    (model, _, corpus), measure = table["models"][i].partition("; "), row["measure"]
                else:
                    model, corpus = row["model"], row.get("corpus", table.get("corpus", ""))
                    measure = table["measures"][i]
                if text != "-" and model:
                    found.append(Published(*place, model, corpus, measure, text, table.get("study", False)))
    return found


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(files("structviews.evaluation.scores").joinpath("published.toml").read_text(encoding="utf-8"))


class Mean(NamedTuple):
    """A mean of tasks: of each, the mean of some of its scores."""

    name: str
    meaning: str
    parts: Mapping[str, tuple[str, ...]]  # by task, names of scores

    def of(self, scores: Mapping[str, float]) -> float | None:
        """The mean, in per cent, or None if a score is missing.

        ``scores`` are by measure, such as ``MR accuracy``, in per cent; correlations and squared errors are times 100,
        and 100 less the error counts.
        """
        values = [[(name, scores.get(f"{task} {name}")) for name in names] for task, names in self.parts.items()]
        known = [[100 - v if name == "mse" else v for name, v in of_task if v is not None] for of_task in values]
        return mean(map(mean, known)) if list(map(len, known)) == list(map(len, values)) else None


# S and T: the mean of T's table of view pairs; it is the mean of S's rows of table 1, too.
SENTEVAL = Mean(
    "SentEval mean",
    "mean of 7 tasks, the scores of MRPC and of SICK-R averaged first, squared errors as 100 - 100 mse",
    dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "TREC"), ("accuracy",))
    | {"MRPC": ("accuracy", "f1"), "SICK-R": ("pearson", "spearman", "mse")},
)
# SimCSE (Gao et al., 2021), table 5, and those who follow it.
STS = Mean(
    "STS mean",
    "mean of Spearman's correlations x 100 of STS12 to STS16, STS-B and SICK-R by the protocol simcse",
    dict.fromkeys(("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"), ("spearman all",)),
)
TRANSFER = Mean(
    "transfer mean",
    "mean accuracy of MR, CR, SUBJ, MPQA, SST2, TREC and MRPC",
    dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"), ("accuracy",)),
)
MEANS = (STS, TRANSFER, SENTEVAL)
