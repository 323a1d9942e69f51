"""What does syntax add to a pretrained transformer? The plan, the questions and the prose.

The scripts that trained and scored the runs are in the history; here is what makes the page.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from structviews.words import CONTEXTUAL
from structviews.words.word_settings import FIRST
from structviews.words.word_settings import MEAN as MEAN_STATE
from studies import pages
from studies.intervals import Claim, above
from studies.pages import Found, paragraph, section
from studies.rows import CONTROL, FIXED, JOINED, MAIN, OF, Row, Run

NAME = "transformers"
# Where the scripts are that made the runs.
COMMIT = "971d152"
TRANSFORMER, SIMCSE = "transformer", "simcse"
PARTNERS = ("seq", "dep", "const")
# The tasks by whose development parts learning rates are chosen, and the file of what is measured.
DEVELOPMENT = ("TREC", "SICK-R", "STS-B", "STS-B-cos")
RATES = "rates.json"
# Of SimCSE's authors.
SIMCSE_BATCH = 64
# Baselines of word vectors.
AVERAGES = ("average", "sif")
# By learning rate, the mean of a trial's scores in per cent; None if training diverged.
Measured = dict[str, float | None]
# In place of a rate, for the encoder as it is.
UNTRAINED = "0"
# Said of claims whose rows differ so.
WIDER = " (two vectors against one)"


# Sentences to train on, and to try learning rates with.
SENTENCES, TRIED = 200_000, 20_000
# The transformer's, which are tried: around 3e-5, with which SimCSE's authors train BERT base, and higher ones, as this
# encoder has seven million weights instead of a hundred million.
LEARNING_RATES = (1.25e-5, 5e-5, 2e-4, 8e-4)
HIDDEN, BATCH, SEEDS = 256, 400, 2


class Plan:
    """What is trained.

    Attributes:
        words: averages of word vectors.
        frozen: the mean of a sentence's pieces, that without its first component, and the first piece.
        trees, control: trees above word vectors, and above the encoder's states; sequences above these.
        alone, pairs: the encoder trained further by itself, and beside another view.
        apart: the encoder as it is, joined with a view of the trees above word vectors.
        exported: the encoder of such a pair, exported.
    """

    def __init__(self) -> None:
        n, batch = SENTENCES, BATCH
        pairs = [f"{TRANSFORMER},{partner}" for partner in PARTNERS]
        mean_state, first = (Row("", 0, 0, baseline=pooling) for pooling in (MEAN_STATE, FIRST))
        of_mean = f"{TRANSFORMER}{OF}{MEAN_STATE}{JOINED}"
        self.words = [Row("", 0, 0, baseline=average) for average in AVERAGES]
        self.frozen = [mean_state, replace(mean_state, without_component=True), first]
        self.trees = [Row(MAIN, n, batch, channels=channel) for channel in (FIXED, CONTEXTUAL)]
        self.control = Row(CONTROL, n, batch, channels=CONTEXTUAL)
        self.alone = Row(TRANSFORMER, n, SIMCSE_BATCH, objective=SIMCSE)
        self.pairs = [Row(pair, n, batch) for pair in pairs]
        self.apart = [Row(f"{of_mean}{view}{OF}{MAIN}", n, batch) for view in MAIN.split(",")]
        self.exported = [Row(f"{TRANSFORMER}{OF}{pair}", n, batch) for pair in pairs]

    @property
    def table(self) -> list[Row]:
        """All rows."""
        trained = [*self.trees, self.control, self.alone, *self.pairs]
        return [*self.words, *self.frozen, *trained, *self.apart, *self.exported]

    @property
    def tried(self) -> list[Row]:
        """Rows on as little text as learning rates are tried on."""
        return [replace(row, sentences=TRIED) for row in (self.alone, *self.pairs)]

    def runs(self) -> list[Run]:
        """In the order in which they are made; what is not trained has no seeds."""
        found = [Run(row, seed) for row in self.table for seed in range(1, 1 + (SEEDS if row.views else 1))]
        return sorted(found, key=lambda run: (run.seed, bool(run.row.members)))


def title(row: Row) -> str:
    """A row's name in the tables."""
    if row.baseline in AVERAGES:
        return row.title
    if row.baseline:
        return f"frozen, {row.baseline}" + f" {row.vectors}" * row.without_component
    if len(row.members) > 1:
        return f"frozen, mean, joined with {row.views.partition(JOINED)[2]}"
    if row.members:
        ((_, pair),) = row.members
        return f"{pair.views}, exported"
    if row.objective == SIMCSE:
        return f"{row.views}, SimCSE"
    return f"{row.views}, contextual words" if row.channels == CONTEXTUAL else row.views


def taught(row: Row) -> str:
    """An exported encoder, in a sentence."""
    ((_, pair),) = row.members
    return f"the exported encoder trained beside `{pair.views.split(',')[1]}`"


def claims(plan: Plan) -> list[Claim]:
    """What is asked."""
    mean, centred, _ = plan.frozen
    words, contextual = plan.trees

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


def write_pages(stored: Path, docs: Path) -> list[Path]:
    """Write the study's page below a folder of documentation; its path."""
    found = Found.read(Plan(), stored)
    sections = [part(found) for part in (introduction, scores, answers, pages.discussion)]
    sections += [pages.probing(found, title), pages.method(found)]
    sections += [learning_rates(found), limits(found), pages.effort(found, NAME, title)]
    return [pages.write_page(docs, NAME, sections)]


def introduction(found: Found) -> Iterator[str]:
    """What was trained, and how."""
    sentences = found.trees["sentences"]
    yield from section(
        "# A transformer and syntax",
        "This page asks what syntax adds to a pretrained transformer: as a tree above its states "
        "([contextual words](../contextual-words.md)), and as a second view beside which the transformer is trained "
        "further ([the view `transformer`](../views/transformer.md)). The transformer is a small BERT of 4 layers of "
        f"{HIDDEN} dimensions, trained on the same kind of text; what holds for "
        "it need not hold for encoders that were trained on a hundred times as much.",
    )
    yield from paragraph(
        f"Models were trained for one epoch on {sentences[str(SENTENCES)]:,} sentences of modern text in whole "
        "documents, of which 1 % of the documents is kept for validation. Pairs were trained with batches of "
        f"{BATCH} and the pairwise objective; SimCSE with batches of {SIMCSE_BATCH}, and the mean of the states "
        "instead of its authors' first token. The transformer's learning rates are [chosen](#learning-rates) on "
        f"development data; other settings are the defaults. Trees and sequences have {HIDDEN} dimensions and, "
        "beside a transformer, read fixed word vectors, which are learnt on the same text. For all scores, each "
        "view's vector is scaled to length 1 (`--normalise`)."
    )
    yield """\
<!-- not run: the record of a larger job -->

    python scripts/study.py transformers
"""
    yield from paragraph(
        f"This makes the page again from what the runs scored, in `docs/results/{NAME}`. The scripts that trained the "
        f"encoder and made the runs are in the project's history, at commit {COMMIT}: `scripts/small_encoder.py` and "
        "`scripts/transformers_study.py`."
    )


def scores(found: Found) -> Iterator[str]:
    """The table of all rows."""
    plan = found.plan
    yield from section(
        "## The table",
        "Scores in per cent, correlations x 100; next sentence: mean reciprocal rank among a thousand; probing: the "
        "mean of the probing tasks. ± is half of a 95 % interval over seeds and examples. The last columns are the "
        f"mean of the {len(found.draws.tasks)} tasks minus that of the frozen encoder's mean, and p corrected by "
        "Holm's method for all rows. Rows differ in dimensions: compare those "
        "of the same number. *Exported* is the transformer of a pair by itself, loaded by "
        "sentence-transformers. No row is left out.",
    )
    yield from pages.differences(found, plan.table, lambda row: plan.frozen[0], title)


def answers(found: Found) -> Iterator[str]:
    """The questions with their verdicts."""
    yield from section(
        "## What it shows",
        "Differences of the mean of the tasks, above 0 if the statement holds. It is decided by its p, corrected by "
        "Holm's method for all of them: below 0.05 the study *shows* it or finds it *reversed*; otherwise it *does not "
        "show* it, which is no proof of the contrary. The table above corrects p for its own rows only, so the same "
        "difference may have another p there. A pair's transformer was trained further, and the encoder as it is was "
        "not.",
    )
    yield from pages.decided(found, claims(found.plan))


def learning_rates(found: Found) -> Iterator[str]:
    """How they were chosen."""
    measured: dict[str, Measured] = json.loads((found.stored / RATES).read_text("utf-8"))
    plan, names = found.plan, [f"{rate:g}" for rate in LEARNING_RATES]
    yield from section(
        "## Learning rates",
        "Before any model with a trained transformer was scored, the transformer's learning rates were tried on "
        f"{found.trees['sentences'][str(TRIED)]:,} sentences with one seed, and the best one of each model "
        f"(bold) was taken. A score is the mean over the development parts of {', '.join(DEVELOPMENT[:-1])} and "
        f"{DEVELOPMENT[-1]}, for the transformer's vectors by "
        "themselves. So short a training may favour lower rates than a long one does. Rates were tried in two rounds: "
        "the lowest was added since one model preferred the lowest of the first round. Models of different rates "
        "differ in that, too. The hours of the trials, and of the encoder's own training, are not among those below.",
    )
    untrained = measured[plan.frozen[0].name][UNTRAINED]
    yield from paragraph(f"The encoder's mean has {untrained:.1f} before any of this training.")
    yield from pages.table(["", *names], [trial_line(row, measured[row.name]) for row in plan.tried])
    yield ""


def trial_line(row: Row, measured: Measured) -> list[str]:
    """A line of the table of learning rates, the highest score in bold."""
    tried = [measured[f"{rate:g}"] for rate in LEARNING_RATES]
    highest = max(score for score in tried if score is not None)
    cells = ["diverges" if score is None else f"{score:.1f}" for score in tried]
    return [
        title(row),
        *(f"**{cell}**" if score == highest else cell for cell, score in zip(cells, tried, strict=True)),
    ]


def limits(found: Found) -> Iterator[str]:
    """What the study cannot tell."""
    steps = round(found.trees["sentences"][str(SENTENCES)] / SIMCSE_BATCH, -2)
    yield from section(
        "## Limits",
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
        "tells for `dep` and `const`; there is no such row for `seq`.",
    )
