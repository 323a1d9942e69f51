"""The pages of the studies of size and of the parser's quality."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pairs import pictures
from pairs.claims import against, claim_between, verdicts
from pairs.draws import MEAN, Draws, Estimate
from pairs.markdown import paragraph, spread, table
from pairs.plan import BUILTIN, CONTROL, MAIN, NOISE, OWN_F1, OWN_LAS, OWN_UAS, SIZED, Plan, Row
from structviews.evaluation.scores.tables import published_rows

# What the paper trained on.
PUBLISHED = 40_000_000
PAPER, PAPERS_ROW = "S", "DEP, CONST"
# A page and its picture: its label and what draws it.
Page = tuple[list[str], tuple[str, Callable[[], Any]] | None]


def size_page(plan: Plan, draws: Draws, sentences: Mapping[str, int], remarks: str) -> Page:
    """Scores by the size of the corpus, with what people say about them."""
    series = {
        views: {
            row: float(np.log10(sentences[str(row.sentences)]))
            for row in plan.size
            if row.views == views and draws.has(row)
        }
        for views in SIZED
    }
    lines = ["# The size of the corpus", ""]
    lines += paragraph(
        "This page asks how much more views learn from more text. The corpora are parts of one another; all else is as "
        "on [the page of the pairs](view-pairs.md). ± is half of a 95 % interval over seeds and examples."
    )
    names = [*draws.tasks, MEAN]
    rows = [
        [views, f"{sentences[str(row.sentences)]:,}", str(len(draws.runs[row]))]
        + [spread(draws.estimate(row, name), brief=True) for name in names]
        for views, found in series.items()
        for row in found
    ]
    lines += [*table(["views", "sentences", "seeds", *names], rows), ""]
    lines += ["![The mean of the tasks by the size of the corpus, with fitted lines](../images/size.svg)", ""]
    lines += gaps(draws, list(series.values()), sentences)
    lines += [remarks] if remarks else []
    lines += extrapolated(draws, series)
    fitted = [views for views, rows in series.items() if len(set(rows.values())) > 1]
    draw = lambda: pictures.lines(  # noqa: E731
        draws, series, "sentences, powers of ten", fitted=fitted, far=float(np.log10(PUBLISHED))
    )
    return lines, ("Mean of the tasks by the size of the corpus", draw)


def gaps(draws: Draws, series: Sequence[Mapping[Row, float]], sentences: Mapping[str, int]) -> list[str]:
    """How far the first pair is above the second one on each corpus."""
    first, second = ({row.sentences: row for row in rows} for rows in series)
    asked = [claim_between(first[size], second[size]) for size in first if size in second]
    rows = [
        [f"{sentences[str(each.claim.terms[0][1].sentences)]:,}", spread(each.difference), f"{each.p:.3f}"]
        for each in verdicts(draws, asked)
    ]
    lines = paragraph(
        f"`{MAIN}` minus `{CONTROL}` in the mean of the tasks, on each of the corpora; p is corrected by Holm's "
        "method for this table."
    )
    return [*lines, *table(["sentences", "difference", "p"], rows), ""]


def extrapolated(draws: Draws, series: Mapping[str, Mapping[Row, float]]) -> list[str]:
    """What the fits say about the paper's size, beside its row."""
    paper = next(row for row in published_rows(draws.tasks) if row.paper == PAPER and row.name.startswith(PAPERS_ROW))
    lines = ["## Forty million sentences", ""]
    lines += paragraph(
        "A line is fitted to each score over the logarithm of the number of sentences, by least squares, for each draw"
        " of the bootstrap. The gain is for ten times as many sentences; the last gain is too, but from the two largest"
        " corpora alone. Where it is the smaller one, the curve bends, and the line is too high. The line at 40 million"
        " is an extrapolation: its interval assumes that the line goes on. The published row is that of structured "
        "views, with 4800 dimensions, both channels, other word vectors and another classifier."
    )
    fitted = {views: rows for views, rows in series.items() if len(set(rows.values())) > 1}
    rows = []
    for name in [*draws.tasks, MEAN]:
        ends = {}
        for views, found in fitted.items():
            constant, slope = pictures.fit(draws, found, name).T
            ends[views] = constant + slope * np.log10(PUBLISHED)
            published = str(paper.cell(name)) if views == MAIN and name != MEAN else ""
            at_end = spread(Estimate.of(ends[views]), brief=True)
            gains = [spread(Estimate.of(each)) for each in (slope, last_gain(draws, found, name))]
            rows.append([name, views, *gains, at_end, published])
        if len(ends) == len(SIZED):
            first, second = (ends[views] for views in SIZED)
            rows.append([name, " - ".join(SIZED), "", "", spread(Estimate.of(first - second)), ""])
    return [*lines, *table(["score", "views", "gain", "last gain", "at 40 million", "published"], rows)]


def last_gain(draws: Draws, rows: Mapping[Row, float], score: str) -> np.ndarray:
    """How much a score rises between the two largest different numbers, per unit, for each draw: ``(1 + B,)``."""
    larger = max(rows, key=lambda row: rows[row])
    # There may be less text than the largest corpora ask for, which are then the same.
    smaller = max((row for row in rows if rows[row] < rows[larger]), key=lambda row: rows[row])
    found: np.ndarray = (draws.of(larger, score) - draws.of(smaller, score)) / (rows[larger] - rows[smaller])
    return found


def quality_page(
    plan: Plan, draws: Draws, agreement: Mapping[str, Mapping[str, float]], sentences: Mapping[str, int]
) -> Page:
    """Scores by the quality of the trees."""
    own = {"las": OWN_LAS, "uas": OWN_UAS, "f1": OWN_F1}
    quality = {
        row: {name: own[name] * (agreement[row.trees][name] / 100 if row.trees != BUILTIN else 1) for name in own}
        for row in plan.quality
        if draws.has(row)
    }
    tested = against(draws, list(quality), plan.quality[0])
    names = [*draws.tasks, MEAN]
    rows = []
    for row, scores in quality.items():
        verdict = tested.get(row)
        last = [spread(verdict.difference), f"{verdict.p:.3f}"] if verdict else ["", ""]
        figures = [spread(draws.estimate(row, name), brief=True) for name in names]
        title = "built-in parser" if row.trees == BUILTIN else row.title.removeprefix(f"{MAIN}, ")
        rows.append([title, *(f"{scores[name]:.1f}" for name in own), *figures, *last])
    lines = ["# The quality of the parser", ""]
    lines += paragraph(
        f"This page asks how good trees must be. `{MAIN}` was trained on {sentences[str(plan.sizes.studied)]:,} "
        "sentences with trees of the built-in parser, with the same trees and noise, and with trees that are not "
        "syntax; the tasks' sentences have trees of the same kind. All else is as on [the page of the "
        "pairs](view-pairs.md)."
    )
    lines += paragraph(
        "Noise: of each sentence, a share of the words gets another head or, in 18 of 100 cases, another relation, as "
        "often as the parser errs in the one or the other; and the same share of the constituents below the root is "
        "rotated, ((a b) c) to (a (b c)) or back. LAS, UAS and F1 are those of the parser on GUM's development "
        f"section, {OWN_LAS}, {OWN_UAS} and {OWN_F1}, times the agreement of the trees with the parser's own on the "
        "held-out documents. The views read heads and constituents, but neither relations nor labels. Trees that are "
        "not syntax have none of either, so their LAS and F1 are near 0 whatever their heads and constituents are. "
        "Differences are from the built-in parser, p corrected by Holm's method for this table."
    )
    lines += [*table(["trees", "LAS", "UAS", "F1", *names, "difference", "p"], rows), ""]
    lines += ["![The mean of the tasks by labelled attachment score](../images/parser-quality.svg)", ""]
    lines += slope(draws, {row: scores["las"] for row, scores in quality.items() if is_parsed(row)})
    series = {
        "built-in parser, with noise": {row: scores["las"] for row, scores in quality.items() if is_parsed(row)},
        "not syntax": {row: scores["las"] for row, scores in quality.items() if not is_parsed(row)},
    }
    fitted = ["built-in parser, with noise"] if len(series["built-in parser, with noise"]) > 1 else []
    draw = lambda: pictures.lines(draws, series, "labelled attachment score", fitted=fitted)  # noqa: E731
    return lines, ("Mean of the tasks by labelled attachment score", draw)


def is_parsed(row: Row) -> bool:
    """Whether its trees are the built-in parser's, with noise or without."""
    return row.trees == BUILTIN or row.trees.startswith(NOISE)


def slope(draws: Draws, rows: Mapping[Row, float]) -> Sequence[str]:
    """What ten points of LAS bring."""
    if len(rows) < 2:
        return []
    _, found = pictures.fit(draws, rows, MEAN).T
    return list(
        paragraph(
            f"Ten points of LAS are worth {spread(Estimate.of(10 * found))} in the mean of the tasks: a line fitted by "
            "least squares to the parser's trees with noise and without, for each draw of the bootstrap."
        )
    )
