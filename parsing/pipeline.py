"""The parsing job: turns a source of sentences into a parsed corpus, and can be resumed at any point.

The source alone determines how sentences are split into shards. One worker parses each shard as one list,
and the shard's file is complete or absent. So the result depends neither on the engine or the number of
workers nor on where an earlier attempt was killed: the same command keeps existing shards and makes the
others. ``job.json``, written first and removed last, records what the shards are made from, and
``finished.jsonl`` the size and digest of each shard before it appears: one that differs is made again.
"""

import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, cast

import pyarrow as pa
from rich.console import Console

from structviews.corpus import layout
from structviews.corpus.parsed_corpus import DamagedCorpus, ParsedCorpus, ShardEntry, whole_shard
from structviews.corpus.writer import entry_of, write_manifest
from structviews.errors import InputError
from structviews.parsing.engines import EngineName, open_engine
from structviews.parsing.parser import Unparsed
from structviews.parsing.sources import Source, Work
from structviews.runtime.documents import parse_json, read_sealed, write_json
from structviews.runtime.files import creating, write_whole
from structviews.runtime.processes import Engine
from structviews.runtime.terminal import Bar, Terminal, say

# Small enough that a few workers finish a corpus of 10,000 sentences at about the same time and lose
# little when killed; large enough to form batches of sentences of similar length.
SENTENCES_PER_SHARD = 1000


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
    """Parse a source into the corpus folder ``out``, resuming an earlier attempt if there is one.

    Returns the corpus, and whether it already existed. Raises InputError if ``out`` holds something else, the disk is
    full, the source changes during the run, or no sentence could be parsed.

    For ``workers``, ``engine`` and ``address`` see ``engines.open_engine``: each worker has one thread, and the result
    does not depend on these. Of local workers, no more start than there are shards. The ``console`` shows the source's
    note and the progress bar. For the other arguments see ``structviews.corpus.layout.Form``.
    """
    if engine == "local" and workers and workers > 1:
        workers = max(1, len(list(islice(cut(source.sentences(), sentences_per_shard), workers))))
    with (
        Bar(console or Terminal(quiet=True), "parsing", "lines") as bar,
        open_engine(engine, source.work, workers=workers, address=address) as workforce,
    ):
        bar.stage("loading the parser")
        job = source.describe()  # what the corpus is made from and how: the part of the manifest known before parsing
        job["settings"] |= {"sentences_per_shard": sentences_per_shard, "compression": compression}
        job = layout.new_job(**job, **workforce.submit(described, source.work).result())
        with creating(out):
            with disk_errors(out):
                out.mkdir(exist_ok=True)
            there = (out / layout.MANIFEST).exists()
            if there:
                check_same(out, ParsedCorpus.open(out).manifest, job)
            elif (out / layout.JOB).exists():
                check_same(out, read_sealed(out / layout.JOB, dict[str, Any], f"delete {out} to start over"), job)
            elif any(not path.name.startswith(".") for path in out.iterdir()):
                raise InputError(f"{out} holds other files: choose another folder with --out")
            else:
                with disk_errors(out):
                    write_json(out / layout.JOB, job)
            if not there:
                if console and source.note:
                    say(console, source.note)
                shards = make_shards(source, out, workforce, job, bar)
                repaired = {"repaired": dict(source.repairs.lines)} if source.repairs.lines else {}
                with disk_errors(out):
                    write_manifest(out, shards, {**job, **repaired})
            for name in (layout.JOB, layout.FINISHED):  # only needed to resume
                (out / name).unlink(missing_ok=True)
            corpus = ParsedCorpus.open(out)
            if not len(corpus):
                # The manifest first, so that a partly deleted corpus is never mistaken for one.
                for name in (layout.MANIFEST, *(shard["name"] for shard in corpus.manifest["shards"])):
                    (out / name).unlink()
                out.rmdir()
                raise InputError(f"no sentence could be parsed: {summary(corpus)}")
    return corpus, there


def check_same(out: Path, before: dict[str, Any], job: dict[str, Any]) -> None:
    """Raise InputError if ``out`` belongs to a different job."""
    # The same models may be in another folder.
    was, asked = ({"kept": [], **each} for each in (before, job))
    differing = [key for key in asked if key != layout.MODELS and was.get(key) != asked[key]]
    if differing:
        settings, now = before["settings"], job["settings"]
        changed = [f"{key} was {settings.get(key)}, is {now[key]}" for key in now if settings.get(key) != now[key]]
        details = f" ({'; '.join(changed)})" if changed else ""
        raise InputError(
            f"{out} belongs to a job that differs in {' and '.join(differing)}{details}: "
            f"choose another folder with --out, or delete this one to start over"
        )


class Task(NamedTuple):
    """A shard to parse: its number, and how many sentences and lines of the source it covers."""

    number: int
    sentences: int
    lines: int


class Progress:
    """Shows how many of the source's lines are parsed, and the rate of the sentences that are parsed here."""

    def __init__(self, bar: Bar, lines: int) -> None:
        self._bar = bar
        self.lines = lines  # to be parsed here
        self._lines_done = self._sentences = 0.0
        self._reported: dict[int, float] = {}  # sentences of the shards under way, by number
        self._first: tuple[float, float] | None = None  # how many when: the parser is loaded before
        self._lock = Lock()

    def advance(self, task: Task, sentences: float) -> None:
        """Count further sentences of a task."""
        with self._lock:
            self._reported[task.number] = self._reported.get(task.number, 0) + sentences
            self._sentences += sentences
            self._lines_done += sentences * task.lines / task.sentences
            self._show()

    def finish(self, task: Task) -> None:
        """Count what is left of a task."""
        self.advance(task, task.sentences - self._reported.pop(task.number, 0))

    def end(self) -> None:
        """Count the lines after the last sentence."""
        if self._first:
            self._lines_done = self.lines
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        before, began = self._first = self._first or (self._sentences, now)
        new = self._sentences - before
        rate = f"{new / max(now - began, 1e-9):,.0f} sentences/s" if new else ""
        self._bar(round(self._lines_done), self.lines, rate=rate)


def make_shards(source: Source, out: Path, engine: Engine, job: dict[str, Any], bar: Bar) -> list[ShardEntry]:
    """Make the missing shards; return the entries of all."""
    progress = Progress(bar, source.files[0].lines)
    pending: dict[Future[pa.Buffer], Task] = {}
    with disk_errors(out):
        shards = finished_shards(out)

    def finish_some() -> None:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            task = pending[future]
            entry = shards[layout.shard_name(task.number)] = entry_of(task.number, future.result())
            check_unchanged(source, out)
            with disk_errors(out):
                with (out / layout.FINISHED).open("a", encoding="utf-8") as journal:
                    journal.write(json.dumps(entry) + "\n")
                    journal.flush()
                    os.fsync(journal.fileno())
                write_whole(out / entry["name"], future.result())
            progress.finish(pending.pop(future))

    number = last_line = 0
    try:
        for number, sentences in enumerate(cut(source.sentences(), job["settings"]["sentences_per_shard"]), 1):
            task = Task(number - 1, len(sentences), sentences[-1].line - last_line)
            last_line = sentences[-1].line
            if layout.shard_name(task.number) in shards:
                progress.lines -= task.lines
                continue
            while len(pending) >= engine.capacity():
                finish_some()
            on_report = partial(progress.advance, task)
            pending[engine.submit(parse_shard, source.work, job, sentences, on_report=on_report)] = task
        while pending:
            finish_some()
    except (OSError, UnicodeDecodeError):
        check_unchanged(source, out)  # which explains why it can no longer be read
        raise
    progress.end()
    check_unchanged(source, out)
    return [shards[layout.shard_name(each)] for each in range(number)]


def finished_shards(out: Path) -> dict[str, ShardEntry]:
    """The entries of an earlier attempt's shards, by name, except those of missing or damaged ones.

    A shard counts only if it is exactly what the job wrote: a damaged one is parsed again.
    """
    journal = out / layout.FINISHED
    entries: dict[str, ShardEntry] = {}
    for line in journal.read_bytes().split(b"\n") if journal.exists() else ():
        with suppress(InputError):  # cut short by a kill, or damaged
            entry = parse_json(line, ShardEntry, layout.FINISHED, "")
            entries[entry["name"]] = cast(ShardEntry, {key: entry[key] for key in ShardEntry.__annotations__})
    sound = {}
    for name, entry in entries.items():
        if layout.SHARD_NAME.fullmatch(name) and (out / name).exists():
            try:
                whole_shard(out / name, entry)
                sound[name] = entry
            except DamagedCorpus as damage:
                warnings.warn(f"{out}: {damage.fault}: it is parsed again", stacklevel=2)
    # Whole lines only, as more will follow.
    write_whole(journal, "".join(json.dumps(entry) + "\n" for entry in sound.values()).encode())
    return sound


def cut(sentences: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of ``size`` sentences; the last may be shorter."""
    while some := list(islice(sentences, size)):
        yield some


def parse_shard(work: Work, job: dict[str, Any], sentences: Sequence[Any]) -> pa.Buffer:
    """Parse the sentences of one shard in a worker; return the bytes of its file."""
    for key, here in described(work).items():
        if here != job[key]:
            raise InputError(
                f"workers differ in their {key} ({here} and {job[key]}): install the same version everywhere"
            )
    rows, skipped, form = [], [], layout.Form.of(job)
    for sentence, tree in zip(sentences, work(sentences), strict=True):
        location = sentence.document, sentence.position, sentence.line
        texts = {name: getattr(sentence, name) for name in layout.FILE_TEXTS if name in form.kept}
        if isinstance(tree, Unparsed):
            skipped.append(layout.Skipped(*location, tree.reason, **texts))
        else:
            rows.append(layout.Row(*location, tree, **texts))
    return layout.encode_shard(layout.batch_of(rows, form), skipped, form)


@cache
def described(work: Work) -> dict[str, Any]:
    """The manifest's entries about the work; cached in each worker because this hashes models."""
    return work.describe()


def check_unchanged(source: Source, out: Path) -> None:
    """Raise InputError if the source no longer matches the job."""
    if changed := [file.name for file in source.files if file.changed()]:
        raise InputError(
            f"{' and '.join(changed)} changed during this run: restore the original and run the same command again "
            f"to resume, or delete {out} to start over"
        )


def summary(corpus: ParsedCorpus) -> str:
    """The number of skipped sentences by reason, and of repaired lines by kind, in one line."""
    counts = Counter(skip.reason for skip in corpus.skipped)
    skipped = f"{sum(counts.values()):,} skipped: {listed(counts)}" if counts else "none skipped"
    repaired = corpus.manifest.get("repaired")
    return f"{skipped}, lines repaired: {listed(repaired)}" if repaired else skipped


def listed(counts: Mapping[str, int]) -> str:
    """Counts with their names, the largest first, in one line."""
    return ", ".join(f"{n:,} {name}" for name, n in Counter(counts).most_common())


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn a full disk and similar errors into a one-line error."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{error.filename or out} cannot be written ({error.strerror}): fix this and run the same command again"
        ) from None
