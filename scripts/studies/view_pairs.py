"""Do two different structures teach each other more than one seen twice? The prose of its pages."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np

from structviews.evaluation.scores.published import SENTEVAL
from structviews.evaluation.scores.tables import published_rows
from studies import pages
from studies.intervals import MEAN, Draws, Estimate, claim_between, verdicts
from studies.pages import Found, spread, table
from studies.rows import BUILTIN, CONTROL, MAIN, NOISE, Row
from studies.view_pairs_plan import (
    BATCH,
    BILINEAR,
    CRITICISED,
    HIDDEN,
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
# Of the built-in parser on GUM's development section, in 8 bits: docs/parser.md.
OWN_LAS, OWN_UAS, OWN_F1 = 86.88, 89.22, 85.97
# The six pairs, as the author's table calls them.
THEIR_NAMES = ("SEQ, SEQ", "DEP, DEP", "CONST, CONST", "DEP, CONST", "DEP, SEQ", "SEQ, CONST")
# What the paper trained on.
PUBLISHED = 40_000_000
PAPER, PAPERS_ROW = "S", "DEP, CONST"


def write_pages(stored: Path, docs: Path) -> list[Path]:
    """Write the pages and pictures below a folder of documentation; their paths."""
    found = Found.read(Plan(), stored)
    parts = [introduction, pages.discussion, scores, six, critics, partners]
    parts += [claims_of, choices, pages.probing, pages.method, limits]
    means = {row: found.draws.estimate(row, MEAN) for row in found.plan.table}
    size, draw_size = size_page(found)
    quality, draw_quality = quality_page(found)
    main = [row_of(found.plan, MAIN)]
    pictures = {
        NAME: ("Mean of the tasks by row, with intervals", lambda: pages.draw_intervals(means, main)),
        "size": ("Mean of the tasks by the size of the corpus", draw_size),
        "parser-quality": ("Mean of the tasks by labelled attachment score", draw_quality),
    }
    return [
        pages.write_page(docs, NAME, (*(part(found) for part in parts), pages.effort(found, NAME))),
        pages.write_page(docs, "size", [size]),
        pages.write_page(docs, "parser-quality", [quality]),
        *(pages.write_picture(docs, name, *picture) for name, picture in pictures.items()),
    ]


def row_of(plan: Plan, title: str) -> Row:
    """A row of the table."""
    return next(row for row in plan.table if row.title == title)


def prose(found: Found, part: str, **values: object) -> Iterator[str]:
    """A part of the text, with what several parts name."""
    studied, tasks = found.trees["sentences"][str(STUDIED)], len(found.draws.tasks)
    common = {"main": MAIN, "control": CONTROL, "batch": BATCH, "hidden": HIDDEN, "studied": studied, "tasks": tasks}
    return pages.prose(NAME, part, **common | values)


def introduction(found: Found) -> Iterator[str]:
    """The answer, and what was trained."""
    main = verdicts(found.draws, claims(found.plan))[0]
    sentences = found.trees["sentences"]
    yield from prose(
        found,
        "introduction",
        says=SAYS[main.word],
        difference=spread(main.difference),
        p=main.difference.p,
        corrected=main.p,
        twice=" ".join(twice(found)),
        sentences=sentences[str(SENTENCES)],
        held_out=sentences["held-out"],
    )


# What a verdict says of a claim.
SAYS = {"shows": "shows it", "does not show": "does not show it", "reversed": "shows the reverse"}


def twice(found: Found) -> Iterator[str]:
    """How the main pair compares with each of its structures seen twice."""
    own = row_of(found.plan, MAIN)
    for view in MAIN.split(","):
        row = row_of(found.plan, f"{view},{view}")
        difference = found.draws.difference([(1, own, MEAN), (-1, row, MEAN)])
        yield f"`{MAIN}` minus `{row.views}` is {spread(difference)}."


def partners(found: Found) -> Iterator[str]:
    """What a view learns from its partner, apart from what the partner's vector adds to its own."""
    plan = found.plan
    yield from prose(found, "partners")
    usual = {view: next(row for row in plan.single if row.views == single(view, view)) for view in STRUCTURES}
    yield from pages.differences(found, plan.single, lambda row: usual[row.members[0][0]])
    yield from joined(found)


def joined(found: Found) -> Iterator[str]:
    """Views that were trained apart and then joined, beside pairs that were trained together."""
    plan = found.plan
    pairs = dict(zip(plan.apart[1::2], plan.apart[::2], strict=True))
    yield from prose(found, "joined")
    yield from pages.differences(found, plan.apart, lambda row: pairs.get(row, row))
    yield from prose(found, "apart")
    yield from pages.compared(found, [(row, pair) for row in plan.apart[1::2] for _, pair in row.members])


def scores(found: Found) -> Iterator[str]:
    """The table of all rows."""
    plan = found.plan
    yield from prose(found, "scores")
    yield from pages.differences(found, plan.table, lambda row: row_of(plan, CONTROL))
    yield "![The mean of the tasks for each row, with intervals](../images/view-pairs.svg)"
    yield ""


def six(found: Found) -> Iterator[str]:
    """The six pairs of sequence, dependencies and constituents against each other."""
    rows = [row_of(found.plan, views) for views in SIX]
    yield from prose(found, "six")
    yield from pages.compared(found, [(a, b) for place, a in enumerate(rows) for b in rows[place + 1 :]])


def critics(found: Found) -> Iterator[str]:
    """Pairs with the inner product and with the bilinear critic, beside the author's table."""
    plan = found.plan
    yield from prose(found, "critics")
    yield from pages.differences(found, plan.critics, plan.usual)
    with_critic = {row.views: row for row in plan.critics if row.critic == BILINEAR}
    main, *others = (with_critic[views] for views in CRITICISED)
    yield from prose(found, "bilinear")
    yield from pages.compared(found, [(main, other) for other in others])
    rows = []
    theirs = {key: row.cells[-1] for key, row in published_rows(SENTEVAL.parts.keys(), [SENTEVAL]).items()}
    for views, name in zip(SIX, THEIR_NAMES, strict=True):
        bilinear = found.draws.estimate(with_critic[views], MEAN) if views in with_critic else None
        inner = found.draws.estimate(row_of(plan, views), MEAN)
        figures = [str(theirs["T", f"{name} (UMBC 40M)"]), spread(inner, brief=True)]
        rows.append([views, *figures, spread(bilinear, brief=True) if bilinear else ""])
    yield from prose(found, "author")
    yield from table(["pair", "the author's", f"ours, {SENTENCES:,}, inner", f"ours, {STUDIED:,}, bilinear"], rows)
    yield ""
    yield pages.remarks(found.stored, "critics")


def claims_of(found: Found) -> Iterator[str]:
    """The claims with their verdicts."""
    yield from prose(found, "claims")
    yield from pages.decided(found, claims(found.plan))


def choices(found: Found) -> Iterator[str]:
    """The studies of trees that are not syntax, of batches, of objectives, and of channels."""
    plan = found.plan
    for title, rows, name, note in (
        ("## Syntax, or shape", plan.shape, attrgetter("title"), ""),
        ("## Sentences in a batch", plan.batches, lambda row: str(row.batch), ""),
        ("## Objectives", plan.objectives, objective_title, pages.PROSE[NAME]["component"]),
        ("## Channels", plan.channels, attrgetter("title"), ""),
    ):
        yield from prose(found, "choices", title=title, note=note)
        yield from pages.differences(found, rows, plan.usual, name)


def objective_title(row: Row) -> str:
    """A row's name among the objectives."""
    return ", ".join(part for part in (row.views, row.objective, row.vectors) if part)


def limits(found: Found) -> Iterator[str]:
    """What the study cannot tell."""
    (_, first), *others = Counter(each.about["data"] for each in found.draws.loaded.values()).most_common()
    again = sum(number for _, number in others)
    yield from prose(found, "limits", first=first, again=again)


def size_page(found: Found) -> tuple[list[str], Callable[[], object]]:
    """Scores by the size of the corpus, with what people say about them."""
    draws, sentences = found.draws, found.trees["sentences"]
    series = {
        views: {row: float(np.log10(sentences[str(row.sentences)])) for row in found.plan.size if row.views == views}
        for views in SIZED
    }
    names = [*draws.tasks, MEAN]
    rows = [
        [views, f"{sentences[str(row.sentences)]:,}", str(len(draws.runs[row]))]
        + [spread(draws.estimate(row, name), brief=True) for name in names]
        for views, its in series.items()
        for row in its
    ]
    lines = [*prose(found, "size"), *table(["views", "sentences", "seeds", *names], rows), ""]
    lines += ["![The mean of the tasks by the size of the corpus, with fitted lines](../images/size.svg)", ""]
    lines += gaps(found, list(series.values()))
    lines += [pages.remarks(found.stored, "size"), *extrapolated(draws, series)]
    far = float(np.log10(PUBLISHED))
    return lines, lambda: pages.draw_lines(draws, series, "sentences, powers of ten", fitted=SIZED, far=far)


def gaps(found: Found, series: Sequence[Mapping[Row, float]]) -> Iterator[str]:
    """How far the first pair is above the second one on each corpus."""
    first, second = ({row.sentences: row for row in rows} for rows in series)
    sizes = [size for size in first if size in second]
    yield from prose(found, "gaps")
    names = [f"{found.trees['sentences'][str(size)]:,}" for size in sizes]
    yield from pages.compared(found, [(first[size], second[size]) for size in sizes], "sentences", names)


def extrapolated(draws: Draws, series: Mapping[str, Mapping[Row, float]]) -> list[str]:
    """What the fits say about the paper's size, beside its row."""
    rows_of_papers = published_rows(draws.tasks).items()
    paper = next(row for (key, name), row in rows_of_papers if key == PAPER and name.startswith(PAPERS_ROW))
    printed = dict(zip(draws.tasks, map(str, paper.cells), strict=True))
    rows = []
    for name in [*draws.tasks, MEAN]:
        ends = {}
        for views, found in series.items():
            constant, slope = pages.fit(draws, found, name).T
            ends[views] = constant + slope * np.log10(PUBLISHED)
            published = printed[name] if views == MAIN and name != MEAN else ""
            at_end = spread(Estimate.of(ends[views]), brief=True)
            gains = [spread(Estimate.of(each)) for each in (slope, last_gain(draws, found, name))]
            rows.append([name, views, *gains, at_end, published])
        first, second = (ends[views] for views in SIZED)
        rows.append([name, " - ".join(SIZED), "", "", spread(Estimate.of(first - second)), ""])
    lines = pages.prose(NAME, "extrapolated")
    return [*lines, *table(["score", "views", "gain", "last gain", "at 40 million", "published"], rows)]


def last_gain(draws: Draws, rows: Mapping[Row, float], score: str) -> np.ndarray:
    """How much a score rises between the two largest different numbers, per unit, for each draw: ``(1 + B,)``."""
    larger = max(rows, key=lambda row: rows[row])
    # There may be less text than the largest corpora ask for, which are then the same.
    smaller = max((row for row in rows if rows[row] < rows[larger]), key=lambda row: rows[row])
    return (draws.of(larger, score) - draws.of(smaller, score)) / (rows[larger] - rows[smaller])


def quality_page(found: Found) -> tuple[list[str], Callable[[], object]]:
    """Scores by the quality of the trees."""
    plan, draws, agreement = found.plan, found.draws, found.trees["agreement"]
    own = {"las": OWN_LAS, "uas": OWN_UAS, "f1": OWN_F1}
    quality = {
        row: {name: own[name] * (agreement[row.trees][name] / 100 if row.trees != BUILTIN else 1) for name in own}
        for row in plan.quality
    }
    usual = plan.quality[0]
    asked = [claim_between(row, usual) for row in quality if row != usual]
    tested = {verdict.claim.terms[0][1]: verdict for verdict in verdicts(draws, asked)}
    names = [*draws.tasks, MEAN]
    rows = []
    for row, scores in quality.items():
        verdict = tested.get(row)
        last = [spread(verdict.difference), f"{verdict.p:.3f}"] if verdict else ["", ""]
        figures = [spread(draws.estimate(row, name), brief=True) for name in names]
        title = "built-in parser" if row.trees == BUILTIN else row.title.removeprefix(f"{MAIN}, ")
        rows.append([title, *(f"{scores[name]:.1f}" for name in own), *figures, *last])
    lines = [*prose(found, "quality"), *prose(found, "noise", las=OWN_LAS, uas=OWN_UAS, f1=OWN_F1)]
    lines += [*table(["trees", "LAS", "UAS", "F1", *names, "difference", "p"], rows), ""]
    lines += ["![The mean of the tasks by labelled attachment score](../images/parser-quality.svg)", ""]
    fitted = "built-in parser, with noise"
    series: dict[str, dict[Row, float]] = {fitted: {}, "not syntax": {}}
    for row, scores in quality.items():
        parsed = row.trees == BUILTIN or row.trees.startswith(NOISE)
        series[fitted if parsed else "not syntax"][row] = scores["las"]
    _, slopes = pages.fit(draws, series[fitted], MEAN).T
    lines += prose(found, "worth", worth=spread(Estimate.of(10 * slopes)))
    return lines, lambda: pages.draw_lines(draws, series, "labelled attachment score", fitted=[fitted])
