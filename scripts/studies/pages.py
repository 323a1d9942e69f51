"""What the pages of all studies share: tables, paragraphs, sections, pictures; every figure from the stored files."""

import json
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from structviews.runtime.pictures import COLOURS, inline_svg
from studies.intervals import LEVELS, MEAN, NEXT, PROBING, Claim, Draws, Estimate, claim_between, verdicts
from studies.rows import Plan, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 124
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


def remarks(stored: Path, name: str) -> str:
    """What people say about results, in Markdown."""
    return (stored / f"{name}.txt").read_text("utf-8")


def write_page(docs: Path, name: str, sections: Iterable[Iterable[str]]) -> Path:
    """Write a page of docs/results; its path."""
    path = docs / "results" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line for section in sections for line in section) + "\n", encoding="utf-8")
    return path


def table(head: Sequence[str], lines: Iterable[Sequence[str]], texts: int = 1) -> Iterator[str]:
    """A table; its first ``texts`` columns are text, the others figures."""
    yield f"| {' | '.join(head)} |"
    yield "|---" * texts + "|--:" * (len(head) - texts) + "|"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def prose(page: str, part: str, **values: object) -> Iterator[str]:
    """A part of a page's text, with values; its paragraphs are wrapped, headings and code are as they are."""
    for block in PROSE[page][part].strip("\n").format(**values).split("\n\n"):
        as_it_is = block.startswith(("#", "<!--", "    "))
        yield block if as_it_is else textwrap.fill(block, WIDTH, break_long_words=False, break_on_hyphens=False)
        yield ""


def spread(estimate: Estimate, *, brief: bool = False) -> str:
    """A difference such as ``+1.2 [0.3, 2.1]``; a score in brief such as ``66.1 ± 0.9``."""
    if brief:
        return f"{estimate.value:.1f} ± {(estimate.high - estimate.low) / 2:.1f}"
    return f"{estimate.value:+.1f} [{estimate.low:+.1f}, {estimate.high:+.1f}]"


def differences(
    found: Found, rows: Sequence[Row], usual: Callable[[Row], Row], name: Callable[[Row], str] = attrgetter("title")
) -> Iterator[str]:
    """A table of the tasks, with each row's difference from another one, p corrected for all of the table."""
    draws, names = found.draws, [*found.draws.tasks, MEAN, NEXT, *([PROBING] if PROBING in found.draws.scores else [])]
    asked = [claim_between(row, usual(row)) for row in rows if row != usual(row)]
    tested = {verdict.claim.terms[0][1]: verdict for verdict in verdicts(draws, asked)}
    lines = []
    for row in rows:
        about = [str(draws.loaded[draws.runs[row][0]].about["dim"]), str(len(draws.runs[row]))]
        figures = [spread(draws.estimate(row, each), brief=True) for each in names]
        last = [spread(tested[row].difference), f"{tested[row].p:.3f}"] if row in tested else ["", ""]
        lines.append([name(row), *about, *figures, *last])
    yield from table(["", "dim", "seeds", *names, "difference", "p"], lines)
    yield ""


def compared(
    found: Found, pairs: Sequence[tuple[Row, Row]], head: str = "pairs", names: Sequence[str] = ()
) -> Iterator[str]:
    """The table of the differences of pairs of rows, by their titles or other names."""
    tested = verdicts(found.draws, [claim_between(*pair) for pair in pairs])
    texts = names or [each.claim.text for each in tested]
    lines = [[text, spread(each.difference), f"{each.p:.3f}"] for text, each in zip(texts, tested, strict=True)]
    yield from table([head, "difference", "p"], lines)
    yield ""


def decided(found: Found, asked: Sequence[Claim]) -> Iterator[str]:
    """The table of the verdicts on claims."""
    sections = any(each.section for each in asked)
    lines = []
    for each in verdicts(found.draws, asked):
        of_paper = [each.claim.section] if sections else []
        lines.append([*of_paper, each.claim.text, each.word, spread(each.difference), f"{each.p:.3f}"])
    head = ["claim", "verdict", "difference", "p"]
    yield from table(["section", *head] if sections else head, lines, texts=len(head) - 2 + sections)
    yield ""


def discussion(found: Found) -> Iterator[str]:
    """What people say about it."""
    yield remarks(found.stored, "discussion")


def probing(found: Found, name: Callable[[Row], str] = attrgetter("title")) -> Iterator[str]:
    """The table of the probing tasks."""
    draws = found.draws
    yield from prose("shared", "probing")
    lines = [[name(row), *(f"{draws.of(row, task)[0]:.1f}" for task in draws.probing)] for row in found.plan.table]
    yield from table(["", *draws.probing], lines)
    yield ""


def method(found: Found) -> Iterator[str]:
    """How intervals and tests are computed."""
    deviation, freedom = found.draws.deviation(MEAN)
    yield from prose("shared", "method", deviation=deviation, freedom=freedom)


def effort(found: Found, study: str, title: Callable[[Row], str] = attrgetter("title")) -> Iterator[str]:
    """Hours, versions, what is missing, and the rate of each kind of run."""
    abouts = [each.about for each in found.draws.loaded.values()]
    training = sum(each["training"]["minutes"] for each in abouts if "training" in each) / 60
    scoring = sum(each["scoring minutes"] for each in abouts) / 60
    made = "corpora, words, trees and states" if "states" in found.stages else "corpora, words and trees"
    about = abouts[0]["versions"]
    yield from prose(
        "shared",
        "effort",
        **about,
        study=study,
        done=len(abouts),
        runs=len(found.plan.runs()),
        training=training,
        scoring=scoring,
        before=sum(found.stages.values()) / 3600,
        made=made,
    )
    yield from table(["", "runs", "sentences/s", "hours"], rates(found, title))


def rates(found: Found, title: Callable[[Row], str]) -> Iterator[list[str]]:
    """What was trained, whatever the size: number of runs, their median rate, and their hours together."""
    kinds: dict[str, list[dict[str, float]]] = {}
    for run, scores in found.draws.loaded.items():
        if run.row.trained:
            kinds.setdefault(title(run.row), []).append(scores.about["training"])
    for kind, each in kinds.items():
        rate = median(training["sentences a second"] for training in each)
        yield [kind, str(len(each)), f"{rate:,.0f}", f"{sum(training['minutes'] for training in each) / 60:.2f}"]


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
