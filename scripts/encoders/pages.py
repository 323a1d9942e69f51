"""The page of the study of transformers, every figure from the files that are kept."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pairs.claims import Claim
from pairs.draws import MEAN
from pairs.markdown import paragraph, table
from pairs.pages import Found, decided, differences, discussion, effort, method, probing, read_found
from pairs.plan import JOINED, MAIN, Row

from encoders.plan import (
    AVERAGES,
    DEVELOPMENT,
    RATES,
    SIMCSE,
    SIMCSE_BATCH,
    UNTRAINED,
    Measured,
    Plan,
    best,
    rates_measured,
)
from structviews.errors import InputError
from structviews.words import CONTEXTUAL

NAME = "transformers"
# Said of claims whose rows differ so.
WIDER = " (two vectors against one)"
# In place of a score.
NOT_YET = -1000.0


def title(row: Row) -> str:
    """A row's name in the tables."""
    if row.baseline in AVERAGES:
        return row.title
    if row.baseline:
        return f"frozen, {row.baseline}" + f" {row.vectors}" * row.without_component
    if len(row.parts) > 1:
        return f"frozen, mean, joined with {row.views.partition(JOINED)[2]}"
    if row.parts:
        ((_, pair),) = row.parts
        return f"{pair.views}, exported"
    if row.objective == SIMCSE:
        return f"{row.views}, SimCSE"
    return f"{row.views}, contextual words" if row.channels == CONTEXTUAL else row.views


def taught(row: Row) -> str:
    """An exported encoder, in a sentence."""
    ((_, pair),) = row.parts
    return f"the exported encoder trained beside `{pair.views.split(',')[1]}`"


def claims(plan: Plan) -> list[Claim]:
    """What is asked."""
    mean, centred, _ = plan.frozen
    words, contextual = plan.trees

    def above(text: str, better: Row, worse: Row) -> Claim:
        return Claim("", text, ((1, better, MEAN), (-1, worse, MEAN)))

    seq, *syntax = plan.pairs
    seq_alone, *syntax_alone = plan.exported
    trees = "two trees above the encoder's states are better than"
    return [
        above(f"{trees} the mean of these states{WIDER}", contextual, mean),
        above(f"{trees} two sequences above them", contextual, plan.control),
        above(f"{trees} two trees above word vectors", contextual, words),
        above("SimCSE improves the encoder", plan.alone, mean),
        above("SimCSE is better than leaving out the first component of the encoder's mean", plan.alone, centred),
        *(
            above(f"`{row.views}`, trained together, is better than the encoder as it is{WIDER}", row, mean)
            for row in plan.pairs
        ),
        *(
            above(
                f"`{row.views}` is better than the encoder as it is, joined with a `{view}` view trained without it",
                row,
                apart,
            )
            for row, view, apart in zip(syntax, MAIN.split(","), plan.apart, strict=True)
        ),
        *(above(f"`{row.views}` is better than `{seq.views}`", row, seq) for row in syntax),
        *(above(f"{taught(row)} is better than the encoder as it is", row, mean) for row in plan.exported),
        *(above(f"{taught(row)} is better than the one trained with SimCSE", row, plan.alone) for row in plan.exported),
        *(above(f"{taught(row)} is better than the one trained beside `seq`", row, seq_alone) for row in syntax_alone),
    ]


def write_page(plan: Plan, kept: Path, docs: Path) -> Path:
    """Write the study's page below a folder of documentation; its path.

    Raises:
        InputError: if the encoder as it is has no scores, or a run was trained with a learning rate that is not chosen.
    """
    found = read_found(plan, kept, plan.frozen[0])
    check_rates(found, kept)
    page = docs / "results" / f"{NAME}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    parts = (
        introduction,
        scores,
        answers,
        discussion,
        lambda found: probing(found, title),
        method,
        lambda found: learning_rates(found, rates_measured(kept)),
        limits,
        lambda found: effort(found, NAME, title),
    )
    page.write_text("\n".join(line for part in parts for line in part(found)) + "\n", encoding="utf-8")
    return page


def check_rates(found: Found, kept: Path) -> None:
    """Raise InputError if a run was trained with another learning rate than the trials that are kept choose."""
    for run, content in found.draws.known.items():
        if run.row in (found.plan.alone, *found.plan.pairs):
            theirs, chosen = content.about["training"]["encoder_lr"], found.plan.chosen(run.row, kept)
            if theirs != chosen:
                raise InputError(
                    f"{kept / 'runs' / run.name}.json: trained with a learning rate of {theirs:g}, and {RATES} now "
                    f"chooses {chosen:g}: remove it and its run, and run the study again"
                )


def introduction(found: Found) -> Iterator[str]:
    """What was trained, and how."""
    sizes, sentences = found.plan.sizes, found.trees["sentences"]
    yield "# A transformer and syntax"
    yield ""
    yield from paragraph(
        "This page asks what syntax adds to a pretrained transformer: as a tree above its states "
        "([contextual words](../contextual-words.md)), and as a second view beside which the transformer is trained "
        "further ([the view `transformer`](../views/transformer.md)). The transformer is a small BERT of 4 layers of "
        f"{sizes.hidden} dimensions, which `scripts/small_encoder.py` trains on the same kind of text; what holds for "
        "it need not hold for encoders that were trained on a hundred times as much."
    )
    done, planned = len(found.draws.known), len(found.plan.runs())
    if done < planned:
        yield from paragraph(f"Preliminary: {done} of {planned} runs have scores so far.")
    yield from paragraph(
        f"Models were trained for one epoch on {sentences[str(sizes.sentences)]:,} sentences of modern text in whole "
        "documents, of which 1 % of the documents is kept for validation. Pairs were trained with batches of "
        f"{sizes.batch} and the pairwise objective; SimCSE with batches of {SIMCSE_BATCH}, and the mean of the states "
        "instead of its authors' first token. The transformer's learning rates are [chosen](#learning-rates) on "
        f"development data; other settings are the defaults. Trees and sequences have {sizes.hidden} dimensions and, "
        "beside a transformer, read fixed word vectors, which are learnt on the same text. For all scores, each "
        "view's vector is scaled to length 1 (`--normalise`)."
    )
    if done and not found.draws.deviation(MEAN)[1]:
        yield from paragraph("No row has several seeds so far, so intervals and p are over examples alone.")
    yield """\
<!-- not run: the record of a larger job -->

    python scripts/small_encoder.py --texts modern-*.txt.zst --sources modern-sources.tsv --words 40 -o small-encoder
    python scripts/transformers_study.py run --texts modern-00[0-4].txt.zst --senteval senteval --encoder small-encoder
    python scripts/transformers_study.py page
"""
    yield from paragraph(f"These commands repeat all but our remarks, once `docs/results/{NAME}` is deleted.")


def scores(found: Found) -> Iterator[str]:
    """The table of all rows."""
    plan = found.plan
    yield "## The table"
    yield ""
    yield from paragraph(
        "Scores in per cent, correlations x 100; next sentence: mean reciprocal rank among a thousand; probing: the "
        "mean of the probing tasks. ± is half of a 95 % interval over seeds and examples. The last columns are the "
        f"mean of the {len(found.draws.tasks)} tasks minus that of the frozen encoder's mean, and p corrected by "
        "Holm's method for all rows. Rows differ in dimensions: compare those "
        "of the same number. *Exported* is the transformer of a pair by itself, loaded by "
        "sentence-transformers. No row is left out."
    )
    yield from differences(found, plan.table, lambda row: plan.frozen[0], title)
    yield ""


def answers(found: Found) -> Iterator[str]:
    """The questions with their verdicts."""
    yield "## What it shows"
    yield ""
    yield from paragraph(
        "Differences of the mean of the tasks, above 0 if the statement holds. It is decided by its p, corrected by "
        "Holm's method for all of them: below 0.05 the study *shows* it or finds it *reversed*; otherwise it *does not "
        "show* it, which is no proof of the contrary. The table above corrects p for its own rows only, so the same "
        "difference may have another p there. A pair's transformer was trained further, and the encoder as it is was "
        "not."
    )
    yield from decided(found, claims(found.plan))


def learning_rates(found: Found, measured: dict[str, Measured]) -> Iterator[str]:
    """How they were chosen."""
    plan, names = found.plan, [f"{rate:g}" for rate in found.plan.sizes.rates]
    yield "## Learning rates"
    yield ""
    yield from paragraph(
        "Before any model with a trained transformer was scored, the transformer's learning rates were tried on "
        f"{found.trees['sentences'][str(plan.sizes.tried)]:,} sentences with one seed, and the best one of each model "
        f"(bold) was taken. A score is the mean over the development parts of {', '.join(DEVELOPMENT[:-1])} and "
        f"{DEVELOPMENT[-1]}, which `scripts/development_tasks.py` writes, for the transformer's vectors by "
        "themselves. So short a training may favour lower rates than a long one does. Rates were tried in two rounds: "
        "the lowest was added since one model preferred the lowest of the first round. Models of different rates "
        "differ in that, too. The hours of the trials, and of the encoder's own training, are not among those below."
    )
    untrained = measured.get(plan.frozen[0].name, {}).get(UNTRAINED)
    if untrained is not None:
        yield from paragraph(f"The encoder's mean has {untrained:.1f} before any of this training.")
    yield from table(
        ["", *names], [trial_line(row, measured.get(row.name, {}), plan.sizes.rates) for row in plan.tried]
    )
    yield ""


def trial_line(row: Row, measured: Measured, rates: Sequence[float]) -> list[str]:
    """A line of the table of learning rates."""
    cells = []
    for rate in rates:
        score = measured.get(f"{rate:g}", NOT_YET)
        cell = "diverges" if score is None else "" if score == NOT_YET else f"{score:.1f}"
        cells.append(f"**{cell}**" if len(measured) == len(rates) and rate == best(measured, rates) else cell)
    return [title(row), *cells]


def limits(found: Found) -> Iterator[str]:
    """What the study cannot tell."""
    steps = round(found.trees["sentences"][str(found.plan.sizes.sentences)] / SIMCSE_BATCH, -2)
    yield "## Limits"
    yield ""
    yield from paragraph(
        "The encoder and the word vectors were trained on text that includes the documents that are held out here, of "
        "which the probing tasks and the next sentences are made; all rows share that. The encoder has read 40 "
        "million words, and the word vectors the ten million of five of the 26 files. The probing tasks are made from "
        "the built-in parser's trees, which the views of trees read, too. About a seventh of STS-B's test pairs are "
        "in STS14, but the two are drawn independently, so intervals of the mean are a little too narrow; and the "
        "classifiers by which learning rates are chosen are fitted to training parts that share pairs with STS14. "
        "There are no two trees of one kind above the encoder's states, so those rows tell trees from sequences, not "
        "what two kinds of trees teach each other. The encoder was pretrained without dropout and is trained further "
        f"with it. SimCSE takes about {steps:,.0f} steps of {SIMCSE_BATCH} sentences, the pairs fewer and larger "
        "ones. Exported encoders run in single precision, as sentence-transformers does; the products of all others "
        "are in half precision where the processor is faster with it. Pairs have a second vector, made from word "
        "vectors that the transformer does not read: what that brings by itself, the encoder joined with such a view "
        "tells for `dep` and `const`; there is no such row for `seq`."
    )
