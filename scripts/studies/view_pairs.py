"""Do two different structures teach each other more than one seen twice? The prose of its pages."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structviews.evaluation.scores.tables import published_rows
from studies import pages
from studies.intervals import MEAN, Draws, Estimate, claim_between, verdicts
from studies.pages import Found, Table, spread, table
from studies.rows import BUILTIN, CONTROL, MAIN, NOISE, Row
from studies.view_pairs_plan import (
    BATCH,
    BILINEAR,
    HIDDEN,
    OTHERS,
    SENTENCES,
    SIX,
    SIZED,
    STRUCTURES,
    STUDIED,
    Plan,
    claims,
    single,
)

NAME = "view-pairs"
# Of the parser that was bundled then, on GUM's development section, in 8 bits.
OWN_LAS, OWN_UAS, OWN_F1 = 86.88, 89.22, 85.97
# What the paper trained on.
PUBLISHED = 40_000_000
PAPER, PAPERS_ROW = "S", "DEP, CONST"


def write_pages(stored: Path, docs: Path) -> list[Path]:
    """Write the pages, tables and pictures below a folder of documentation; their paths."""
    found = Found.read(Plan(), stored)
    plan, draws, tables, series = found.plan, found.draws, tables_of(found.plan), series_of(found)
    far = list(extrapolated(draws, series))
    means = {row: draws.estimate(row, MEAN) for row in plan.table}
    quality, draw_quality = quality_page(found, tables["quality"])
    end = float(np.log10(PUBLISHED))
    pictures = {
        NAME: ("Mean of the tasks by row, with intervals", lambda: pages.draw_intervals(means, [row_of(plan, MAIN)])),
        "size": (
            "Mean of the tasks by the size of the corpus",
            lambda: pages.draw_lines(draws, series, "sentences, powers of ten", fitted=SIZED, far=end),
        ),
        "parser-quality": ("Mean of the tasks by labelled attachment score", draw_quality),
    }
    return [
        pages.write_page(docs, NAME, main_page(found, tables)),
        pages.write_page(docs, "size", size_page(found, tables["size"], far)),
        pages.write_page(docs, "parser-quality", [quality]),
        *pages.write_scores(docs, found, NAME, tables),
        pages.write_claims(docs, found, NAME, claims(plan)),
        pages.write_csv(docs, NAME, "differences", differences(found)),
        pages.write_csv(docs, NAME, "extrapolated", far_lines(far)),
        *(pages.write_picture(docs, name, *picture) for name, picture in pictures.items()),
    ]


def tables_of(plan: Plan) -> dict[str, Table]:
    """All tables of rows by name, each row beside the one that it is compared with."""
    usual = {view: next(row for row in plan.single if row.views == single(view, view)) for view in STRUCTURES}
    pairs = dict(zip(plan.apart[1::2], plan.apart[::2], strict=True))
    return {
        "pairs": Table(plan.table, lambda row: row_of(plan, CONTROL)),
        "critics": Table(plan.critics, plan.usual),
        "single views": Table(plan.single, lambda row: usual[row.members[0][0]]),
        "joined": Table(plan.apart, lambda row: pairs.get(row, row)),
        "shape": Table(plan.shape, plan.usual),
        "batches": Table(plan.batches, plan.usual),
        "objectives": Table(plan.objectives, plan.usual),
        "channels": Table(plan.channels, plan.usual),
        "quality": Table(plan.quality, plan.usual),
        "size": Table(plan.size, lambda row: replace(row, views=CONTROL)),
    }


def row_of(plan: Plan, title: str) -> Row:
    """A row of the table."""
    return next(row for row in plan.table if row.title == title)


def prose(found: Found, part: str, **values: object) -> Iterator[str]:
    """A part of the text, with what several parts name."""
    studied, tasks = found.trees["sentences"][str(STUDIED)], len(found.draws.tasks)
    common = {"main": MAIN, "control": CONTROL, "batch": BATCH, "hidden": HIDDEN, "studied": studied, "tasks": tasks}
    return pages.prose(NAME, part, **common | values)


def main_page(found: Found, tables: Mapping[str, Table]) -> Iterator[Iterable[str]]:
    """The sections of the page of the pairs."""
    plan, sentences = found.plan, found.trees["sentences"]
    yield prose(found, "introduction", shown=pages.claimed(found, claims(plan)))
    yield prose(found, "pairs")
    yield tables["pairs"].means(found, first=len(SIX + OTHERS))
    yield prose(found, "tables")
    yield prose(found, "critics")
    yield prose(found, "setup", sentences=sentences[str(SENTENCES)], held_out=sentences["held-out"])
    yield pages.effort(found, NAME)
    deviation, freedom = found.draws.deviation(MEAN)
    (_, first), *others = Counter(each.about["data"] for each in found.draws.loaded.values()).most_common()
    yield prose(found, "method", deviation=deviation, freedom=freedom)
    yield prose(found, "limits", first=first, again=sum(number for _, number in others))


def differences(found: Found) -> Iterator[list[str]]:
    """Pairs of rows that no table of rows has beside each other; p is corrected for those of the same name."""
    plan = found.plan
    main, *others = (row for row in plan.critics if row.critic == BILINEAR)
    yield ["table", "rows", *pages.heads("difference"), "p"]
    for name, pairs in (
        ("six pairs", list(combinations(plan.table[: len(SIX)], 2))),
        ("bilinear", [(main, other) for other in others]),
        ("apart", [(row, pair) for row in plan.apart[1::2] for _, pair in row.members]),
    ):
        for each in verdicts(found.draws, [claim_between(*pair) for pair in pairs]):
            yield [name, each.claim.text, *pages.numbers(each.difference), f"{each.p:.3f}"]


def series_of(found: Found) -> dict[str, dict[Row, float]]:
    """Each pair's rows by the size of the corpus, as its logarithm to the base 10."""
    sentences = found.trees["sentences"]
    return {
        views: {row: float(np.log10(sentences[str(row.sentences)])) for row in found.plan.size if row.views == views}
        for views in SIZED
    }


class Far(NamedTuple):
    """What the fits say about a score of a pair at the paper's size.

    Attributes:
        score, views: which; ``views`` may be the difference of two pairs.
        end: at that size.
        gains: for ten times as many sentences, by the line and by the two largest corpora; none of a difference.
        published: the paper's score, if it has one.
    """

    score: str
    views: str
    end: Estimate
    gains: tuple[Estimate, ...] = ()
    published: str = ""


def extrapolated(draws: Draws, series: Mapping[str, Mapping[Row, float]]) -> Iterator[Far]:
    """What the fits say about the paper's size, beside its row."""
    rows_of_papers = published_rows(draws.tasks).items()
    paper = next(row for (key, name), row in rows_of_papers if key == PAPER and name.startswith(PAPERS_ROW))
    printed = {(task, MAIN): str(cell).strip("-") for task, cell in zip(draws.tasks, paper.cells, strict=True)}
    for name in [*draws.tasks, MEAN]:
        ends = []
        for views, rows in series.items():
            constant, slope = pages.fit(draws, rows, name).T
            ends.append(constant + slope * np.log10(PUBLISHED))
            gains = Estimate.of(slope), Estimate.of(last_gain(draws, rows, name))
            yield Far(name, views, Estimate.of(ends[-1]), gains, printed.get((name, views), ""))
        yield Far(name, " - ".join(SIZED), Estimate.of(ends[0] - ends[1]))


def last_gain(draws: Draws, rows: Mapping[Row, float], score: str) -> np.ndarray:
    """How much a score rises between the two largest different numbers, per unit, for each draw: ``(1 + B,)``."""
    larger = max(rows, key=lambda row: rows[row])
    # There may be less text than the largest corpora ask for, which are then the same.
    smaller = max((row for row in rows if rows[row] < rows[larger]), key=lambda row: rows[row])
    return (draws.of(larger, score) - draws.of(smaller, score)) / (rows[larger] - rows[smaller])


def far_lines(far: Iterable[Far]) -> Iterator[list[str]]:
    """The same as a table."""
    estimates = (head for name in ("at 40 million", "gain", "last gain") for head in pages.heads(name))
    yield ["score", "views", "published", *estimates]
    for line in far:
        figures = (figure for each in (line.end, *line.gains) for figure in pages.numbers(each))
        yield [line.score, line.views, line.published, *figures]


def size_page(found: Found, compared: Table, far: Iterable[Far]) -> Iterator[Iterable[str]]:
    """The pairs' means on each corpus, and at forty million sentences."""
    lines = []
    for row, each in compared.tested(found.draws).items():
        means = [spread(found.draws.estimate(of, MEAN), brief=True) for of in (row, compared.usual(row))]
        size = f"{found.trees['sentences'][str(row.sentences)]:,}"
        lines.append([size, found.about(row)[1], *means, spread(each.difference), f"{each.p:.3f}"])
    ends = []
    for line in far:
        if line.score == MEAN:
            gains = [spread(gain) for gain in line.gains]
            ends.append([line.views, *(gains or ["", ""]), spread(line.end, brief=bool(gains))])
    yield prose(found, "size", lead=lines[-1][4], main_gain=ends[0][1], control_gain=ends[1][1])
    yield [*table(["sentences", "seeds", *SIZED, "difference", "p"], lines), ""]
    yield prose(found, "extrapolated")
    yield table(["views", "gain", "last gain", "at 40 million"], ends)


def quality_page(found: Found, compared: Table) -> tuple[list[str], Callable[[], object]]:
    """Scores by the quality of the trees."""
    plan, draws, agreement = found.plan, found.draws, found.trees["agreement"]
    own = {"las": OWN_LAS, "uas": OWN_UAS, "f1": OWN_F1}
    quality = {
        row: {name: own[name] * (agreement[row.trees][name] / 100 if row.trees != BUILTIN else 1) for name in own}
        for row in plan.quality
    }
    tested = compared.tested(draws)
    rows = []
    for row, scores in quality.items():
        verdict = tested.get(row)
        last = [spread(verdict.difference), f"{verdict.p:.3f}"] if verdict else ["", ""]
        mean = spread(draws.estimate(row, MEAN), brief=True)
        title = "built-in parser" if row.trees == BUILTIN else row.title.removeprefix(f"{MAIN}, ")
        rows.append([title, *(f"{scores[name]:.1f}" for name in own), mean, *last])
    fitted = "built-in parser, with noise"
    series: dict[str, dict[Row, float]] = {fitted: {}, "not syntax": {}}
    for row, scores in quality.items():
        parsed = row.trees == BUILTIN or row.trees.startswith(NOISE)
        series[fitted if parsed else "not syntax"][row] = scores["las"]
    _, slopes = pages.fit(draws, series[fitted], MEAN).T
    lines = [
        *prose(found, "quality", worth=spread(Estimate.of(10 * slopes))),
        *table(["trees", "LAS", "UAS", "F1", MEAN, "difference", "p"], rows),
        "",
        "![The mean of the tasks by labelled attachment score](../images/parser-quality.svg)",
        "",
        *prose(found, "noise", las=OWN_LAS, uas=OWN_UAS, f1=OWN_F1),
    ]
    return lines, lambda: pages.draw_lines(draws, series, "labelled attachment score", fitted=[fitted])
