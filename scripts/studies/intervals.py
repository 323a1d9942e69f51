"""Intervals and tests over seeds and examples: every score of every row, as bootstrap draws.

R runs, B draws; the first value is that of the data, so there are 1 + B.

The test examples of a task are drawn with replacement, the same ones for all runs that have them: the draws are
paired. STS 2014's sets are drawn separately, and of the next sentence whole documents. Tasks are drawn independently
of each other. A row's draw is the mean over its seeds, plus a seed's deviation drawn from Student's t and divided by
the root of the number of seeds. That deviation is pooled over all trained rows that have several seeds, since two or
three seeds say little of their own; so rows with one seed have an interval over seeds too.

What is stored of each run, in one small file, is its scores and what they say about each example. Of a classifier:
whether it was right. Of a correlation: the predicted and the gold scores, standardised. Of the next sentence: the
reciprocal ranks of each document.
"""

import json
import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from structviews.evaluation.scores.intervals import holm
from studies.rows import INNER, Plan, Row, Run

# The tasks whose mean is a study's main score, and the score of retrieval.
TASKS = ("MR", "SUBJ", "TREC", "SICK-R", "SICK-E", "STS-B", "STS14", "SICK14")
NEXT = "next sentence"
DRAWS = 2_000
# Draws scored at once; limits memory.
AT_ONCE = 100
MEAN, PROBING = "mean", "probing"
LEVELS = (2.5, 97.5)
# Below it, a corrected p-value decides.
LEVEL = 0.05


@dataclass(frozen=True)
class Examples:
    """A score, and what its test examples contribute.

    Attributes:
        kind: ``accuracy``, ``pearson``, or ``ratio``: a sum of the first row over a sum of the second one.
        score: as reported, in the tables' unit.
        parts: for each data set ``(1, n)`` hits, or ``(2, n)`` predicted and gold scores, or sums and counts.
    """

    kind: str
    score: float
    parts: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Scores:
    """The content of a run's file.

    Attributes:
        about: settings, times, dimensions.
        examples: by task.
    """

    about: dict[str, Any]
    examples: dict[str, Examples]


def unpacked(content: dict[str, Any]) -> Examples:
    """A score and its examples, from JSON: of a classifier, one bit an example, of a correlation half precision."""
    kind, parts = content["kind"], []
    for part in content["parts"]:
        values, shape = zlib.decompress(b64decode(part["values"])), part["shape"]
        if kind == "accuracy":
            bits = np.unpackbits(np.frombuffer(values, np.uint8), count=int(np.prod(shape)))
            parts.append(bits.reshape(shape).astype(np.float64))
        else:
            form = np.float16 if kind == "pearson" else np.float32
            parts.append(np.frombuffer(values, form).reshape(shape).astype(np.float64))
    return Examples(kind, content["score"], tuple(parts))


def load(file: Path) -> Scores:
    """A run's file."""
    content = json.loads(file.read_text("utf-8"))
    examples = {task: unpacked(each) for task, each in content.pop("examples").items()}
    return Scores(content, examples)


@dataclass(frozen=True)
class Estimate:
    """A score, or a difference of scores, with its 95 % interval and its two-sided p-value against 0."""

    value: float
    low: float
    high: float
    p: float

    @classmethod
    def of(cls, draws: np.ndarray) -> "Estimate":
        """From ``(1 + B,)`` draws; p counts the data as one more draw, as ``evaluation.scores.intervals`` does."""
        others = draws[1:]
        low, high = np.percentile(others, LEVELS)
        tail = (1 + min(np.sum(others <= 0), np.sum(others >= 0))) / len(draws)
        return cls(float(draws[0]), float(low), float(high), float(min(1, 2 * tail)))


class Draws:
    """The draws of all rows.

    Args:
        plan: the rows.
        stored: folder with the runs' files; rows without any are left out.

    Attributes:
        scores: names of the scores: the tasks, their ``mean``, the next sentence, the probing tasks, and the mean of
            those, ``probing``.
        runs: the runs of each row that have scores.
        loaded: the content of their files.
    """

    def __init__(self, plan: Plan, stored: Path) -> None:
        files = {run: stored / "runs" / f"{run.name}.json" for run in plan.runs()}
        self.loaded: dict[Run, Scores] = {run: load(file) for run, file in files.items() if file.exists()}
        self.runs: dict[Row, list[Run]] = {}
        for run in self.loaded:
            self.runs.setdefault(run.row, []).append(run)
        found = list(self.loaded.values())
        names = [name for name in found[0].examples if all(name in each.examples for each in found)]
        values = {name: drawn_by_data(name, found) for name in names}
        self.tasks = [name for name in TASKS if name in values]
        self.probing = [name for name in names if name not in (*TASKS, NEXT)]
        values[MEAN] = np.mean([values[name] for name in self.tasks], axis=0)
        if self.probing:
            values[PROBING] = np.mean([values[name] for name in self.probing], axis=0)
        self.scores = list(values)
        self._values = values
        self._indices = {run: index for index, run in enumerate(self.loaded)}

    def of(self, row: Row, score: str) -> np.ndarray:
        """The draws ``(1 + B,)`` of a row."""
        runs = self.runs[row]
        values: np.ndarray = self._values[score][[self._indices[run] for run in runs]].mean(0)
        deviation, freedom = self.deviation(score)
        if freedom and row.views:  # words alone have no seed
            noise = generator(f"{row.name} {score}").standard_t(freedom, DRAWS)
            values = values + np.concatenate([[0], noise * deviation / len(runs) ** 0.5])
        return values

    def deviation(self, score: str) -> tuple[float, int]:
        """Standard deviation over seeds, pooled over the rows that have several, and its degrees of freedom.

        What consists of views of other rows has their seeds, and is left out; so are rows that came later.
        """
        squares, freedom = 0.0, 0
        for runs in (runs for row, runs in self.runs.items() if row.trained and row.critic == INNER):
            values = self._values[score][[self._indices[run] for run in runs], 0]
            squares += float(((values - values.mean()) ** 2).sum())
            freedom += len(runs) - 1
        return (squares / freedom) ** 0.5 if freedom else 0.0, freedom

    def estimate(self, row: Row, score: str) -> Estimate:
        """A row's score."""
        return Estimate.of(self.of(row, score))

    def difference(self, terms: Sequence[tuple[float, Row, str]]) -> Estimate:
        """A sum of scores with signs, each given as sign, row, and name of the score."""
        return Estimate.of(np.sum([sign * self.of(row, score) for sign, row, score in terms], axis=0))


def generator(name: str) -> np.random.Generator:
    """Seeded with a name."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def drawn_by_data(task: str, runs: Sequence[Scores]) -> np.ndarray:
    """Draws ``(R, 1 + B)`` of a task's score.

    Runs with other probing tasks, made of another parser's trees, have examples of their own: they are drawn apart.
    """
    data = ["" if task in (*TASKS, NEXT) else run.about["data"] for run in runs]
    values = np.empty((len(runs), 1 + DRAWS))
    for each in dict.fromkeys(data):
        rows = [row for row, other in enumerate(data) if other == each]
        values[rows] = drawn(task + each, [runs[row].examples[task] for row in rows])
    return values


def drawn(task: str, runs: Sequence[Examples]) -> np.ndarray:
    """Draws ``(R, 1 + B)`` of a task's score.

    The score of all examples is the reported one, which for a cross-validation is a mean over folds; draws are moved
    by its difference from the score of all examples together.
    """
    kind, rng = runs[0].kind, generator(task)
    found = []
    for parts in zip(*(run.parts for run in runs), strict=True):  # the data sets
        table = np.stack(parts)
        n = table.shape[-1]
        blocks = [SCORERS[kind](np.ones((1, n)), table)]
        for start in range(0, DRAWS, AT_ONCE):
            size = min(AT_ONCE, DRAWS - start)
            blocks.append(SCORERS[kind](rng.multinomial(n, np.full(n, 1 / n), size).astype(float), table))
        found.append(np.concatenate(blocks, axis=1))
    values = np.mean(found, axis=0)
    reported = np.array([run.score for run in runs])[:, None]
    moved = values + reported - values[:, :1]
    return np.where(np.isfinite(moved), moved, reported)  # a draw of equal scores has no correlation


def accuracy(weights: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Per cent right ``(R, b)`` with the weights ``(b, n)`` of the examples, ``table`` ``(R, 1, n)``."""
    return 100 * (table[:, 0] @ weights.T) / weights.sum(1)


def pearson(weights: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Pearson's correlation x 100 ``(R, b)`` of ``table`` ``(R, 2, n)``."""
    centred = table - table.mean(-1, keepdims=True)
    x, y, total = centred[:, 0], centred[:, 1], weights.sum(1)
    mean_x, mean_y = x @ weights.T / total, y @ weights.T / total
    covariance = (x * y) @ weights.T / total - mean_x * mean_y
    squares = [(each * each) @ weights.T / total - mean**2 for each, mean in ((x, mean_x), (y, mean_y))]
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100 * covariance / np.sqrt(squares[0] * squares[1])


def ratio(weights: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Sums over sums ``(R, b)`` of ``table`` ``(R, 2, n)``."""
    return (table[:, 0] @ weights.T) / (table[:, 1] @ weights.T)


SCORERS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "accuracy": accuracy,
    "pearson": pearson,
    "ratio": ratio,
}


@dataclass(frozen=True)
class Claim:
    """A claim, and the difference that is above 0 if it holds.

    Attributes:
        section: of the paper; empty for what the study asks beside it.
        text: the claim.
        terms: signs, rows and scores of the difference.
    """

    section: str
    text: str
    terms: tuple[tuple[float, Row, str], ...]


@dataclass(frozen=True)
class Verdict:
    """A claim, its difference, the p-value corrected by Holm's method for all claims, and what follows."""

    claim: Claim
    difference: Estimate
    p: float

    @property
    def word(self) -> str:
        """Decided by the corrected p-value and the sign."""
        if self.p >= LEVEL:
            return "does not show"
        return "shows" if self.difference.value > 0 else "reversed"


def above(text: str, better: Row, worse: Row, section: str = "", score: str = MEAN) -> Claim:
    """The claim that a row is above another one."""
    return Claim(section, text, ((1, better, score), (-1, worse, score)))


def claim_between(first: Row, second: Row) -> Claim:
    """The difference of two rows in the mean of the tasks."""
    return above(f"{first.title} - {second.title}", first, second)


def verdicts(draws: Draws, claims: Sequence[Claim]) -> list[Verdict]:
    """Verdicts on the claims."""
    differences = [draws.difference(each.terms) for each in claims]
    adjusted = holm([each.p for each in differences]) if differences else []
    return [Verdict(*each) for each in zip(claims, differences, adjusted, strict=True)]
