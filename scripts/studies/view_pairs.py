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
from studies.pages import Found, paragraph, section, spread, table
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
# Where the script is that made the runs.
COMMIT = "971d152"
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


def introduction(found: Found) -> Iterator[str]:
    """The answer, and what was trained."""
    main = verdicts(found.draws, claims(found.plan))[0]
    sentences = found.trees["sentences"]
    yield from section(
        "# Two structures, or one seen twice",
        "This page asks whether two different structures of a sentence teach each other more than one structure seen "
        f"twice. The main claim is that dependencies with constituents (`{MAIN}`) are better than two sequences "
        f"(`{CONTROL}`): this study {SAYS[main.word]}. The difference in the mean of {len(found.draws.tasks)} tasks is "
        f"{spread(main.difference)}, p = {main.difference.p:.3f}, and {main.p:.3f} corrected for all claims below. "
        + " ".join(twice(found)),
    )
    yield from paragraph(
        f"All pairs were trained alike: {sentences[str(SENTENCES)]:,} sentences, modern text and novels half and "
        f"half, one epoch, batches of {BATCH}, the pairwise objective, {HIDDEN} dimensions per view, and "
        "fixed word vectors (skip-gram with sub-words, lower case, learnt on all of the text). Other settings are the "
        "defaults. For all scores, each view's vector is scaled to length 1 "
        f"(`--normalise`). {sentences['held-out']:,} sentences of other documents are held out: the probing tasks are "
        "made of them, and so is the retrieval of the next sentence. Related pages: [size](size.md), [parser "
        "quality](parser-quality.md)."
    )
    yield from paragraph(
        "The corpus is whole documents: those of each kind of text are shuffled with a seed; the first ones are held "
        "out, and the following ones are taken until there are enough sentences. So smaller corpora are parts of "
        "larger ones."
    )
    yield """\
<!-- not run: the record of a larger job -->

    python scripts/study.py view-pairs
"""
    yield from paragraph(
        f"This makes these pages again from what the runs scored, in `docs/results/{NAME}`. The script that made the "
        f"corpora and the runs is in the project's history, at commit {COMMIT}: `scripts/view_pairs.py`."
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
    yield from section(
        "## Taught, or only joined",
        "Two structures have two kinds of vectors, which may know more together even if neither taught the other. So "
        "here is one view of each pair by itself. If two structures teach each other, a view is better trained with "
        f"another structure than with its own kind. {studied(found)} The difference is from the view trained with its "
        "own kind; p is corrected by Holm's method for this table.",
    )
    usual = {view: next(row for row in plan.single if row.views == single(view, view)) for view in STRUCTURES}
    yield from pages.differences(found, plan.single, lambda row: usual[row.members[0][0]])
    yield from joined(found)


def joined(found: Found) -> Iterator[str]:
    """Views that were trained apart and then joined, beside pairs that were trained together."""
    plan = found.plan
    pairs = dict(zip(plan.apart[1::2], plan.apart[::2], strict=True))
    yield from paragraph(
        "And this is the pair beside two views that were trained apart, each with its own kind, and then joined: "
        "what training together adds. The difference is from the pair."
    )
    yield from pages.differences(found, plan.apart, lambda row: pairs.get(row, row))
    yield from paragraph(
        "And these are joined views minus pairs of one structure, which have as many dimensions: what two "
        "structures bring if neither taught the other. p is corrected by Holm's method for this table."
    )
    yield from pages.compared(found, [(row, pair) for row in plan.apart[1::2] for _, pair in row.members])


def scores(found: Found) -> Iterator[str]:
    """The table of all rows."""
    plan = found.plan
    yield from section(
        "## The table",
        "Scores in per cent, correlations x 100; next sentence: mean reciprocal rank among a thousand, or fewer for a "
        "small corpus; probing: the mean of the probing tasks. ± is half of a 95 % interval over seeds and examples. "
        f"The last columns are a row's mean of the tasks minus that of `{CONTROL}`, with its 95 % interval, and p "
        "corrected by Holm's method for all rows. Rows differ in dimensions: compare those of the same number. Trees "
        "that are not syntax are those of the [control parsers](../parsers.md#controls): balanced, right-branching, "
        "and random with random heads. Untrained rows and words alone are [baselines](../representations.md). No row "
        "is left out.",
    )
    yield from pages.differences(found, plan.table, lambda row: row_of(plan, CONTROL))
    yield "![The mean of the tasks for each row, with intervals](../images/view-pairs.svg)"
    yield ""


def six(found: Found) -> Iterator[str]:
    """The six pairs of sequence, dependencies and constituents against each other."""
    rows = [row_of(found.plan, views) for views in SIX]
    yield from section(
        "## The six pairs against each other",
        "Differences of the mean of the tasks, p corrected by Holm's method for all of this table.",
    )
    yield from pages.compared(found, [(a, b) for place, a in enumerate(rows) for b in rows[place + 1 :]])


def critics(found: Found) -> Iterator[str]:
    """Pairs with the inner product and with the bilinear critic, beside the author's table."""
    plan = found.plan
    yield from section(
        "## The critic, and the author's table",
        "The paper scores two vectors by their inner product. The same study in its author's thesis "
        "([citing](../citing.md)) has a bilinear critic, x W y, with a W for each direction (`--critic bilinear`), and "
        "finds two dependency trees 1.4 below dependencies with constituents, where this study finds them level. So "
        f"here are four pairs with both critics. {studied(found)} The difference is from the same pair with the inner "
        "product; p is corrected by Holm's method for this table.",
    )
    yield from pages.differences(found, plan.critics, plan.usual)
    with_critic = {row.views: row for row in plan.critics if row.critic == BILINEAR}
    main, *others = (with_critic[views] for views in CRITICISED)
    yield from paragraph(
        "And these are the pairs against each other with the bilinear critic, in the mean of the tasks."
    )
    yield from pages.compared(found, [(main, other) for other in others])
    rows = []
    theirs = {key: row.cells[-1] for key, row in published_rows(SENTEVAL.parts.keys(), [SENTEVAL]).items()}
    for views, name in zip(SIX, THEIR_NAMES, strict=True):
        bilinear = found.draws.estimate(with_critic[views], MEAN) if views in with_critic else None
        inner = found.draws.estimate(row_of(plan, views), MEAN)
        figures = [str(theirs["T", f"{name} (UMBC 40M)"]), spread(inner, brief=True)]
        rows.append([views, *figures, spread(bilinear, brief=True) if bilinear else ""])
    yield from paragraph(
        "The author's means of SentEval's seven tasks, of 4,800 dimensions trained on 40 million sentences, beside our "
        f"means of {len(found.draws.tasks)} tasks, which are partly others, of 600 dimensions: only the order of the "
        "pairs can be compared."
    )
    yield from table(["pair", "the author's", f"ours, {SENTENCES:,}, inner", f"ours, {STUDIED:,}, bilinear"], rows)
    yield ""
    yield pages.remarks(found.stored, "critics")


def claims_of(found: Found) -> Iterator[str]:
    """The claims with their verdicts."""
    yield from section(
        "## The claims",
        "Claims of [structured views](../citing.md) by its sections, those without a section being ours. The "
        "difference is above 0 if the claim holds; in the mean of the tasks unless a task is named. A claim is decided"
        " by its p, corrected by Holm's method for all claims: below 0.05 the study *shows* it or finds it *reversed*;"
        " otherwise it *does not show* it, which is no proof of the contrary.",
    )
    yield from pages.decided(found, claims(found.plan))


# Said of the objectives.
COMPONENT = (
    " Consensus maximisation compares vectors without their first principal component, and its authors score them so. "
    "So every objective has rows without that component, too (`--remove-component`), whose difference is from the pair "
    "without it."
)


def choices(found: Found) -> Iterator[str]:
    """The studies of trees that are not syntax, of batches, of objectives, and of channels."""
    plan = found.plan
    for title, rows, name, note in (
        ("## Syntax, or shape", plan.shape, attrgetter("title"), ""),
        ("## Sentences in a batch", plan.batches, lambda row: str(row.batch), ""),
        ("## Objectives", plan.objectives, objective_title, COMPONENT),
        ("## Channels", plan.channels, attrgetter("title"), ""),
    ):
        yield from section(
            title,
            f"{studied(found)} The difference is that of the mean of the tasks from the same pair with the parser's "
            f"trees, batches of {BATCH}, the pairwise objective and fixed word vectors; p is corrected by "
            f"Holm's method for this table.{note}",
        )
        yield from pages.differences(found, rows, plan.usual, name)


def objective_title(row: Row) -> str:
    """A row's name among the objectives."""
    return ", ".join(part for part in (row.views, row.objective, row.vectors) if part)


def studied(found: Found) -> str:
    """What the studies are trained on."""
    sentences = found.trees["sentences"][str(STUDIED)]
    return f"Trained on {sentences:,} of the sentences."


def limits(found: Found) -> Iterator[str]:
    """What the study cannot tell."""
    yield from section(
        "## Limits",
        "No view sees capitals, since the word vectors are those of lower-cased words. These vectors were learnt on "
        "all of the text, the held-out documents included. SICK-R, SICK-E and SICK14 have the same sentences, but "
        "their test examples are drawn independently, so intervals of the mean are a little too narrow. Quick-thoughts "
        f"takes two encoders of one kind, so objectives are compared on `{CONTROL}`. Noise changes trees at random, "
        "and a parser's errors are not random. All trees are the built-in parser's, for English alone.",
    )
    (_, first), *others = Counter(each.about["data"] for each in found.draws.loaded.values()).most_common()
    again = sum(number for _, number in others)
    yield from paragraph(
        f"{first} runs and {again} others were scored on different machines, each of which parsed the held-out "
        "documents itself. Parsers differ in a few trees from one processor to another, and so do the probing "
        "tasks that are made of these trees: between these rows, probing scores compare only roughly."
    )


def size_page(found: Found) -> tuple[list[str], Callable[[], object]]:
    """Scores by the size of the corpus, with what people say about them."""
    draws, sentences = found.draws, found.trees["sentences"]
    series = {
        views: {row: float(np.log10(sentences[str(row.sentences)])) for row in found.plan.size if row.views == views}
        for views in SIZED
    }
    lines: list[str] = []
    lines += section(
        "# The size of the corpus",
        "This page asks how much more views learn from more text. The corpora are parts of one another; all else is as "
        "on [the page of the pairs](view-pairs.md). ± is half of a 95 % interval over seeds and examples.",
    )
    names = [*draws.tasks, MEAN]
    rows = [
        [views, f"{sentences[str(row.sentences)]:,}", str(len(draws.runs[row]))]
        + [spread(draws.estimate(row, name), brief=True) for name in names]
        for views, its in series.items()
        for row in its
    ]
    lines += [*table(["views", "sentences", "seeds", *names], rows), ""]
    lines += ["![The mean of the tasks by the size of the corpus, with fitted lines](../images/size.svg)", ""]
    lines += gaps(found, list(series.values()))
    lines += [pages.remarks(found.stored, "size"), *extrapolated(draws, series)]
    far = float(np.log10(PUBLISHED))
    return lines, lambda: pages.draw_lines(draws, series, "sentences, powers of ten", fitted=SIZED, far=far)


def gaps(found: Found, series: Sequence[Mapping[Row, float]]) -> Iterator[str]:
    """How far the first pair is above the second one on each corpus."""
    first, second = ({row.sentences: row for row in rows} for rows in series)
    sizes = [size for size in first if size in second]
    yield from paragraph(
        f"`{MAIN}` minus `{CONTROL}` in the mean of the tasks, on each of the corpora; p is corrected by Holm's "
        "method for this table."
    )
    names = [f"{found.trees['sentences'][str(size)]:,}" for size in sizes]
    yield from pages.compared(found, [(first[size], second[size]) for size in sizes], "sentences", names)


def extrapolated(draws: Draws, series: Mapping[str, Mapping[Row, float]]) -> list[str]:
    """What the fits say about the paper's size, beside its row."""
    rows_of_papers = published_rows(draws.tasks).items()
    paper = next(row for (key, name), row in rows_of_papers if key == PAPER and name.startswith(PAPERS_ROW))
    printed = dict(zip(draws.tasks, map(str, paper.cells), strict=True))
    lines: list[str] = []
    lines += section(
        "## Forty million sentences",
        "A line is fitted to each score over the logarithm of the number of sentences, by least squares, for each draw"
        " of the bootstrap. The gain is for ten times as many sentences; the last gain is too, but from the two largest"
        " corpora alone. Where it is the smaller one, the curve bends, and the line is too high. The line at 40 million"
        " is an extrapolation: its interval assumes that the line goes on. The published row is that of structured "
        "views, with 4800 dimensions, both channels, other word vectors and another classifier.",
    )
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
    lines: list[str] = []
    lines += section(
        "# The quality of the parser",
        f"This page asks how good trees must be. `{MAIN}` was trained on {found.trees['sentences'][str(STUDIED)]:,} "
        "sentences with trees of the built-in parser, with the same trees and noise, and with trees that are not "
        "syntax; the tasks' sentences have trees of the same kind. All else is as on [the page of the "
        "pairs](view-pairs.md).",
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
    fitted = "built-in parser, with noise"
    series: dict[str, dict[Row, float]] = {fitted: {}, "not syntax": {}}
    for row, scores in quality.items():
        parsed = row.trees == BUILTIN or row.trees.startswith(NOISE)
        series[fitted if parsed else "not syntax"][row] = scores["las"]
    _, slopes = pages.fit(draws, series[fitted], MEAN).T
    lines += paragraph(
        f"Ten points of LAS are worth {spread(Estimate.of(10 * slopes))} in the mean of the tasks: a line fitted by "
        "least squares to the parser's trees with noise and without, for each draw of the bootstrap."
    )
    return lines, lambda: pages.draw_lines(draws, series, "labelled attachment score", fitted=[fitted])
