"""What does syntax add to a pretrained transformer? The study, from the texts to its page.

    python scripts/small_encoder.py --texts modern-*.txt.zst --sources modern-sources.tsv -o small-encoder
    python scripts/transformers_study.py run --texts modern-00[0-4].txt.zst --senteval senteval --encoder small-encoder
    python scripts/transformers_study.py page

`run` parses the texts, draws a corpus from them, chooses learning rates on development data, and trains and scores
everything, one run after another: the encoder as it is, the encoder trained further by itself (SimCSE) or beside
another view, and trees above its states. If it is stopped, run the same command again to resume; several processes with
the same command share the runs. What a run scores is kept in docs/results/transformers/, and a run whose scores are
there is not run again. `page` makes docs/results/transformers.md from them. Texts may also be parsed corpora. Needs the
extras ``contextual`` and ``sentence-transformers``.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from development_tasks import write as write_development
from pairs.claims import Claim
from pairs.draws import MEAN
from pairs.kept import SCORED, examples_of, task_trees
from pairs.markdown import paragraph, table
from pairs.pages import Found, decided, differences, discussion, effort, method, probing, read_found
from pairs.plan import CONTROL, MAIN, OF, Row, Run
from pairs.runs import errors_as_exits, run_all
from pairs.work import Work, keep_agreement
from smoke import command, scores_of

from structviews.adapters.transformer_export import export_transformer
from structviews.cli.console import errors
from structviews.errors import InputError
from structviews.evaluation.senteval.protocols.senteval_protocol import SENTEVAL
from structviews.evaluation.senteval.scoring import place_of, score_with_bar
from structviews.evaluation.senteval.suite import read_tasks
from structviews.evaluation.senteval.tasks.reading import Task
from structviews.pretrained.frozen import FrozenEncoder
from structviews.runs.config import TrainConfig
from structviews.runtime.documents import write_json
from structviews.training.baselines import RANDOM, make_baseline
from structviews.training.loop import train
from structviews.words import CONTEXTUAL, FIXED
from structviews.words.word_settings import FIRST
from structviews.words.word_settings import MEAN as MEAN_STATE

ROOT = Path(__file__).resolve().parents[1]
NAME = "transformers"
STEPS = ("run", "page")
TRANSFORMER, SIMCSE = "transformer", "simcse"
PARTNERS = ("seq", "dep", "const")
# The tasks whose mean is the study's main score.
TASKS = ("MR", "SUBJ", "TREC", "SICK-R", "STS-B", "STS14")
# The tasks by whose development parts a learning rate is chosen; no test example of them is in those.
DEVELOPMENT = ("TREC", "SICK-R", "STS-B", "STS-B-cos")
# The file of what they score.
RATES = "rates.json"
# Of SimCSE's authors.
SIMCSE_BATCH = 64


@dataclass(frozen=True)
class Sizes:
    """How large everything is, as in ``pairs.plan.Sizes``.

    Attributes:
        tried: sentences with which learning rates are tried.
        rates: the transformer's learning rates that are tried. They reach higher than is usual for encoders of a
            hundred million weights, as this one has seven million.
    """

    sentences: int = 200_000
    tried: int = 30_000
    rates: tuple[float, ...] = (3e-5, 1e-4, 3e-4, 1e-3)
    held_out: int = 200_000
    asked: int = 20_000
    probing: int = 10_000
    hidden: int = 256
    batch: int = 400
    seeds: int = 2

    @property
    def corpora(self) -> tuple[int, ...]:
        """Sentences of every corpus."""
        return (self.tried, self.sentences)


FULL = Sizes()


@dataclass(frozen=True)
class Plan:
    """What is trained.

    Attributes:
        sizes: how large everything is.
        frozen: the encoder as it is: the mean of a sentence's pieces, and its first piece.
        trees: trees above word vectors, and above the encoder's states.
        control: sequences above the encoder's states.
        alone: the encoder trained further by itself.
        pairs: the encoder trained beside another view.
        exported: the encoder of such a pair, exported.
    """

    sizes: Sizes
    frozen: list[Row]
    trees: list[Row]
    control: Row
    alone: Row
    pairs: list[Row]
    exported: list[Row]

    @classmethod
    def of(cls, sizes: Sizes) -> "Plan":
        """All rows at some sizes."""
        n, batch = sizes.sentences, sizes.batch
        pairs = [f"{TRANSFORMER},{partner}" for partner in PARTNERS]
        return cls(
            sizes,
            [Row("", 0, 0, baseline=pooling) for pooling in (MEAN_STATE, FIRST)],
            [Row(MAIN, n, batch, channels=channel) for channel in (FIXED, CONTEXTUAL)],
            Row(CONTROL, n, batch, channels=CONTEXTUAL),
            Row(TRANSFORMER, n, min(batch, SIMCSE_BATCH), objective=SIMCSE),
            [Row(pair, n, batch) for pair in pairs],
            [Row(f"{TRANSFORMER}{OF}{pair}", n, batch) for pair in pairs],
        )

    @property
    def table(self) -> list[Row]:
        """All rows."""
        return [*self.frozen, *self.trees, self.control, self.alone, *self.pairs, *self.exported]

    @property
    def tried(self) -> list[Row]:
        """What learning rates are tried on: SimCSE, and of the pairs the one without syntax."""
        return [replace(row, sentences=self.sizes.tried) for row in (self.alone, self.pairs[0])]

    def chosen(self, row: Row, kept: Path) -> float:
        """The learning rate of the transformer in a row, the best of those measured."""
        simcse, pair = self.tried
        measured = rates_measured(kept)[(simcse if row.objective == SIMCSE else pair).name]
        return float(max(measured, key=lambda rate: measured[rate]))

    def runs(self) -> list[Run]:
        """In the order in which they are made; what is not trained has no seeds."""
        found = [Run(row, seed) for row in self.table for seed in range(1, 1 + (self.sizes.seeds if row.views else 1))]
        return sorted(found, key=lambda run: (run.seed, bool(run.row.parts)))


def rates_measured(kept: Path) -> dict[str, dict[str, float]]:
    """For each row on which learning rates were tried, the mean of its scores by rate."""
    file = kept / RATES
    found: dict[str, dict[str, float]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return found


@dataclass(frozen=True)
class EncoderWork(Work):
    """The places and settings of the study.

    Attributes:
        encoder: the pretrained encoder.
    """

    encoder: str = ""

    def prepare(self) -> None:
        """Make what all runs need; the encoder's states of the corpus too."""
        super().prepare()
        with self.alone("states"):
            corpus = self.corpus(self.plan.sizes.sentences)
            self.timed("states", lambda: command("states", corpus, "--encoder", self.encoder))
        self.timed("learning rates", self.try_rates)

    def try_rates(self) -> None:
        """Measure the learning rates that have not been measured yet, on little text and on development tasks."""
        development = self.out / "development"
        with self.alone("development"):
            write_development(self.senteval, development)
        tasks, _ = read_tasks(DEVELOPMENT, development, None, allow_partial=True)
        trials = list(product(self.plan.tried, self.plan.sizes.rates))
        for row, rate in trials:
            with self.claimed(f"{row.name}-{rate:g}") as ours:
                if ours:
                    self.try_rate(row, rate, tasks)
        for row, rate in trials:  # waits for other processes
            with self.alone(f"{row.name}-{rate:g}"):
                self.try_rate(row, rate, tasks)

    def try_rate(self, row: Row, rate: float, tasks: list[Task]) -> None:
        """Measure a learning rate unless it has been."""
        if f"{rate:g}" not in rates_measured(self.kept).get(row.name, {}):
            score = round(self.score_rate(row, rate, tasks), 2)
            with self.alone("rates"):
                known = rates_measured(self.kept)
                known.setdefault(row.name, {})[f"{rate:g}"] = score
                write_json(self.kept / RATES, known, sealed=False)

    def score_rate(self, row: Row, rate: float, tasks: list[Task]) -> float:
        """Train a row with a learning rate; the mean of its scores, in per cent."""
        run = self.out / "rates" / f"{row.name}-{rate:g}"
        places = {"corpus": str(self.corpus(row.sentences)), "out": str(run), "seed": 1}
        train(TrainConfig.from_flat(self.settings_at(row, rate) | places, run.name), errors)
        score_with_bar(run, tasks, {}, errors, trees=task_trees(self.corpus("tasks")), scored=SCORED)
        _, file = place_of(run, SCORED, SENTEVAL, ensemble=False)
        return mean(examples_of(run, file, task).score for task in scores_of(run, file))

    def settings(self, row: Row) -> dict[str, Any]:
        """The settings that a row is trained with, by their flat names."""
        return self.settings_at(row, self.plan.chosen(row, self.kept) if TRANSFORMER in row.views else None)

    def settings_at(self, row: Row, rate: float | None) -> dict[str, Any]:
        """The settings with a learning rate of the transformer, if there is one."""
        settings = super().settings(row)
        if row.channels != FIXED or row.views == TRANSFORMER:
            settings.pop("vectors")
        if row.views == TRANSFORMER:
            settings.pop("channels")
        if rate:
            settings["encoder_lr"] = rate
        return settings | ({"encoder": self.encoder} if TRANSFORMER in row.views or row.channels != FIXED else {})

    def make_baseline(self, run: Run, corpus: Path, out: Path) -> None:
        """The encoder as it is: a transformer that is not trained."""
        settings = {"views": (TRANSFORMER,), "objective": SIMCSE, "hidden": self.plan.sizes.hidden}
        settings |= {"encoder": self.encoder, "sentence_pooling": run.row.baseline}
        make_baseline(RANDOM, corpus, out, encoders=settings)

    def joined(self, run: Run, out: Path) -> Path:
        """Export the transformer of a pair, and make it a run as any model of sentence-transformers; its folder."""
        if not out.exists():
            ((_, pair),) = run.row.parts
            whole, exported = Run(pair, run.seed), self.out / "exported" / run.name
            if not exported.exists():
                exported.parent.mkdir(exist_ok=True)
                with self.alone(whole.name):  # another process may be training it
                    export_transformer(self.train(whole), exported)
            corpus = self.corpus(self.plan.sizes.sentences)
            command("baseline", f"sentence-transformers:{exported}", "--corpus", corpus, "-o", out)
        return out


def main() -> None:
    """Do the steps."""
    options = arguments()
    kept, docs = ROOT / "docs" / "results" / NAME, ROOT / "docs"
    with errors_as_exits():
        if options.step == "run":
            work = work_of(options, FULL, kept)
            run_all(work, options.only, lambda: keep_agreement(work, ()))
        else:
            print(write_page(Plan.of(FULL), kept, docs))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS, help="what to do")
    parser.add_argument("--texts", type=Path, nargs="+", help="texts with one sentence per line, or parsed corpora")
    parser.add_argument("--senteval", type=Path, help="folder with SentEval's tasks")
    parser.add_argument("--encoder", type=Path, help="folder of the pretrained encoder")
    parser.add_argument("--vectors", type=Path, help="word vectors; by default learnt on the texts")
    parser.add_argument("--only", default="*", help="names of the runs to do, as in 'dep-const*,mean'")
    parser.add_argument("-o", "--out", type=Path, default=Path(NAME), help="folder for all that is made")
    options = parser.parse_args()
    if options.step == "run" and not (options.texts and options.senteval and options.encoder):
        parser.error("give --texts, --senteval and --encoder")
    return options


def work_of(options: argparse.Namespace, sizes: Sizes, kept: Path, *, quick: bool = False) -> EncoderWork:
    """The places and settings.

    Raises:
        InputError: if the encoder is missing, or has another dimension than the study's views.
    """
    dim = FrozenEncoder.open(str(options.encoder), MEAN_STATE).dim
    if dim != sizes.hidden:
        raise InputError(f"{options.encoder}: has {dim} dimensions: give an encoder of {sizes.hidden}")
    texts, encoder = tuple(options.texts), str(options.encoder.absolute())
    return EncoderWork(
        options.out, kept, texts, options.senteval, options.vectors, Plan.of(sizes), quick, TASKS, encoder
    )


def title(row: Row) -> str:
    """A row's name in the tables."""
    if row.baseline:
        return f"frozen, {row.baseline}"
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
    mean = plan.frozen[0]
    words, contextual = plan.trees

    def above(text: str, better: Row, worse: Row) -> Claim:
        return Claim("", text, ((1, better, MEAN), (-1, worse, MEAN)))

    seq, *syntax = plan.pairs
    seq_alone, *syntax_alone = plan.exported
    return [
        above("trees above the encoder's states are better than their mean", contextual, mean),
        above("trees above the encoder's states are better than sequences above them", contextual, plan.control),
        above("trees above the encoder's states are better than above word vectors", contextual, words),
        above("SimCSE improves the encoder", plan.alone, mean),
        *(
            above(f"the encoder and a `{row.views.split(',')[1]}` view are better than the encoder", row, mean)
            for row in plan.pairs
        ),
        *(above(f"`{row.views}` is better than `{seq.views}`", row, seq) for row in syntax),
        *(above(f"{taught(row)} is better than before", row, mean) for row in plan.exported),
        *(above(f"{taught(row)} is better than by SimCSE", row, plan.alone) for row in plan.exported),
        *(above(f"{taught(row)} is better than beside `seq`", row, seq_alone) for row in syntax_alone),
    ]


def write_page(plan: Plan, kept: Path, docs: Path) -> Path:
    """Write the study's page below a folder of documentation; its path.

    Raises:
        InputError: if the encoder as it is has no scores.
    """
    found = read_found(plan, kept, plan.frozen[0])
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
        f"All models were trained on {sentences[str(sizes.sentences)]:,} sentences of modern text in whole documents, "
        f"one epoch. Pairs were trained with batches of {sizes.batch} and the pairwise objective; SimCSE with batches "
        f"of {SIMCSE_BATCH}. The transformer's learning rates are [chosen](#learning-rates) on development data; other "
        f"settings are the defaults. Trees and sequences have {sizes.hidden} dimensions and, beside a "
        "transformer, read fixed word vectors. For all scores, each view's vector is scaled to length 1 "
        "(`--normalise`)."
    )
    yield """\
<!-- not run: the record of a larger job -->

    python scripts/small_encoder.py --texts modern-*.txt.zst --sources modern-sources.tsv -o small-encoder
    python scripts/transformers_study.py run --texts modern-00[0-4].txt.zst --senteval senteval --encoder small-encoder
    python scripts/transformers_study.py page
"""
    yield from paragraph("These commands reproduce all of it, this page included.")


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
        "show* it, which is no proof of the contrary."
    )
    yield from decided(found, claims(found.plan))


def learning_rates(found: Found, measured: dict[str, dict[str, float]]) -> Iterator[str]:
    """How they were chosen."""
    plan, names = found.plan, [f"{rate:g}" for rate in found.plan.sizes.rates]
    yield "## Learning rates"
    yield ""
    yield from paragraph(
        f"Before anything else was scored, the transformer's learning rates were tried on {plan.sizes.tried:,} "
        "sentences, and the best ones were taken. The scores are means of the development parts of "
        f"{', '.join(DEVELOPMENT[:-1])} and {DEVELOPMENT[-1]}, as `scripts/development_tasks.py` has them. All pairs "
        f"have the rate of `{plan.pairs[0].views}`."
    )
    yield from table(
        ["", *names], [[title(row), *(f"{measured[row.name][name]:.1f}" for name in names)] for row in plan.tried]
    )
    yield ""


def limits(found: Found) -> Iterator[str]:
    """What the study cannot tell."""
    steps = found.trees["sentences"][str(found.plan.sizes.sentences)] // SIMCSE_BATCH
    yield "## Limits"
    yield ""
    yield from paragraph(
        "The encoder and the word vectors were trained on text that includes the documents that are held out here, of "
        "which the probing tasks and the next sentences are made; all rows share that. The probing tasks have the "
        "built-in parser's trees, and so have the views that read trees. The encoder was pretrained without dropout and"
        f" is trained further with it. SimCSE takes about {steps:,} steps of {SIMCSE_BATCH} sentences, the pairs "
        "fewer and larger ones. Pairs have a second vector, of word vectors of their own: what that brings by itself, "
        "the row of trees above word vectors and the exported encoders tell."
    )


if __name__ == "__main__":
    main()
