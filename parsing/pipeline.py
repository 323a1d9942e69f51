"""The parsing job: a source of sentences to a parsed corpus, resumable at any point.

The work is cut into shards by the source alone, each shard is parsed by one worker as one list,
and appears whole or not at all. So the result depends neither on the engine and the number of its
workers nor on where an earlier attempt was killed: the same command keeps the shards that are there
and makes the others. ``job.json``, written first and removed last, says what the shards are made from.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from structviews.cache import (
    JOB,
    MANIFEST,
    MODELS,
    Form,
    ParsedCorpus,
    Row,
    Skipped,
    encode_shard,
    new_job,
    reasons,
    shard_name,
    write_encoded,
    write_json,
    write_manifest,
)
from structviews.errors import InputError

from .backends import Unparsed
from .engines import Engine, EngineName, open_engine
from .sources import Source, Work

# Small enough that a few workers end together on a corpus of 10,000 sentences, and that little is
# lost when they are killed; large enough that the sentences of a batch can be alike in length.
SENTENCES_PER_SHARD = 1000
LOCK = ".lock"


def parse_corpus(
    source: Source,
    out: Path,
    *,
    workers: int | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    console: Console | None = None,
    sentences_per_shard: int = SENTENCES_PER_SHARD,
    compression: str | None = None,
) -> tuple[ParsedCorpus, bool]:
    """Parse a source into the corpus folder ``out``, going on where an earlier attempt ended.

    Args:
        source: sentences and what parses them.
        out: the folder; made if need be.
        workers, engine, address: who parses (see ``engines.open_engine``), each with one thread; the
            result does not depend on it.
        console: where the progress bar is drawn; none if None.
        sentences_per_shard: sentences of the source in a shard.
        compression: of the shards; see ``structviews.cache.Form``.

    Returns:
        The corpus, and whether it was there already.

    Raises:
        InputError: if ``out`` holds something else, the disk is full, the source changes meanwhile,
            or no sentence was parsed.
    """
    with open_engine(engine, source.work, workers=workers, address=address) as workforce:
        job = describe_job(source, workforce, sentences_per_shard, compression)
        with disk_errors(out):
            out.mkdir(parents=True, exist_ok=True)
        with exclusive(out):
            there = (out / MANIFEST).exists()
            if there:
                check_same(out, ParsedCorpus.open(out).manifest, job)
            else:
                begin(out, job)
                n_shards = make_shards(
                    source, out, workforce, job, sentences_per_shard=sentences_per_shard, console=console
                )
                with disk_errors(out):
                    write_manifest(out, n_shards, job)
            clean(out)
            corpus = ParsedCorpus.open(out)
            if not len(corpus):
                remove(corpus)
                raise InputError(f"no sentence could be parsed: {summary(corpus)}")
    return corpus, there


def describe_job(source: Source, engine: Engine, sentences_per_shard: int, compression: str | None) -> dict[str, Any]:
    """What the corpus is made from and how: the part of the manifest that is known beforehand."""
    description = source.describe()
    description["settings"] |= {"sentences_per_shard": sentences_per_shard, "compression": compression}
    return new_job(**description, **engine.submit(described, source.work).result())


def begin(out: Path, job: dict[str, Any]) -> None:
    """Write the job file, or check that the one that is there is of the same job."""
    sweep(out)
    if (out / JOB).exists():
        check_same(out, json.loads((out / JOB).read_bytes()), job)
    elif any(path.name != LOCK for path in out.iterdir()):
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


@dataclass(frozen=True)
class Part:
    """What becomes one shard: its number, and how many sentences and lines of the source it covers."""

    number: int
    sentences: int
    lines: int


def make_shards(
    source: Source,
    out: Path,
    engine: Engine,
    job: dict[str, Any],
    *,
    sentences_per_shard: int,
    console: Console | None,
) -> int:
    """Make the shards that are missing; returns how many there are in all."""
    pending: dict[Future[pa.Buffer], Part] = {}
    with ProgressBar(console, source.lines) as bar, unreadable(source, out):

        def finish_some() -> None:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                keep_shard(source, out, pending[future], future.result())
                bar.advance(pending.pop(future))

        number = last_line = 0
        for number, sentences in enumerate(cut(source.sentences(), sentences_per_shard), 1):
            part = Part(number - 1, len(sentences), sentences[-1].line - last_line)
            last_line = sentences[-1].line
            if (out / shard_name(part.number)).exists():
                bar.skip(part)
                continue
            while len(pending) >= engine.room():
                finish_some()
            pending[engine.submit(parse_shard, source.work, job, sentences)] = part
        while pending:
            finish_some()
    check_unchanged(source, out)
    return number


def cut(sentences: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Lists of ``size`` sentences; the last may be shorter."""
    while part := list(islice(sentences, size)):
        yield part


def parse_shard(work: Work, job: dict[str, Any], sentences: Sequence[Any]) -> pa.Buffer:
    """What a worker does: parse the sentences of one shard; returns the bytes of its file."""
    for what, mine in described(work).items():
        if mine != job[what]:
            raise InputError(f"workers differ in their {what} ({mine} and {job[what]}): install the same everywhere")
    rows, skipped = [], []
    for sentence, tree in zip(sentences, work(sentences), strict=True):
        place = sentence.document, sentence.position, sentence.line
        if isinstance(tree, Unparsed):
            skipped.append(Skipped(*place, tree.reason))
        else:
            rows.append(Row(*place, tree))
    return encode_shard(rows, skipped, Form.of(job))


@cache
def described(work: Work) -> dict[str, Any]:
    """What the manifest says about the work; asked for once in a worker, since it hashes models."""
    return work.describe()


def keep_shard(source: Source, out: Path, part: Part, content: pa.Buffer) -> None:
    """Write a shard, unless it may be of another text than the job's."""
    check_unchanged(source, out)
    with disk_errors(out):
        write_encoded(out, part.number, content)


def check_unchanged(source: Source, out: Path) -> None:
    """Raise InputError if the source is no longer what the job says it is made from."""
    if changed := source.changed():
        raise InputError(
            f"{' and '.join(changed)} changed in the course of this run: put back what was there and give the same "
            f"command again to go on, or delete {out} to start over"
        )


@contextmanager
def unreadable(source: Source, out: Path) -> Iterator[None]:
    """Explain that the source, which could be read before, cannot be read any more."""
    try:
        yield
    except (OSError, UnicodeDecodeError):
        check_unchanged(source, out)
        raise


def summary(corpus: ParsedCorpus) -> str:
    """How many sentences were skipped, by reason, in one line."""
    counts = reasons(corpus.skipped)
    if not counts:
        return "none skipped"
    return f"{sum(counts.values()):,} skipped: " + ", ".join(f"{n:,} {reason}" for reason, n in counts.items())


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Keep other processes from working on the same folder, also on other machines that share it."""
    with disk_errors(out):
        lock = (out / LOCK).open("w")  # network file systems lock only what is open for writing
    with lock:
        if not locked(lock, out / LOCK):
            raise InputError(f"{out} is being written by another process: wait for it, or name another --out")
        try:
            yield
        finally:
            (out / LOCK).unlink(missing_ok=True)


def locked(lock: IO[str], path: Path) -> bool:
    """Lock an open file that is still at ``path``: who had it before removes it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


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
    for name in (MANIFEST, *(shard["name"] for shard in corpus.manifest["shards"]), LOCK):
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

    def skip(self, part: Part) -> None:
        """Leave a part out that was done before."""
        self.lines -= part.lines
        self.progress.update(self.task, total=self.lines)

    def advance(self, part: Part) -> None:
        """Count a part that is done."""
        self.sentences += part.sentences
        rate = self.sentences / (time.monotonic() - self.started)
        self.progress.update(self.task, advance=part.lines, rate=rate)
