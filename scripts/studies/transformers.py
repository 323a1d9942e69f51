"""What does syntax add to a pretrained transformer? The plan, the questions and the prose.

The scripts that trained and scored the runs are in the history; here is what makes the page.
"""

from dataclasses import replace
from pathlib import Path

from structviews.words import CONTEXTUAL
from structviews.words.word_settings import FIRST
from structviews.words.word_settings import MEAN as MEAN_STATE
from studies import pages
from studies.intervals import MEAN, Claim, above
from studies.pages import Found, Table, prose
from studies.rows import CONTROL, FIXED, JOINED, MAIN, OF, Row, Run

NAME = "transformers"
TRANSFORMER, SIMCSE = "transformer", "simcse"
PARTNERS = ("seq", "dep", "const")
# Of SimCSE's authors.
SIMCSE_BATCH = 64
# Baselines of word vectors.
AVERAGES = ("average", "sif")
# Said of claims whose rows differ so.
WIDER = " (two vectors against one)"


# Sentences to train on, and to try learning rates with.
SENTENCES, TRIED = 200_000, 20_000
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


def claims(plan: Plan) -> list[Claim]:
    """What is asked; the page's text has their places."""
    mean, centred, _ = plan.frozen
    words, contextual = plan.trees
    seq, *syntax = plan.pairs
    seq_alone, *syntax_alone = plan.exported
    names = {row: f"`{row.views}`" for row in plan.pairs} | {row: f"`{title(row)}`" for row in plan.exported}
    trees = "two trees above the encoder's states beat"
    return [
        above(f"{trees} the mean of these states{WIDER}", contextual, mean),
        above(f"{trees} two sequences above them", contextual, plan.control),
        above(f"{trees} two trees above word vectors", contextual, words),
        above("SimCSE improves the encoder", plan.alone, mean),
        above("SimCSE beats the encoder's mean without its first component", plan.alone, centred),
        *(above(f"{names[row]} beats the encoder as it is{WIDER}", row, mean) for row in plan.pairs),
        *(
            above(f"{names[row]} beats the encoder as it is joined with `{view}`", row, apart)
            for row, view, apart in zip(syntax, MAIN.split(","), plan.apart, strict=True)
        ),
        *(above(f"{names[row]} beats {names[seq]}", row, seq) for row in syntax),
        *(above(f"{names[row]} beats the encoder as it is", row, mean) for row in plan.exported),
        *(above(f"{names[row]} beats SimCSE", row, plan.alone) for row in plan.exported),
        *(above(f"{names[row]} beats {names[seq_alone]}", row, seq_alone) for row in syntax_alone),
    ]


def write_pages(stored: Path, docs: Path) -> list[Path]:
    """Write the study's page and tables below a folder of documentation; their paths."""
    found = Found.read(Plan(), stored)
    plan, asked = found.plan, claims(found.plan)
    table = Table(plan.table, lambda row: plan.frozen[0])
    deviation, freedom = found.draws.deviation(MEAN)
    sentences = found.trees["sentences"]
    sections = [
        prose(NAME, "introduction", tasks=len(found.draws.tasks), shown=pages.claimed(found, asked)),
        prose(NAME, "scores", deviation=deviation, freedom=freedom),
        table.means(found, title),
        prose(NAME, "minilm"),
        prose(
            NAME,
            "setup",
            hidden=HIDDEN,
            batch=BATCH,
            simcse_batch=SIMCSE_BATCH,
            sentences=sentences[str(SENTENCES)],
            tried=sentences[str(TRIED)],
            steps=round(sentences[str(SENTENCES)] / SIMCSE_BATCH, -2),
        ),
        pages.effort(found, NAME),
        prose(NAME, "limits"),
    ]
    return [
        pages.write_page(docs, NAME, sections),
        *pages.write_scores(docs, found, NAME, {NAME: table}, title),
        pages.write_claims(docs, found, NAME, asked),
    ]
