"""The study's pages, every figure from the files that are kept."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from pairs import pictures
from pairs.claims import Claim, claim_between, claims, verdicts
from pairs.draws import MEAN, PROBING, Draws
from pairs.kept import NEXT
from pairs.markdown import paragraph, spread, table
from pairs.plan import CONTROL, MAIN, SIX, STRUCTURES, Plan, Row, single
from pairs.studies import quality_page, size_page
from structviews.errors import InputError

COMMANDS = """\
<!-- not run: the record of a larger job -->

    python scripts/view_pairs.py run --texts modern-*.txt.zst novels-*.txt.zst --senteval senteval -o view-pairs
    python scripts/view_pairs.py pages
"""


@dataclass(frozen=True)
class Found:
    """All that the pages read.

    Attributes:
        plan: the rows.
        draws: their scores.
        trees: how other trees agree with the parser's, and the sizes of the corpora.
        stages: seconds of each stage.
        discussion: what people say about it; see ``remarks``.
    """

    plan: Plan
    draws: Draws
    trees: dict[str, Any]
    stages: dict[str, int]
    discussion: str

    def there(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that have scores."""
        return [row for row in rows if self.draws.has(row)]


def write_pages(plan: Plan, kept: Path, docs: Path) -> list[Path]:
    """Write the pages and pictures below a folder of documentation; their paths.

    Raises:
        InputError: if there are no scores of the main pair and of the control.
    """
    main, control = (row_of(plan, views) for views in (MAIN, CONTROL))
    found = read_found(plan, kept, main, control)
    draws = found.draws
    pages = {
        "view-pairs": pairs_page(found),
        "size": size_page(plan, draws, found.trees["sentences"], remarks(kept, "size")),
        "parser-quality": quality_page(plan, draws, found.trees["agreement"], found.trees["sentences"]),
    }
    images = docs / "images"
    rows = found.there(plan.table)
    means = {row: draws.estimate(row, MEAN) for row in rows}
    pictures.write(
        images / "view-pairs.svg", "Mean of the tasks by row, with intervals", lambda: pictures.intervals(means, [main])
    )
    written = [images / "view-pairs.svg"]
    for name, (lines, picture) in pages.items():
        path = docs / "results" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        written.append(path)
        if picture:
            pictures.write(images / f"{name}.svg", *picture)
            written.append(images / f"{name}.svg")
    return written


def read_found(plan: Plan, kept: Path, *needed: Row) -> Found:
    """Read all that is kept of a study.

    Raises:
        InputError: if one of the rows that are needed has no scores.
    """
    draws = Draws(plan, kept)
    if not draws.has(*needed):
        raise InputError(f"{kept}: no scores of {' and '.join(row.name for row in needed)}: run the study first")
    trees, stages = (json.loads((kept / f"{name}.json").read_text("utf-8")) for name in ("trees", "stages"))
    return Found(plan, draws, trees, stages, remarks(kept, "discussion"))


def remarks(kept: Path, name: str) -> str:
    """What people say about results, in Markdown; empty if they have not yet."""
    file = kept / f"{name}.txt"
    return file.read_text("utf-8") if file.exists() else ""


def row_of(plan: Plan, title: str) -> Row:
    """A row of the table."""
    return next(row for row in plan.table if row.title == title)


def pairs_page(found: Found) -> tuple[list[str], None]:
    """The page of the table."""
    parts = (introduction, discussion, scores, six, partners, claims_of, choices, probing, method, limits, effort)
    return [line for part in parts for line in part(found)], None


def introduction(found: Found) -> Iterator[str]:
    """The answer, and what was trained."""
    main = verdicts(found.draws, claims(found.plan))[0]
    sizes, sentences = found.plan.sizes, found.trees["sentences"]
    yield "# Two structures, or one seen twice"
    yield ""
    yield from paragraph(
        "This page asks whether two different structures of a sentence teach each other more than one structure seen "
        f"twice. The main claim is that dependencies with constituents (`{MAIN}`) are better than two sequences "
        f"(`{CONTROL}`): this study {SAYS[main.word]}. The difference in the mean of {len(found.draws.tasks)} tasks is "
        f"{spread(main.difference)}, p = {main.difference.p:.3f}, and {main.p:.3f} corrected for all claims below. "
        + " ".join(twice(found))
    )
    done, planned = len(found.draws.known), len(found.plan.runs())
    if done < planned:
        yield from paragraph(f"Preliminary: {done} of {planned} runs have scores so far.")
    if not found.draws.deviation(MEAN)[1]:
        yield from paragraph("No row has several seeds so far, so that intervals are over examples alone.")
    yield from paragraph(
        f"All pairs were trained alike: {sentences[str(sizes.sentences)]:,} sentences, modern text and novels half and "
        f"half, one epoch, batches of {sizes.batch}, the pairwise objective, {sizes.hidden} dimensions per view, and "
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
    yield COMMANDS
    yield from paragraph(
        "These commands reproduce all of it, these pages included; with `--quick`, at a hundredth of the size."
    )


# What a verdict says of a claim.
SAYS = {"shows": "shows it", "does not show": "does not show it", "reversed": "shows the reverse"}


def twice(found: Found) -> Iterator[str]:
    """How the main pair compares with each of its structures seen twice."""
    own = row_of(found.plan, MAIN)
    for view in MAIN.split(","):
        row = row_of(found.plan, f"{view},{view}")
        if found.draws.has(row):
            difference = found.draws.difference([(1, own, MEAN), (-1, row, MEAN)])
            yield f"`{MAIN}` minus `{row.views}` is {spread(difference)}."


def partners(found: Found) -> Iterator[str]:
    """What a view learns from its partner, apart from what the partner's vector adds to its own."""
    plan = found.plan
    if not found.there(plan.single):
        return
    yield "## Taught, or only joined"
    yield ""
    yield from paragraph(
        "Two structures have two kinds of vectors, which may know more together even if neither taught the other. So "
        "here is one view of each pair by itself. If two structures teach each other, a view is better trained with "
        f"another structure than with its own kind. {studied(found)} The difference is from the view trained with its "
        "own kind; p is corrected by Holm's method for this table."
    )
    usual = {view: next(row for row in plan.single if row.views == single(view, view)) for view in STRUCTURES}
    yield from differences(found, plan.single, lambda row: usual[row.parts[0][0]])
    yield ""
    yield from joined(found)


def joined(found: Found) -> Iterator[str]:
    """Views that were trained apart and then joined, beside pairs that were trained together."""
    plan = found.plan
    pairs = dict(zip(plan.apart[1::2], plan.apart[::2], strict=True))
    if rows := found.there(plan.apart):
        yield from paragraph(
            "And this is the pair beside two views that were trained apart, each with its own kind, and then joined: "
            "what training together adds. The difference is from the pair."
        )
        yield from differences(found, rows, lambda row: pairs.get(row, row))
        yield ""
    same = [(row, pair) for row in found.there(plan.apart[1::2]) for _, pair in row.parts if found.draws.has(pair)]
    if same:
        yield from paragraph(
            "And these are joined views minus pairs of one structure, which have as many dimensions: what two "
            "structures bring if neither taught the other. p is corrected by Holm's method for this table."
        )
        yield from compared(found, same)


def differences(
    found: Found, rows: Sequence[Row], usual: Callable[[Row], Row], name: Callable[[Row], str] = attrgetter("title")
) -> Iterator[str]:
    """A table of the tasks, with each row's difference from another one, p corrected for all of the table."""
    draws, names = found.draws, [*found.draws.tasks, MEAN, NEXT, *([PROBING] if PROBING in found.draws.scores else [])]
    rows = found.there(rows)
    asked = [claim_between(row, usual(row)) for row in rows if row != usual(row)]
    tested = {verdict.claim.terms[0][1]: verdict for verdict in verdicts(draws, asked)}
    lines = []
    for row in rows:
        about = [str(draws.known[draws.runs[row][0]].about["dim"]), str(len(draws.runs[row]))]
        figures = [spread(draws.estimate(row, each), brief=True) for each in names]
        last = [spread(tested[row].difference), f"{tested[row].p:.3f}"] if row in tested else ["", ""]
        lines.append([name(row), *about, *figures, *last])
    yield from table(["", "dim", "seeds", *names, "difference", "p"], lines)


def scores(found: Found) -> Iterator[str]:
    """The table of all rows."""
    plan = found.plan
    yield "## The table"
    yield ""
    yield from paragraph(
        "Scores in per cent, correlations x 100; next sentence: mean reciprocal rank among a thousand, or fewer for a "
        "small corpus; probing: the mean of the probing tasks. ± is half of a 95 % interval over seeds and examples. "
        f"The last columns are a row's mean of the tasks minus that of `{CONTROL}`, with its 95 % interval, and p "
        "corrected by Holm's method for all rows. Rows differ in dimensions: compare those of the same number. Trees "
        "that are not syntax are those of the [control parsers](../parsers.md#controls): balanced, right-branching, "
        "and random with random heads. Untrained rows and words alone are [baselines](../representations.md). No row "
        "is left out."
    )
    yield from differences(found, plan.table, lambda row: row_of(plan, CONTROL))
    yield ""
    yield "![The mean of the tasks for each row, with intervals](../images/view-pairs.svg)"
    yield ""


def discussion(found: Found) -> Iterator[str]:
    """What people say about it."""
    if found.discussion:
        yield found.discussion


def six(found: Found) -> Iterator[str]:
    """The six pairs of sequence, dependencies and constituents against each other."""
    rows = found.there([row_of(found.plan, views) for views in SIX])
    yield "## The six pairs against each other"
    yield ""
    yield from paragraph("Differences of the mean of the tasks, p corrected by Holm's method for all of this table.")
    yield from compared(found, [(a, b) for place, a in enumerate(rows) for b in rows[place + 1 :]])


def compared(found: Found, pairs: Sequence[tuple[Row, Row]]) -> Iterator[str]:
    """The table of the differences of pairs of rows."""
    tested = verdicts(found.draws, [claim_between(*pair) for pair in pairs])
    lines = [[each.claim.text, spread(each.difference), f"{each.p:.3f}"] for each in tested]
    yield from table(["pairs", "difference", "p"], lines)
    yield ""


def claims_of(found: Found) -> Iterator[str]:
    """The claims with their verdicts."""
    yield "## The claims"
    yield ""
    yield from paragraph(
        "Claims of [structured views](../citing.md) by its sections, those without a section being ours. The "
        "difference is above 0 if the claim holds; in the mean of the tasks unless a task is named. A claim is decided"
        " by its p, corrected by Holm's method for all claims: below 0.05 the study *shows* it or finds it *reversed*;"
        " otherwise it *does not show* it, which is no proof of the contrary."
    )
    yield from decided(found, claims(found.plan))


def decided(found: Found, asked: Sequence[Claim]) -> Iterator[str]:
    """The table of the verdicts on claims."""
    sections = any(each.section for each in asked)
    lines = []
    for each in verdicts(found.draws, asked):
        section = [each.claim.section] if sections else []
        lines.append([*section, each.claim.text, each.word, spread(each.difference), f"{each.p:.3f}"])
    head = ["claim", "verdict", "difference", "p"]
    yield from table(["section", *head] if sections else head, lines, texts=len(head) - 2 + sections)
    yield ""


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
        yield title
        yield ""
        yield from paragraph(
            f"{studied(found)} The difference is that of the mean of the tasks from the same pair with the parser's "
            f"trees, batches of {plan.sizes.batch}, the pairwise objective and fixed word vectors; p is corrected by "
            f"Holm's method for this table.{note}"
        )
        yield from differences(found, rows, plan.usual, name)
        yield ""


def objective_title(row: Row) -> str:
    """A row's name among the objectives."""
    return ", ".join(part for part in (row.views, row.objective, row.vectors) if part)


def studied(found: Found) -> str:
    """What the studies are trained on."""
    sentences = found.trees["sentences"][str(found.plan.sizes.studied)]
    return f"Trained on {sentences:,} of the sentences."


def probing(found: Found, name: Callable[[Row], str] = attrgetter("title")) -> Iterator[str]:
    """The table of the probing tasks."""
    draws = found.draws
    yield "## Probing tasks"
    yield ""
    yield from paragraph(
        "Accuracy in per cent on [tasks](../probing.md) made from the held-out documents, with the built-in parser's "
        "trees. Intervals are left out; they are as wide as the tests are small."
    )
    lines = [
        [name(row), *(f"{draws.of(row, task)[0]:.1f}" for task in draws.probing)]
        for row in found.there(found.plan.table)
    ]
    yield from table(["", *draws.probing], lines)
    yield ""


def method(found: Found) -> Iterator[str]:
    """How intervals and tests are computed."""
    deviation, freedom = found.draws.deviation(MEAN)
    yield "## Intervals and tests"
    yield ""
    yield from paragraph(
        "Test examples are drawn with replacement, 2,000 times, the same ones for all rows, so that differences are "
        "paired: STS 2014's sets separately, whole documents for the next sentence, tasks independently of each other."
        " To a row's mean over its seeds each draw adds a seed's deviation: Student's t, times the standard deviation "
        f"over seeds, which is pooled over all trained rows with several seeds ({deviation:.2f} in the mean of the "
        f"tasks, {freedom} degrees of freedom), over the root of the number of seeds. So trained rows of one "
        "seed have it too. "
        "Intervals are from the 2.5th to the 97.5th percentile. p is twice the share of draws on the other side of 0, "
        "at least 0.001: a table's smallest p is a bound. The classifiers of the tasks are fixed, and so are the "
        "corpus and the words."
    )


def limits(found: Found) -> Iterator[str]:
    """What the study cannot tell."""
    yield "## Limits"
    yield ""
    yield from paragraph(
        "No view sees capitals, since the word vectors are those of lower-cased words. These vectors were learnt on "
        "all of the text, the held-out documents included. SICK-R, SICK-E and SICK14 have the same sentences, but "
        "their test examples are drawn independently, so intervals of the mean are a little too narrow. Quick-thoughts "
        f"takes two encoders of one kind, so objectives are compared on `{CONTROL}`. Noise changes trees at random, "
        "and a parser's errors are not random. All trees are the built-in parser's, for English alone."
    )
    (_, first), *others = Counter(each.about["data"] for each in found.draws.known.values()).most_common()
    if others:
        again = sum(number for _, number in others)
        yield from paragraph(
            f"{first} runs and {again} others were scored on different machines, each of which parsed the held-out "
            "documents itself. Parsers differ in a few trees from one processor to another, and so do the probing "
            "tasks that are made of these trees: between these rows, probing scores compare only roughly."
        )


def effort(found: Found, where: str = "view-pairs", title: Callable[[Row], str] = attrgetter("title")) -> Iterator[str]:
    """Hours, versions, what is missing, and the rate of each kind of run."""
    abouts = [each.about for each in found.draws.known.values()]
    training = sum(each["training"]["minutes"] for each in abouts if "training" in each) / 60
    scoring = sum(each["scoring minutes"] for each in abouts) / 60
    partial = sorted({task for each in abouts for task in each["partial"]})
    made = "corpora, words, trees and states" if "states" in found.stages else "corpora, words and trees"
    yield "## What it took"
    yield ""
    yield from paragraph(
        f"{len(abouts)} of {len(found.plan.runs())} runs, each with one thread: {training:.1f} hours of training, at "
        f"the median rate of a run's steps, and {scoring:.1f} of scoring; before them, "
        f"{sum(found.stages.values()) / 3600:.1f} hours to make {made}. structviews "
        f"{abouts[0]['versions']['structviews']}, PyTorch {abouts[0]['versions']['torch']}, "
        f"{abouts[0]['versions']['machine']}. What each run scored, example by example, is in "
        f"`docs/results/{where}/runs`."
        + (f" Only part of these tasks was there: {', '.join(partial)}." if partial else "")
        + " Sentences/s are the median over runs."
    )
    yield from table(["", "runs", "sentences/s", "hours"], rates(found, title))


def rates(found: Found, title: Callable[[Row], str]) -> Iterator[list[str]]:
    """What was trained, whatever the size: number of runs, their median rate, and their hours together."""
    kinds: dict[str, list[dict[str, float]]] = {}
    for run, kept in found.draws.known.items():
        if run.row.trained:
            kinds.setdefault(title(run.row), []).append(kept.about["training"])
    for kind, each in kinds.items():
        rate = median(training["sentences a second"] for training in each)
        hours = sum(training["minutes"] for training in each) / 60
        yield [kind, str(len(each)), f"{rate:,.0f}", f"{hours:.2f}"]


def readme_rows(plan: Plan, kept: Path) -> list[str]:
    """Three rows for the README: the control, dependencies seen twice, and the main pair."""
    draws = Draws(plan, kept)
    rows = [row_of(plan, views) for views in (CONTROL, "dep,dep", MAIN)]
    lines = [[f"`{row.title}`", spread(draws.estimate(row, MEAN), brief=True)] for row in rows if draws.has(row)]
    return list(table(["views", "mean of the tasks"], lines))
