"""The work folder: what is made once, from the texts to the tasks' trees, and the runs."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from filelock import FileLock, Timeout
from smoke import command, log

from pairs.corpora import agreement, write_drawn, write_with_trees
from pairs.plan import BUILTIN, Planned, Row, Run
from structviews.cli.console import errors
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.kinds.joined import Member, join_runs
from structviews.evaluation.senteval.suite import read_tasks
from structviews.evaluation.senteval.tasks.probing import probing_files
from structviews.evaluation.senteval.tasks.reading import Task
from structviews.runs.config import TrainConfig
from structviews.runs.folder import COMPONENTS, CONFIG
from structviews.runs.settings_file import load_run
from structviews.runtime.documents import write_json
from structviews.training.checkpoint import check_settings
from structviews.training.loop import train

# The tasks whose mean is the study's main score.
TASKS = ("MR", "SUBJ", "TREC", "SICK-R", "SICK-E", "STS-B", "STS14", "SICK14")
# Learnt on all of the text; those of the bundled model.
VECTORS = ("--lower-case", "--subwords", 60_000, "--epochs", 3)
QUICK_VECTORS = ("--lower-case", "--subwords", 2_000, "--epochs", 1, "--dim", 16)
# Settings that name files, which may have been moved, or be named otherwise.
PLACES = ("corpus", "vectors", "encoder")
# Of the training documents, for the log's curve.
VALIDATED = 0.01


@dataclass(frozen=True)
class Work:
    """The places and settings of the study.

    Attributes:
        out: folder for all that is made.
        kept: folder of the scores that are kept.
        texts: texts, one sentence per line and an empty line after each document, or parsed corpora of such texts.
        senteval: folder with SentEval's tasks.
        given: word vectors; None to learn them on the texts.
        plan: the rows.
        quick: whether the sizes are those of a trial.
        scored: names of the tasks to score, beside the probing tasks.
    """

    out: Path
    kept: Path
    texts: tuple[Path, ...]
    senteval: Path
    given: Path | None
    plan: Planned
    quick: bool
    scored: tuple[str, ...] = TASKS

    @property
    def vectors(self) -> Path:
        """The word vectors."""
        return self.given or self.out / "words.bin"

    @property
    def probing(self) -> Path:
        """Folder of the probing tasks."""
        return self.out / "probing"

    def run(self, run: Run) -> Path:
        """A run's folder."""
        return self.out / "runs" / run.name

    def file(self, run: Run) -> Path:
        """The file of a run's scores."""
        return self.kept / "runs" / f"{run.name}.json"

    def corpus(self, sentences: int | str, trees: str = BUILTIN) -> Path:
        """The corpus of a size, or that of the name ``held-out`` or ``tasks``, with some trees."""
        name = f"{sentences}" if trees == BUILTIN else f"{sentences}.{trees.replace(':', '-')}"
        return self.out / "corpora" / f"{name}.parsed"

    def prepare(self) -> None:
        """Make what all runs need, with the trees of the built-in parser."""
        (self.out / "corpora").mkdir(parents=True, exist_ok=True)
        (self.kept / "runs").mkdir(parents=True, exist_ok=True)
        with self.alone("prepare"):
            parsed = [self.parsed(text) for text in self.texts]
            whole = self.out / "all.parsed"
            if len(parsed) == 1:
                whole = parsed[0]
            elif not whole.exists():
                self.timed("merge", lambda: command("corpus", "merge", *parsed, "-o", whole))
            if not self.vectors.exists():
                flags = QUICK_VECTORS if self.quick else VECTORS
                self.timed("word vectors", lambda: command("vectors", whole, "-o", self.vectors, *flags))
            self.draw(whole, parsed)
            self.make_tasks()

    def parsed(self, text: Path) -> Path:
        """The parsed corpus of a text."""
        if text.is_dir():
            return text
        folder = self.out / "parsed" / f"{text.name.split('.')[0]}.parsed"
        if not (folder / "manifest.json").exists():
            folder.parent.mkdir(exist_ok=True)
            self.timed(f"parse {text.name}", lambda: command("parse", text, "-o", folder, "--format", "lines"))
        return folder

    def draw(self, whole: Path, parsed: Sequence[Path]) -> None:
        """Draw the corpora of all sizes, and the documents held out."""
        sizes = {self.corpus(n): n for n in self.plan.sizes.corpora}
        held_out = (self.corpus("held-out"), self.plan.sizes.held_out)
        if not all(path.exists() for path in (held_out[0], *sizes)):
            groups = {path.name: len(ParsedCorpus.open(path)) for path in parsed}
            self.timed("draw", lambda: write_drawn(ParsedCorpus.open(whole), groups, held_out, sizes))

    def make_tasks(self) -> None:
        """The probing tasks, and the trees of all tasks' sentences."""
        if not self.probing.exists():
            size = ("--size", self.plan.sizes.probing)
            held_out = self.corpus("held-out")
            self.timed("probing tasks", lambda: command("tasks", "make-probing", held_out, "-o", self.probing, *size))
        trees = self.corpus("tasks")
        if not (trees / "manifest.json").exists():
            names = ",".join((*self.scored, *probing_files(self.probing)))
            given = ("--senteval", self.senteval, "--probing", self.probing, "--tasks", names)
            self.timed("parse the tasks", lambda: command("parse", *given, "-o", trees))

    def with_trees(self, name: int | str, trees: str) -> Path:
        """A corpus with some trees, made if it is missing."""
        path = self.corpus(name, trees)
        if not path.exists():
            with self.alone(path.name):
                if not path.exists():
                    source = ParsedCorpus.open(self.corpus(name))
                    self.timed(f"trees {path.stem}", lambda: write_with_trees(source, trees, path))
        return path

    def train(self, run: Run, **changes: Any) -> Path:
        """Train a run, or make it if it is a baseline or has parts of others; its folder.

        Args:
            run: the run.
            **changes: further settings, by their flat names.

        Raises:
            InputError: if the folder holds a run with other settings.
        """
        row = run.row
        out = Path(changes.pop("out", self.run(run)))
        if row.parts:
            return self.joined(run, out)
        if row.without_component:
            whole = run._replace(row=replace(row, without_component=False))
            with self.alone(whole.name):  # another process may be training it
                return self.train(whole)
        sentences = row.sentences or self.plan.sizes.sentences
        if row.baseline:
            if not (out / CONFIG).exists():
                self.make_baseline(run, self.with_trees(sentences, row.trees), out)
            return out
        corpus = self.corpus(sentences, row.trees)
        settings = self.settings(row) | {"corpus": str(corpus), "out": str(out), "seed": run.seed}
        config = TrainConfig.from_flat(settings | changes, run.name)
        if (out / COMPONENTS).exists() and not changes:  # its state may be gone, and it is not needed
            there = load_run(out)[0].flat()
            moved = {name: there[name] for name in PLACES if name in there}
            check_settings(config.replaced(**moved))
            return out
        self.with_trees(sentences, row.trees)
        return train(config, errors)

    def settings(self, row: Row) -> dict[str, Any]:
        """The settings that a row is trained with, by their flat names."""
        return {
            "vectors": str(self.vectors),
            "views": tuple(row.views.split(",")),
            "channels": tuple(row.channels.split(",")),
            "objective": row.objective,
            "hidden": self.plan.sizes.hidden,
            "batch_size": row.batch,
            "epochs": 1,
            "held_out": VALIDATED,
            "log_every": 1 if self.quick else 10,
        }

    def make_baseline(self, run: Run, corpus: Path, out: Path) -> None:
        """Make the run of a baseline."""
        sizes = ("--views", run.row.views, "--hidden", self.plan.sizes.hidden, "--seed", run.seed)
        own = sizes if run.row.views else ()
        command("baseline", run.row.baseline, "--corpus", corpus, "--vectors", self.vectors, "-o", out, *own)

    def joined(self, run: Run, out: Path) -> Path:
        """Make a run of single views of trained ones; its folder."""
        if not (out / CONFIG).exists():
            members = []
            for view, pair in run.row.parts:
                whole = Run(pair, run.seed)
                with self.alone(whole.name):  # another process may be training it
                    folder = self.train(whole)
                # Of two views of a kind, the first.
                members.append(Member(folder, f"{view}.1" if pair.views == f"{view},{view}" else view))
            join_runs(members, out)
        return out

    @cached_property
    def tasks(self) -> list[Task]:
        """All tasks to score."""
        names = (*self.scored, *probing_files(self.probing))
        found, missing = read_tasks(names, self.senteval, self.probing, allow_partial=self.quick)
        for task, reason in missing.items():
            print(f"{task} is left out: {reason}", file=sys.stderr)
        return found

    def timed(self, title: str, do: Callable[[], object]) -> None:
        """Do a stage and keep what it took the first time, in seconds; later it finds its result."""
        began = time.monotonic()
        do()
        with self.alone("stages"):
            file = self.kept / "stages.json"
            known = json.loads(file.read_text("utf-8")) if file.exists() else {}
            write_json(file, {title: round(time.monotonic() - began)} | known, sealed=False)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until no other process has this part of the work."""
        with FileLock(self.lock(name)):
            yield

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Whether this process may do this part; not if another one has it."""
        lock = FileLock(self.lock(name), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def lock(self, name: str) -> Path:
        """The file that is locked."""
        (self.out / "locks").mkdir(parents=True, exist_ok=True)
        return self.out / "locks" / name


def keep_agreement(work: Work, rows: Sequence[Row]) -> None:
    """Keep how far the trees of rows agree with the built-in parser's, and the sizes of the corpora."""
    file = work.kept / "trees.json"
    if not file.exists():
        names = dict.fromkeys(row.trees for row in rows if row.trees != BUILTIN)
        own = ParsedCorpus.open(work.corpus("held-out"))
        found = {name: agreement(own, ParsedCorpus.open(work.with_trees("held-out", name))) for name in names}
        corpora = {str(name): len(ParsedCorpus.open(work.corpus(name))) for name in work.plan.sizes.corpora}
        corpora["held-out"] = len(own)
        write_json(file, {"agreement": found, "sentences": corpora}, sealed=False)


def rate(run: Path) -> float:
    """Sentences a second at the median step."""
    return median(line["sentences_per_second"] for line in log(run, "train"))
