"""Makes a study's runs: from the texts to the tasks' trees, then one run after another, trained and scored.

What is there is not made again, so a study that was stopped is resumed by the same command.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from structviews.cli.console import errors
from structviews.corpus.parsed_corpus import ParsedCorpus
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
from studies.trees import agreement, write_drawn, write_with_trees

# Learnt on all of the text; those of the bundled model.
VECTORS = ("--lower-case", "--subwords", 60_000, "--epochs", 3)
QUICK_VECTORS = ("--lower-case", "--subwords", 2_000, "--epochs", 1, "--dim", 16)
# Of the training documents, for the log's curve.
VALIDATED = 0.01


def command(*arguments: object) -> None:
    """A command of structviews, as a user gives it."""
    text = [str(argument) for argument in arguments]
    print("structviews", *text, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "structviews", *text], check=True, stdout=sys.stderr)


@dataclass(frozen=True)
class Work:
    """The places and settings of a study.

    Attributes:
        out: folder for all that is made.
        stored: folder of the scores that are stored.
        texts: texts, one sentence per line and an empty line after each document, or parsed corpora of such texts.
        senteval: folder with SentEval's tasks.
        plan: the rows.
        quick: whether the sizes are those of a trial.
    """

    out: Path
    stored: Path
    texts: tuple[Path, ...]
    senteval: Path
    plan: Plan
    quick: bool

    @property
    def vectors(self) -> Path:
        """The word vectors."""
        return self.out / "words.bin"

    @property
    def probing(self) -> Path:
        """Folder of the probing tasks."""
        return self.out / "probing"

    def run(self, run: Run) -> Path:
        """A run's folder."""
        return self.out / "runs" / run.name

    def file(self, run: Run) -> Path:
        """The file of a run's scores."""
        return self.stored / "runs" / f"{run.name}.json"

    def corpus(self, sentences: int | str, trees: str = BUILTIN) -> Path:
        """The corpus of a size, or that of the name ``held-out`` or ``tasks``, with some trees."""
        name = f"{sentences}" if trees == BUILTIN else f"{sentences}.{trees.replace(':', '-')}"
        return self.out / "corpora" / f"{name}.parsed"

    def prepare(self) -> None:
        """Make what all runs need, with the trees of the built-in parser."""
        for folder in (self.out / "corpora", self.out / "parsed", self.stored / "runs"):
            folder.mkdir(parents=True, exist_ok=True)
        parsed = [self.parsed(text) for text in self.texts]
        whole = parsed[0] if len(parsed) == 1 else self.out / "all.parsed"
        self.made(whole, "merge", lambda: command("corpus", "merge", *parsed, "-o", whole))
        flags = QUICK_VECTORS if self.quick else VECTORS
        self.made(self.vectors, "word vectors", lambda: command("vectors", whole, "-o", self.vectors, *flags))
        self.draw(whole, parsed)
        size, held_out = ("--size", self.plan.sizes.probing), self.corpus("held-out")
        making = ("tasks", "make-probing", held_out, "-o", self.probing, *size)
        self.made(self.probing, "probing tasks", lambda: command(*making))
        names = ",".join((*TASKS, *probing_files(self.probing)))
        tasks = ("--senteval", self.senteval, "--probing", self.probing, "--tasks", names)
        trees = self.corpus("tasks")
        self.made(trees / "manifest.json", "parse the tasks", lambda: command("parse", *tasks, "-o", trees))
        self.compare_trees()

    def parsed(self, text: Path) -> Path:
        """The parsed corpus of a text."""
        if text.is_dir():
            return text
        folder = self.out / "parsed" / f"{text.name.split('.')[0]}.parsed"
        parsing = ("parse", text, "-o", folder, "--format", "lines")
        self.made(folder / "manifest.json", f"parse {text.name}", lambda: command(*parsing))
        return folder

    def draw(self, whole: Path, parsed: Sequence[Path]) -> None:
        """Draw the corpora of all sizes, and the documents held out."""
        sizes = {self.corpus(n): n for n in self.plan.sizes.corpora}
        held_out = self.corpus("held-out")
        if not all(path.exists() for path in (held_out, *sizes)):
            groups = {path.name: len(ParsedCorpus.open(path)) for path in parsed}
            drawing = (groups, (held_out, self.plan.sizes.held_out), sizes)
            self.timed("draw", lambda: write_drawn(ParsedCorpus.open(whole), *drawing))

    def compare_trees(self) -> None:
        """Store how far other trees agree with the built-in parser's, and the sizes of the corpora."""
        file = self.stored / "trees.json"
        if not file.exists():
            names = dict.fromkeys(run.row.trees for run in self.plan.runs() if run.row.trees != BUILTIN)
            own = ParsedCorpus.open(self.corpus("held-out"))
            found = {name: agreement(own, ParsedCorpus.open(self.with_trees("held-out", name))) for name in names}
            corpora = {str(name): len(ParsedCorpus.open(self.corpus(name))) for name in self.plan.sizes.corpora}
            write_json(file, {"agreement": found, "sentences": corpora | {"held-out": len(own)}}, sealed=False)

    def with_trees(self, name: int | str, trees: str) -> Path:
        """A corpus with some trees, made if it is missing."""
        path = self.corpus(name, trees)
        source = self.corpus(name)
        self.made(path, f"trees {path.stem}", lambda: write_with_trees(ParsedCorpus.open(source), trees, path))
        return path

    def train(self, run: Run) -> Path:
        """Train a run, or make it if it is a baseline or joins others; its folder.

        Raises:
            InputError: if the folder holds a run with other settings.
        """
        row, out = run.row, self.run(run)
        if row.members:
            return self.joined(run, out)
        if row.without_component:
            return self.train(run._replace(row=replace(row, without_component=False)))
        corpus = self.with_trees(row.sentences or self.plan.sizes.sentences, row.trees)
        if row.baseline:
            sizes = ("--views", row.views, "--hidden", self.plan.sizes.hidden, "--seed", run.seed) if row.views else ()
            given = ("--corpus", corpus, "--vectors", self.vectors, "-o", out, *sizes)
            self.made(out / CONFIG, run.name, lambda: command("baseline", row.baseline, *given))
            return out
        if not (out / COMPONENTS).exists() or (out / STATE).exists():  # a finished run's state may be gone
            train(self.config(run, corpus), errors)
        return out

    def config(self, run: Run, corpus: Path) -> TrainConfig:
        """The settings that a run is trained with."""
        settings = {
            "corpus": str(corpus),
            "out": str(self.run(run)),
            "seed": run.seed,
            "vectors": str(self.vectors),
            "views": tuple(run.row.views.split(",")),
            "channels": tuple(run.row.channels.split(",")),
            "objective": run.row.objective,
            "hidden": self.plan.sizes.hidden,
            "batch_size": run.row.batch,
            "epochs": 1,
            "held_out": VALIDATED,
            "log_every": 1 if self.quick else 10,
        }
        return TrainConfig.from_flat(settings, run.name)

    def joined(self, run: Run, out: Path) -> Path:
        """Make a run of single views of trained ones; its folder."""
        if not (out / CONFIG).exists():
            members = []
            for view, pair in run.row.members:
                folder = self.train(Run(pair, run.seed))
                # Of two views of a kind, the first.
                members.append(Member(folder, f"{view}.1" if pair.views == f"{view},{view}" else view))
            join_runs(members, out)
        return out

    @cached_property
    def tasks(self) -> list[Task]:
        """All tasks to score."""
        names = (*TASKS, *probing_files(self.probing))
        found, missing = read_tasks(names, self.senteval, self.probing, allow_partial=self.quick)
        for task, reason in missing.items():
            print(f"{task} is left out: {reason}", file=sys.stderr)
        return found

    def made(self, path: Path, title: str, make: Callable[[], object]) -> None:
        """Make what is missing."""
        if not path.exists():
            self.timed(title, make)

    def timed(self, title: str, do: Callable[[], object]) -> None:
        """Do a stage and store what it took the first time, in seconds."""
        began = time.monotonic()
        do()
        file = self.stored / "stages.json"
        before = json.loads(file.read_text("utf-8")) if file.exists() else {}
        write_json(file, {title: round(time.monotonic() - began)} | before, sealed=False)


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
        work.prepare()
    diverged: list[str] = []
    for number, run in enumerate(left, 1):
        print(f"run {number} of {len(left)}: {run.name}", file=sys.stderr, flush=True)
        try:
            folder = work.train(run)
        except DivergedError as error:  # the others are still wanted
            print(f"error: {error}", file=sys.stderr)
            diverged.append(run.name)
            continue
        trees = [work.with_trees(name, run.row.trees) for name in ("tasks", "held-out")]
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
