"""What the pages of all studies share: tables, paragraphs, sections, pictures; every figure from the stored files."""

import csv
import json
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from structviews.runtime.pictures import COLOURS, inline_svg
from studies.intervals import LEVELS, MEAN, NEXT, PROBING, Claim, Draws, Estimate, Verdict, claim_between, verdicts
from studies.rows import Plan, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 124
TITLE = attrgetter("title")
# The text of all pages, part by part.
PROSE = tomllib.loads(Path(__file__).with_name("prose.toml").read_text("utf-8"))
# The colours of these pages' other pictures, on a light and on a dark page.
STYLE = """<style>
svg { color-scheme: light dark; font-family: sans-serif; --ink: #1f2328; --faint: #818b98; --paper: #ffffff;
  --c0: #0072b2; --c1: #b87400; --c2: #007d5b; --c3: #d55e00; --c4: #3a9bd6; --c5: #b3568c }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --faint: #7d8590; --paper: #0d1117;
    --c0: #4da6e0; --c1: #f0b429; --c2: #2fc79a; --c3: #ff8a4c; --c4: #9ad6f7; --c5: #e6a3cb }
}
</style>
<rect width="100%" height="100%" style="fill: var(--paper)"/>
"""


@dataclass(frozen=True)
class Found:
    """All that the pages read.

    Attributes:
        plan: the rows.
        draws: their scores.
        trees: how other trees agree with the parser's, and the sizes of the corpora.
        stages: seconds of each stage.
        stored: folder of all that is stored.
    """

    plan: Plan
    draws: Draws
    trees: dict[str, Any]
    stages: dict[str, int]
    stored: Path

    @classmethod
    def read(cls, plan: Plan, stored: Path) -> "Found":
        """Read all that is stored of a study."""
        trees, stages = (json.loads((stored / f"{name}.json").read_text("utf-8")) for name in ("trees", "stages"))
        return cls(plan, Draws(plan, stored), trees, stages, stored)

    def about(self, row: Row) -> list[str]:
        """A row's dimensions and number of seeds."""
        runs = self.draws.runs[row]
        return [str(self.draws.loaded[runs[0]].about["dim"]), str(len(runs))]


def write_page(docs: Path, name: str, sections: Iterable[Iterable[str]]) -> Path:
    """Write a page of docs/results; its path."""
    path = docs / "results" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line for section in sections for line in section) + "\n", encoding="utf-8")
    return path


def write_csv(docs: Path, study: str, name: str, lines: Iterable[Sequence[object]]) -> Path:
    """Write a table beside a study's page, its lines as long as the first one; its path."""
    head, *others = lines
    path = docs / "results" / study / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        padded = ([*line, *[""] * (len(head) - len(line))] for line in others)
        csv.writer(file, lineterminator="\n").writerows([head, *padded])
    return path


def table(head: Sequence[str], lines: Iterable[Sequence[str]], texts: int = 1) -> Iterator[str]:
    """A table; its first ``texts`` columns are text, the others figures."""
    yield f"| {' | '.join(head)} |"
    yield "|---" * texts + "|--:" * (len(head) - texts) + "|"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def prose(page: str, part: str, **values: object) -> Iterator[str]:
    """A part of a page's text, with values; its paragraphs are wrapped, all else is as it is."""
    for block in PROSE[page][part].strip("\n").format(**values).split("\n\n"):
        as_it_is = block.startswith(("#", "<!--", "    ", "- ", "|"))
        yield block if as_it_is else textwrap.fill(block, WIDTH, break_long_words=False, break_on_hyphens=False)
        yield ""


def spread(estimate: Estimate, *, brief: bool = False) -> str:
    """A difference such as ``+1.2 [0.3, 2.1]``; a score in brief such as ``66.1 ± 0.9``."""
    if brief:
        return f"{estimate.value:.1f} ± {(estimate.high - estimate.low) / 2:.1f}"
    return f"{estimate.value:+.1f} [{estimate.low:+.1f}, {estimate.high:+.1f}]"


def numbers(estimate: Estimate) -> list[str]:
    """An estimate in a CSV file, under ``heads``."""
    return [f"{each:.1f}" for each in (estimate.value, estimate.low, estimate.high)]


def heads(name: str) -> list[str]:
    """The columns of an estimate in a CSV file."""
    return [name, f"{name} low", f"{name} high"]


@dataclass(frozen=True)
class Table:
    """Rows, each beside another one.

    Attributes:
        rows: in order.
        usual: the row that a row's difference is from; itself if there is none.
    """

    rows: Sequence[Row]
    usual: Callable[[Row], Row]

    def tested(self, draws: Draws) -> dict[Row, Verdict]:
        """The differences in the mean of the tasks, p corrected for all of the table."""
        asked = [claim_between(row, self.usual(row)) for row in self.rows if row != self.usual(row)]
        return {verdict.claim.terms[0][1]: verdict for verdict in verdicts(draws, asked)}

    def means(self, found: Found, title: Callable[[Row], str] = TITLE, first: int | None = None) -> Iterator[str]:
        """The means of the tasks, for a page; of the ``first`` rows alone if that is given."""
        tested, lines = self.tested(found.draws), []
        for row in self.rows[:first]:
            mean = spread(found.draws.estimate(row, MEAN), brief=True)
            last = [spread(tested[row].difference), f"{tested[row].p:.3f}"] if row in tested else ["", ""]
            lines.append([title(row), found.about(row)[0], mean, *last])
        yield from table(["", "dim", MEAN, "difference", "p"], lines)
        yield ""


def write_scores(
    docs: Path, found: Found, study: str, tables: Mapping[str, Table], title: Callable[[Row], str] = TITLE
) -> list[Path]:
    """Write all scores of all rows, table by table, and those of each run; the paths."""
    rows, runs = row_lines(found, tables, title), run_lines(found)
    return [write_csv(docs, study, "rows", rows), write_csv(docs, study, "runs", runs)]


def row_lines(found: Found, tables: Mapping[str, Table], title: Callable[[Row], str]) -> Iterator[list[str]]:
    """A line for each row of each table."""
    draws = found.draws
    names = [*draws.tasks, MEAN, NEXT, PROBING, *draws.probing]
    of_scores = [head for name in names for head in heads(name)]
    yield ["table", "row", "sentences", "batch", "dim", "seeds", *of_scores, *heads("difference"), "p"]
    for name, each in tables.items():
        tested = each.tested(draws)
        for row in each.rows:
            scores = [number for score in names for number in numbers(draws.estimate(row, score))]
            last = [*numbers(tested[row].difference), f"{tested[row].p:.3f}"] if row in tested else []
            yield [name, title(row), str(row.sentences), str(row.batch), *found.about(row), *scores, *last]


def run_lines(found: Found) -> Iterator[list[object]]:
    """A line for each run, under the name of its file."""
    names = [*found.draws.tasks, NEXT, *found.draws.probing]
    settings = [each.name for each in fields(Row)]
    yield ["run", "seed", *settings, "dim", "minutes", "sentences/s", *names]
    for run, scores in found.draws.loaded.items():
        training = scores.about.get("training", {"minutes": "", "sentences a second": ""})
        about = [scores.about["dim"], training["minutes"], training["sentences a second"]]
        yield [run.name, run.seed, *astuple(run.row), *about, *(f"{scores.examples[name].score:.1f}" for name in names)]


def claimed(found: Found, asked: Sequence[Claim]) -> list[str]:
    """The differences that claims are about, in a sentence, by the places of the claims."""
    return [spread(each.difference) for each in verdicts(found.draws, asked)]


def write_claims(docs: Path, found: Found, study: str, asked: Sequence[Claim]) -> Path:
    """Write the verdicts on claims, with the papers' sections if there are any; the path."""
    sections = any(each.section for each in asked)
    lines = [[*["section"] * sections, "claim", "verdict", *heads("difference"), "p"]]
    for each in verdicts(found.draws, asked):
        of_paper = [each.claim.section] * sections
        lines.append([*of_paper, each.claim.text, each.word, *numbers(each.difference), f"{each.p:.3f}"])
    return write_csv(docs, study, "claims", lines)


def effort(found: Found, study: str) -> Iterator[str]:
    """Hours and versions."""
    abouts = [each.about for each in found.draws.loaded.values()]
    training = sum(each["training"]["minutes"] for each in abouts if "training" in each) / 60
    scoring = sum(each["scoring minutes"] for each in abouts) / 60
    yield from prose(
        "shared",
        "effort",
        **abouts[0]["versions"],
        study=study,
        runs=len(abouts),
        training=training,
        scoring=scoring,
        before=sum(found.stages.values()) / 3600,
        made="corpora, words, trees and states" if "states" in found.stages else "corpora, words and trees",
    )


def write_picture(docs: Path, name: str, title: str, make: Callable[[], "Figure"]) -> Path:
    """Save a picture of docs/images; its path."""
    path = docs / "images" / f"{name}.svg"
    start, rest = inline_svg(make, title).split("\n", 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{start}\n{STYLE}{rest}", encoding="utf-8")
    return path


def draw_intervals(found: Mapping[Row, Estimate], marked: Sequence[Row]) -> "Figure":
    """A point with its interval for each row, the best on top; ``marked`` rows in another colour."""
    rows = sorted(found, key=lambda row: found[row].value)
    figure, axes = axes_of(0.24 * len(rows) + 0.9)
    for height, row in enumerate(rows):
        each = found[row]
        colour = COLOURS[3] if row in marked else COLOURS[0]
        axes.plot([each.low, each.high], [height, height], color=colour, linewidth=1.5)
        axes.plot([each.value], [height], "o", color=colour, markersize=4)
    axes.set_yticks(range(len(rows)), [row.title for row in rows], fontsize=8)
    axes.set_xlabel("mean of the tasks")
    axes.grid(axis="x", alpha=0.25)
    return figure


def draw_lines(
    draws: Draws, series: Mapping[str, Mapping[Row, float]], label: str, *, fitted: Sequence[str] = (), far: float = 0
) -> "Figure":
    """Points with intervals over numbers; ``fitted`` series have a line with its 95 % band, up to ``far``.

    Numbers on a scale of sizes are given as their logarithms to the base 10.
    """
    figure, axes = axes_of(3.8)
    for number, (name, rows) in enumerate(series.items()):
        colour = COLOURS[number]
        for row, x in rows.items():
            each = draws.estimate(row, MEAN)
            axes.plot([x, x], [each.low, each.high], color=colour, linewidth=1.5)
        axes.plot(list(rows.values()), [draws.of(row, MEAN)[0] for row in rows], "o", color=colour, label=name)
        if name in fitted:
            ends = np.linspace(min(rows.values()), far or max(rows.values()), 40)
            band = fit(draws, rows, MEAN) @ np.stack([np.ones_like(ends), ends])
            low, high = np.percentile(band[1:], LEVELS, axis=0)
            axes.plot(ends, band[0], color=colour, linewidth=1)
            axes.fill(np.r_[ends, ends[::-1]], np.r_[low, high[::-1]], color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel(label)
    axes.set_ylabel("mean of the tasks")
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False)
    return figure


def fit(draws: Draws, rows: Mapping[Row, float], score: str) -> np.ndarray:
    """Least squares of a score on a number, for each draw: ``(1 + B, 2)``, the constant and the slope."""
    numbers = np.stack([np.ones(len(rows)), list(rows.values())], axis=1)
    return (np.linalg.pinv(numbers) @ np.stack([draws.of(row, score) for row in rows])).T


def axes_of(height: float) -> "tuple[Figure, Axes]":
    """A figure with one panel."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
