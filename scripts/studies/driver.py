"""Makes a study's runs, one after another: trains what has no scores yet, scores it, and stores what it scored.

A study that was stopped is resumed by the same command. What the runs read is made before, in one folder, by commands:
the corpora of the plan's sizes as ``SENTENCES.parsed``, with other trees ``SENTENCES.TREES.parsed`` (such as
``300000.trivial-balanced.parsed``); ``held-out.parsed``, which no run is trained on, and ``tasks.parsed``, the trees of
the tasks' sentences, with other trees likewise; ``probing``, the probing tasks; and ``words.bin``, the word vectors.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

import numpy as np

from structviews.cli.console import errors
from structviews.corpus.format import rows_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.tree_arrays import Flat
from structviews.encoding.kinds.joined import Member, join_runs
from structviews.errors import DivergedError, InputError
from structviews.evaluation.senteval.suite import read_tasks
from structviews.evaluation.senteval.tasks.probing import probing_files
from structviews.evaluation.senteval.tasks.reading import Task
from structviews.runs.config import TrainConfig
from structviews.runs.folder import COMPONENTS, CONFIG, STATE
from structviews.runtime.documents import write_json
from structviews.runtime.processes import Interrupted
from structviews.training.loop import train
from studies.rows import BUILTIN, Plan, Run
from studies.scores import TASKS, score

# Of the training documents, for the log's curve.
VALIDATED = 0.01
# Words that the trees of two parsers are compared on.
COMPARED = 200_000


def command(*arguments: object) -> None:
    """A command of structviews, as a user gives it."""
    text = [str(argument) for argument in arguments]
    print("structviews", *text, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "structviews", *text], check=True, stdout=sys.stderr)


@dataclass(frozen=True)
class Work:
    """The places and settings of a study.

    Attributes:
        out: folder of the runs.
        stored: folder of the scores that are stored.
        inputs: folder with what runs read.
        senteval: folder with SentEval's tasks.
        plan: the rows.
        partial: whether parts of tasks will do.
    """

    out: Path
    stored: Path
    inputs: Path
    senteval: Path
    plan: Plan
    partial: bool = False

    def run(self, run: Run) -> Path:
        """A run's folder."""
        return self.out / run.name

    def file(self, run: Run) -> Path:
        """The file of a run's scores."""
        return self.stored / "runs" / f"{run.name}.json"

    def corpus(self, name: int | str, trees: str = BUILTIN) -> Path:
        """The corpus of a size, or that of the name ``held-out`` or ``tasks``, with some trees.

        Raises:
            InputError: if it is not there.
        """
        suffix = "" if trees == BUILTIN else "." + trees.replace(":", "-")
        path = self.inputs / f"{name}{suffix}.parsed"
        if not path.is_dir():
            raise InputError(f"{path}: no such corpus: make it first, or leave its runs out by --only")
        return path

    def train(self, run: Run) -> Path:
        """Train a run, or make it if it is a baseline or joins others; its folder.

        Raises:
            InputError: if the folder holds a run with other settings.
        """
        row, out = run.row, self.run(run)
        if row.without_component:
            return self.train(run._replace(row=replace(row, without_component=False)))
        if row.members and not (out / CONFIG).exists():
            # Of two views of a kind, the first.
            names = [f"{view}.1" if pair.views == f"{view},{view}" else view for view, pair in row.members]
            folders = [self.train(Run(pair, run.seed)) for _, pair in row.members]
            join_runs([Member(*each) for each in zip(folders, names, strict=True)], out)
        elif row.baseline and not (out / CONFIG).exists():
            sizes = ("--views", row.views, "--hidden", self.plan.sizes.hidden, "--seed", run.seed) if row.views else ()
            given = ("--corpus", self.corpus(self.plan.sizes.sentences), "--vectors", self.inputs / "words.bin")
            command("baseline", row.baseline, *given, "-o", out, *sizes)
        elif row.trained and (
            not (out / COMPONENTS).exists() or (out / STATE).exists()
        ):  # a finished one's may be gone
            settings = {
                "corpus": str(self.corpus(row.sentences, row.trees)),
                "out": str(out),
                "seed": run.seed,
                "vectors": str(self.inputs / "words.bin"),
                "views": tuple(row.views.split(",")),
                "channels": tuple(row.channels.split(",")),
                "objective": row.objective,
                "hidden": self.plan.sizes.hidden,
                "batch_size": row.batch,
                "epochs": 1,
                "held_out": VALIDATED,
            }
            train(TrainConfig.from_flat(settings, run.name), errors)
        return out

    @cached_property
    def tasks(self) -> list[Task]:
        """All tasks to score."""
        probing = self.inputs / "probing"
        found, missing = read_tasks(
            (*TASKS, *probing_files(probing)), self.senteval, probing, allow_partial=self.partial
        )
        for task, reason in missing.items():
            print(f"{task} is left out: {reason}", file=sys.stderr)
        return found

    def compare_trees(self) -> None:
        """Store how far other trees agree with the parser's, and the sizes of the corpora, as far as they are there."""
        file = self.stored / "trees.json"
        if not file.exists():
            own = ParsedCorpus.open(self.corpus("held-out"))
            others = {path.name.split(".")[1]: path for path in self.inputs.glob("held-out.*.parsed")}
            names = {run.row.trees: run.row.trees.replace(":", "-") for run in self.plan.runs()}
            found = {
                trees: agreement(own, ParsedCorpus.open(others[name]))
                for trees, name in names.items()
                if name in others
            }
            sizes = {path.stem: path for path in self.inputs.glob("*.parsed") if path.stem.isdecimal()}
            sentences = {name: len(ParsedCorpus.open(path)) for name, path in sizes.items()}
            write_json(file, {"agreement": found, "sentences": sentences | {"held-out": len(own)}}, sealed=False)


def agreement(corpus: ParsedCorpus, other: ParsedCorpus) -> dict[str, float]:
    """Labelled and unlabelled attachment scores and bracket F1 of other trees of the same sentences, in per cent.

    All words count, and the constituents of more than one word with their labels.
    """
    words = heads = both = brackets = found = 0
    for number in range(corpus.n_shards):
        own, others = (Flat(each.shard(number)) for each in (corpus, other))
        same = own.heads == others.heads
        relations = (np.array(each.strings("relations").to_pylist()) for each in (own, others))
        words, heads = words + len(same), heads + int(same.sum())
        both += int((same & np.equal(*relations)).sum())
        for pair in zip(rows_of(corpus.shard(number)), rows_of(other.shard(number)), strict=True):
            first, second = (spans_of(row.sentence) for row in pair)
            brackets += len(first) + len(second)
            found += 2 * len(first & second)
        if words >= COMPARED:
            break
    return {"las": 100 * both / words, "uas": 100 * heads / words, "f1": 100 * found / brackets}


def spans_of(sentence: ParsedSentence) -> set[tuple[int, int, str]]:
    """Its constituents of more than one word."""
    return {(start, end, label) for start, end, label in sentence.spans() if end - start > 1}


def run_all(work: Work, only: str) -> None:
    """Train and score every run that has no scores yet.

    Args:
        work: the study.
        only: patterns of the names of the runs to do, comma-separated.

    Raises:
        InputError: if ``only`` names no run, or, after all others were done, if one diverged.
    """
    runs = [run for run in work.plan.runs() if any(fnmatch(run.name, each) for each in only.split(","))]
    if not runs:
        raise InputError(
            f"--only {only}: names no run: give names or patterns of runs, such as '{work.plan.runs()[0].name}'"
        )
    left = [run for run in runs if not work.file(run).exists()]
    if left:
        (work.stored / "runs").mkdir(parents=True, exist_ok=True)
        work.compare_trees()
    diverged: list[str] = []
    for number, run in enumerate(left, 1):
        print(f"run {number} of {len(left)}: {run.name}", file=sys.stderr, flush=True)
        try:
            folder = work.train(run)
        except DivergedError as error:  # the others are still wanted
            print(f"error: {error}", file=sys.stderr)
            diverged.append(run.name)
            continue
        trees = [work.corpus(name, run.row.trees) for name in ("tasks", "held-out")]
        write_json(work.file(run), score(run, folder, work.tasks, *trees, work.plan.sizes.asked), sealed=False)
        # The state is half of a folder, and copies of other runs' views are all of it; neither is needed again.
        shutil.rmtree(work.run(run) if run.row.members else work.run(run) / STATE, ignore_errors=True)
    if diverged:
        raise DivergedError(f"training diverged: {', '.join(diverged)}: the other runs are not affected")


@contextmanager
def errors_as_exits() -> Iterator[None]:
    """End the process with one line, and the exit status of a command, if a step is stopped or its input is wrong."""
    try:
        yield
    except Interrupted as stop:
        print(f"stopped at step {stop.step}, saved; run the same command again to resume", file=sys.stderr)
        sys.exit(128 + stop.signal)
    except KeyboardInterrupt:  # while no run is trained
        print("stopped; run the same command again to resume", file=sys.stderr)
        sys.exit(130)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except subprocess.CalledProcessError as error:  # the command has said why
        sys.exit(error.returncode)
