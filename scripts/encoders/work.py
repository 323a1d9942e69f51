"""The work folder of the study of transformers, and how its rows are trained."""

import json
import shutil
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from development_tasks import write as write_development
from pairs.kept import SCORED, examples_of, task_trees
from pairs.plan import FIXED, Row, Run
from pairs.work import Work
from smoke import command, scores_of

from encoders.plan import AVERAGES, DEVELOPMENT, RATES, SIMCSE, TRANSFORMER, UNTRAINED, rates_measured
from structviews.adapters.transformer_export import export_transformer
from structviews.cli.console import errors
from structviews.encoding.kinds.joined import Member, join_runs
from structviews.errors import DivergedError, InputError
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.scoring import place_of, score_with_bar
from structviews.evaluation.senteval.suite import read_tasks
from structviews.evaluation.senteval.tasks.reading import Task
from structviews.pretrained.states import FrozenEncoder
from structviews.runs.config import TrainConfig
from structviews.runs.folder import CONFIG
from structviews.runtime.documents import write_json
from structviews.training.baselines import RANDOM, make_baseline
from structviews.training.loop import train
from structviews.words.word_settings import MEAN as MEAN_STATE

# The file that says of which encoder all is that is kept.
ENCODER = "encoder.json"


@dataclass(frozen=True)
class EncoderWork(Work):
    """The places and settings of the study.

    Attributes:
        encoder: the pretrained encoder.
    """

    encoder: str = ""

    def prepare(self) -> None:
        """Make what all runs need; the encoder's states of the corpus too.

        Raises:
            InputError: if what is kept is of another encoder.
        """
        self.check_encoder()
        super().prepare()
        with self.alone("states"):
            corpus = self.corpus(self.plan.sizes.sentences)
            self.timed("states", lambda: command("corpus", "states", corpus, "--encoder", self.encoder))
        self.try_rates()

    def check_encoder(self) -> None:
        """Keep which encoder it is, or refuse another one."""
        file, own = self.kept / ENCODER, {"files": FrozenEncoder.open(self.encoder, MEAN_STATE).identity.files}
        self.kept.mkdir(parents=True, exist_ok=True)
        with self.alone("encoder"):
            if not file.exists():
                write_json(file, own, sealed=False)
            elif json.loads(file.read_text("utf-8")) != own:
                raise InputError(
                    f"{self.encoder}: {self.kept} has scores of another encoder: give that, or remove them"
                )

    def try_rates(self) -> None:
        """Measure the learning rates that have not been measured yet, on little text and on development tasks."""
        development = self.out / "development"
        with self.alone("development"):
            write_development(self.senteval, development)
            tasks, missing = read_tasks(DEVELOPMENT, development, None, allow_partial=True)
        if missing:
            raise InputError(f"{self.senteval}: {'; '.join(missing.values())}")
        trials = [(self.plan.frozen[0], UNTRAINED)]
        trials += [(row, f"{rate:g}") for row, rate in product(self.plan.tried, self.plan.sizes.rates)]
        for row, rate in trials:
            with self.claimed(f"{row.name}-{rate}") as ours:
                if ours:
                    self.try_rate(row, rate, tasks)
        for row, rate in trials:  # waits for other processes
            with self.alone(f"{row.name}-{rate}"):
                self.try_rate(row, rate, tasks)

    def try_rate(self, row: Row, rate: str, tasks: list[Task]) -> None:
        """Measure a learning rate unless it has been."""
        if rate not in rates_measured(self.kept).get(row.name, {}):
            try:
                score = round(self.score_rate(row, rate, tasks), 2)
            except DivergedError:
                score = None
            with self.alone("rates"):
                known = rates_measured(self.kept)
                known.setdefault(row.name, {})[rate] = score
                write_json(self.kept / RATES, known, sealed=False)

    def score_rate(self, row: Row, rate: str, tasks: list[Task]) -> float:
        """Train a row with a learning rate, or make the baseline; the mean of its transformer's scores, in per cent."""
        run, corpus = self.out / "rates" / f"{row.name}-{rate}", self.corpus(self.plan.sizes.tried)
        if row.baseline:
            if not run.exists():
                self.make_baseline(Run(row, 1), corpus, run)
        else:
            places = {"corpus": str(corpus), "out": str(run), "seed": 1}
            train(TrainConfig.from_flat(self.settings_at(row, float(rate)) | places, run.name), errors)
        scored = replace(SCORED, view=TRANSFORMER) if "," in row.views else SCORED
        score_with_bar(run, tasks, {}, errors, trees=task_trees(self.corpus("tasks")), scored=scored)
        _, file = place_of(run, scored, SENTEVAL, ensemble=False)
        there = scores_of(run, file)  # without a task whose score is undefined, which counts as 0
        return sum(examples_of(run, file, task).score for task in there) / len(DEVELOPMENT)

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
        """The encoder as it is, a transformer that is not trained; or word vectors."""
        if run.row.baseline in AVERAGES:
            return super().make_baseline(run, corpus, out)
        settings = {"views": (TRANSFORMER,), "objective": SIMCSE, "hidden": self.plan.sizes.hidden}
        settings |= {"encoder": self.encoder, "sentence_pooling": run.row.baseline}
        make_baseline(RANDOM, corpus, out, encoders=settings)

    def joined(self, run: Run, out: Path) -> Path:
        """A run of what was trained already; its folder.

        Of a pair, its transformer is exported, and made a run as any model of sentence-transformers.
        """
        if run.row in self.plan.apart:
            return self.joined_apart(run, out)
        if not out.exists():
            ((_, pair),) = run.row.parts
            whole, exported = Run(pair, run.seed), self.out / "exported" / run.name
            shutil.rmtree(exported, ignore_errors=True)  # perhaps of an earlier training
            exported.parent.mkdir(exist_ok=True)
            with self.alone(whole.name):  # another process may be training it
                export_transformer(self.train(whole), exported)
            corpus = self.corpus(self.plan.sizes.sentences)
            command("baseline", f"sentence-transformers:{exported}", "--corpus", corpus, "-o", out)
        return out

    def joined_apart(self, run: Run, out: Path) -> Path:
        """Join the encoder as it is with a view that was trained without it; the run's folder."""
        if not (out / CONFIG).exists():
            _, (view, pair) = run.row.parts
            wholes = (Run(self.plan.frozen[0], 1), Run(pair, run.seed))
            members = []
            for whole, name in zip(wholes, (TRANSFORMER, view), strict=True):
                with self.alone(whole.name):  # another process may be training it
                    members.append(Member(self.train(whole), name))
            join_runs(members, out)
        return out
