"""The parsing job: a source of sentences to a parsed corpus, resumable at any point.

The work is cut into shards by the source alone, each shard is parsed by one process as one list,
and appears whole or not at all. So the result depends neither on the number of workers nor on
where an earlier attempt was killed: the same command keeps the shards that are there and makes
the others. ``job.json``, written first and removed last, says what the shards are made from.
"""

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from structviews.cache import (
    JOB,
    MANIFEST,
    MODELS,
    ParsedCorpus,
    Row,
    Skipped,
    new_job,
    reasons,
    shard_name,
    write_json,
    write_manifest,
    write_shard,
)
from structviews.errors import InputError

from .backends import Unparsed
from .sources import Source, TakeTrees, Work

# Small enough that a few workers end together on a corpus of 10,000 sentences, and that little is
# lost when they are killed; large enough that the sentences of a batch can be alike in length.
SENTENCES_PER_SHARD = 1000


def parse_corpus(
    source: Source,
    out: Path,
    *,
    workers: int = 1,
    console: Console | None = None,
    sentences_per_shard: int = SENTENCES_PER_SHARD,
) -> tuple[ParsedCorpus, bool]:
    """Parse a source into the corpus folder ``out``, going on where an earlier attempt ended.

    Args:
        source: sentences and what parses them.
        out: the folder; made if need be.
        workers: number of processes, each with one thread; the result does not depend on it.
        console: where the progress bar is drawn; none if None.
        sentences_per_shard: sentences of the source in a shard.

    Returns:
        The corpus, and whether it was there already.

    Raises:
        InputError: if ``out`` holds something else, the disk is full, or no sentence was parsed.
    """
    if workers < 1:
        raise InputError(f"--workers {workers}: give a number from 1")
    with executor(source.work, workers) as pool:
        job = describe_job(source, pool, sentences_per_shard)
        with disk_errors(out):
            out.mkdir(parents=True, exist_ok=True)
        with exclusive(out):
            there = (out / MANIFEST).exists()
            if there:
                check_same(out, ParsedCorpus.open(out).manifest, job)
            else:
                begin(out, job)
                n_shards = make_shards(
                    source, out, pool, sentences_per_shard=sentences_per_shard, workers=workers, console=console
                )
                with disk_errors(out):
                    write_manifest(out, n_shards, job)
            clean(out)
            corpus = ParsedCorpus.open(out)
            if not len(corpus):
                remove(corpus)
                raise InputError(f"no sentence could be parsed: {summary(corpus)}")
    return corpus, there


def describe_job(source: Source, pool: Executor, sentences_per_shard: int) -> dict[str, Any]:
    """What the corpus is made from and how: the part of the manifest that is known beforehand."""
    description = source.describe()
    description["settings"]["sentences_per_shard"] = sentences_per_shard
    return new_job(**description, **pool.submit(source.work.describe).result())


def begin(out: Path, job: dict[str, Any]) -> None:
    """Write the job file, or check that the one that is there is of the same job."""
    sweep(out)
    if (out / JOB).exists():
        check_same(out, json.loads((out / JOB).read_bytes()), job)
    elif any(out.iterdir()):
        raise InputError(f"{out} holds other files: name another folder with --out")
    else:
        with disk_errors(out):
            write_json(out / JOB, job)


def check_same(out: Path, before: dict[str, Any], job: dict[str, Any]) -> None:
    """Raise InputError if what is in ``out`` was made from anything else."""
    # The same models may lie in another folder.
    differing = [key for key in job if key != MODELS and before.get(key) != job[key]]
    if differing:
        settings, now = before["settings"], job["settings"]
        changed = [f"{key} {settings.get(key)} and not {now[key]}" for key in now if settings.get(key) != now[key]]
        details = f" ({', '.join(changed)})" if changed else ""
        raise InputError(
            f"{out} was begun with other {' and '.join(differing)}{details}: "
            f"name another folder with --out, or delete it to start over"
        )


def make_shards(
    source: Source, out: Path, pool: Executor, *, sentences_per_shard: int, workers: int, console: Console | None
) -> int:
    """Make the shards that are missing; returns how many there are in all."""
    pending: set[Future[tuple[int, int]]] = set()
    with ProgressBar(console, source.lines) as bar:
        number = last_line = 0
        for number, sentences in enumerate(cut(source.sentences(), sentences_per_shard), 1):
            lines, last_line = sentences[-1].line - last_line, sentences[-1].line
            if (out / shard_name(number - 1)).exists():
                bar.skip(lines)
                continue
            pending.add(pool.submit(make_shard, source.work, out, number - 1, sentences, lines))
            # Enough to keep all workers busy, and few enough to hold in memory.
            if len(pending) >= 2 * workers:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                bar.advance(done)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            bar.advance(done)
    return number


def cut(sentences: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Lists of ``size`` sentences; the last may be shorter."""
    while part := list(islice(sentences, size)):
        yield part


def make_shard(work: Work, out: Path, number: int, sentences: Sequence[Any], lines: int) -> tuple[int, int]:
    """Parse the sentences of one shard and write it; returns how many sentences and lines are done."""
    rows, skipped = [], []
    for sentence, tree in zip(sentences, work(sentences), strict=True):
        place = sentence.document, sentence.position, sentence.line
        if isinstance(tree, Unparsed):
            skipped.append(Skipped(*place, tree.reason))
        else:
            rows.append(Row(*place, tree))
    with disk_errors(out):
        write_shard(out, number, rows, skipped)
    return len(sentences), lines


def summary(corpus: ParsedCorpus) -> str:
    """How many sentences were skipped, by reason, in one line."""
    counts = reasons(corpus.skipped)
    if not counts:
        return "none skipped"
    return f"{sum(counts.values()):,} skipped: " + ", ".join(f"{n:,} {reason}" for reason, n in counts.items())


@contextmanager
def executor(work: Work, workers: int) -> Iterator[Executor]:
    """Something to submit the work to: processes, or this one for work that is only reading.

    The processes end when the block is left, and when this process dies.
    """
    if isinstance(work, TakeTrees):
        yield Here()
        return
    # The parent holds the only writing end: its end tells every worker to go.
    alive, life = get_context("spawn").Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker, (alive,))
    try:
        with interrupts_held():
            # A process starts at each submission that finds none idle: these start them all.
            for _ in range(workers):
                pool.submit(os.getpid)
        yield pool
    except BrokenProcessPool:
        raise InputError(
            "a worker process died, perhaps for want of memory: give the same command with fewer --workers to go on"
        ) from None
    finally:
        life.close()
        pool.shutdown(cancel_futures=True)
        alive.close()


class Here(Executor):
    """An executor that does the work at once, in this process."""

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **options))
        return future


def start_worker(alive: Connection) -> None:
    """Give a worker process no life beyond its parent's."""

    def follow() -> None:
        alive.poll(None)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back; processes started meanwhile never see it, since the parent ends them."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Keep other processes from working on the same folder."""
    descriptor = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{out} is being written by another process: wait for it, or name another --out") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn a full disk and the like into an error of one line."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{error.filename or out} cannot be written ({error.strerror}): mend that and give the same command again"
        ) from None


def sweep(out: Path) -> None:
    """Remove what killed writers left."""
    for path in out.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def clean(out: Path) -> None:
    """Leave a finished corpus with nothing but its own files."""
    sweep(out)
    (out / JOB).unlink(missing_ok=True)


def remove(corpus: ParsedCorpus) -> None:
    """Remove a corpus, the manifest first, so that what is left at any moment is not taken for one."""
    for name in (MANIFEST, *(shard["name"] for shard in corpus.manifest["shards"])):
        (corpus.path / name).unlink()
    corpus.path.rmdir()


class ProgressBar:
    """A bar over the lines of the source that remain, with rate and time left."""

    def __init__(self, console: Console | None, lines: int) -> None:
        self.progress = Progress(
            TextColumn("parsing"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]:,.0f} sentences/s"),
            TimeRemainingColumn(),
            console=console,
            disable=console is None,
            # Shards end seldom; the time left follows from all of them.
            speed_estimate_period=3600,
        )
        self.task = self.progress.add_task("", total=lines, rate=0.0)
        self.lines = lines
        self.sentences = 0
        self.started = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        self.progress.start()
        return self

    def __exit__(self, exception: type[BaseException] | None, *_: object) -> None:
        if exception is None:
            self.progress.update(self.task, completed=self.lines)
        self.progress.stop()

    def skip(self, lines: int) -> None:
        """Leave lines out that were done before."""
        self.lines -= lines
        self.progress.update(self.task, total=self.lines)

    def advance(self, done: set[Future[tuple[int, int]]]) -> None:
        """Count shards that are done."""
        for future in done:
            sentences, lines = future.result()
            self.sentences += sentences
            rate = self.sentences / (time.monotonic() - self.started)
            self.progress.update(self.task, advance=lines, rate=rate)
