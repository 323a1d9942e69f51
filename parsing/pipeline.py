"""The parsing job: turns a source of sentences into a parsed corpus, and can be resumed at any point.

The source alone determines how sentences are split into shards. One worker parses each shard as one list,
and the shard's file is complete or absent. So the result depends neither on the engine or the number of
workers nor on where an earlier attempt was killed: the same command keeps existing shards and makes the
others. ``job.json``, written first and removed last, records what the shards are made from, and
``finished.jsonl`` the size and digest of each shard before it appears: one that differs is made again.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, TypedDict

import pyarrow as pa
from rich.console import Console

from structviews.corpus.format import (
    FINISHED,
    JOB,
    MANIFEST,
    MODELS,
    Form,
    Row,
    Skipped,
    encode_shard,
    new_job,
    reasons,
    shard_name,
)
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.shard_checks import ShardEntry
from structviews.corpus.writer import entry_of, write_entry, write_manifest
from structviews.errors import InputError
from structviews.parsing.engines import EngineName, open_engine
from structviews.parsing.finished_shards import finished_shards, note_shard
from structviews.parsing.parser import Unparsed
from structviews.parsing.sources import Source, Work
from structviews.runtime.documents import read_sealed, write_json
from structviews.runtime.files import creating
from structviews.runtime.processes import Engine
from structviews.runtime.terminal import Bar, Terminal, rate_bar, say

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

    Args:
        source: the sentences and the work that parses them.
        out: the corpus folder; created if necessary.
        workers, engine, address: see ``engines.open_engine``; each worker has one thread, and the result
            does not depend on these. Of local workers, no more start than there are shards.
        console: where to draw the progress bar, after the source's note; neither if None.
        sentences_per_shard: number of source sentences per shard.
        compression: compression of the shards; see ``structviews.corpus.format.Form``.

    Returns:
        The corpus, and whether it already existed.

    Raises:
        InputError: if ``out`` holds something else, the disk is full, the source changes during the run,
            or no sentence could be parsed.
    """
    if engine == "local" and workers and workers > 1:
        workers = max(1, len(list(islice(cut(source.sentences(), sentences_per_shard), workers))))
    with (
        rate_bar(console or Terminal(quiet=True), "parsing", "lines") as bar,
        open_engine(engine, source.work, workers=workers, address=address) as workforce,
    ):
        bar.stage("loading the parser")
        job = describe_job(source, workforce, sentences_per_shard, compression)
        with creating(out):
            with disk_errors(out):
                out.mkdir(exist_ok=True)
            there = (out / MANIFEST).exists()
            if there:
                check_same(out, ParsedCorpus.open(out).manifest, job)
            else:
                begin(out, job)
                if console and source.note:
                    say(console, source.note)
                shards = make_shards(source, out, workforce, job, Progress(bar, source.lines), sentences_per_shard)
                with disk_errors(out):
                    write_manifest(out, shards, {**job, **source.found()})
            clean(out)
            corpus = ParsedCorpus.open(out)
            if not len(corpus):
                remove(corpus)
                raise InputError(f"no sentence could be parsed: {summary(corpus)}")
    return corpus, there


def describe_job(source: Source, engine: Engine, sentences_per_shard: int, compression: str | None) -> dict[str, Any]:
    """What the corpus is made from and how: the part of the manifest that is known before parsing."""
    description = source.describe()
    description["settings"] |= {"sentences_per_shard": sentences_per_shard, "compression": compression}
    return new_job(**description, **engine.submit(described, source.work).result())


def begin(out: Path, job: dict[str, Any]) -> None:
    """Write the job file, or check that an existing one describes the same job."""
    if (out / JOB).exists():
        remedy = f"delete {out} to start over"
        check_same(out, read_sealed(out / JOB, Job, remedy), job)
    elif any(not path.name.startswith(".") for path in out.iterdir()):
        raise InputError(f"{out} holds other files: choose another folder with --out")
    else:
        with disk_errors(out):
            write_json(out / JOB, job)


class Job(TypedDict):
    """What an unfinished corpus says of its job; further keys differ between sources."""

    format: str
    format_version: int
    settings: dict[str, Any]


def check_same(out: Path, before: dict[str, Any], job: dict[str, Any]) -> None:
    """Raise InputError if ``out`` belongs to a different job."""
    # The same models may be in another folder.
    differing = [key for key in job if key != MODELS and before.get(key) != job[key]]
    if differing:
        settings, now = before["settings"], job["settings"]
        changed = [f"{key} was {settings.get(key)}, is {now[key]}" for key in now if settings.get(key) != now[key]]
        details = f" ({'; '.join(changed)})" if changed else ""
        raise InputError(
            f"{out} belongs to a job that differs in {' and '.join(differing)}{details}: "
            f"choose another folder with --out, or delete this one to start over"
        )


@dataclass(frozen=True)
class Part:
    """One shard: its number, and how many sentences and lines of the source it covers."""

    number: int
    sentences: int
    lines: int


class Progress:
    """Shows how much of the source is parsed, by its lines, and the rate of the sentences that are parsed here.

    Args:
        bar: where to show it.
        lines: number of lines in the source.
    """

    def __init__(self, bar: Bar, lines: int) -> None:
        self._bar = bar
        self._lines = lines
        self._lines_done = self._sentences = 0.0
        self._told: dict[int, float] = {}  # sentences of the shards under way, by number
        self._first: tuple[float, float] | None = None  # how many when: the parser is loaded before
        self._lock = Lock()

    def skip(self, part: Part) -> None:
        """Exclude a part that already exists."""
        self._lines -= part.lines

    def advance(self, part: Part, sentences: float) -> None:
        """Count further sentences of a part."""
        with self._lock:
            self._told[part.number] = self._told.get(part.number, 0) + sentences
            self._sentences += sentences
            self._lines_done += sentences * part.lines / part.sentences
            self._show()

    def finish(self, part: Part) -> None:
        """Count what is left of a part."""
        self.advance(part, part.sentences - self._told.pop(part.number, 0))

    def end(self) -> None:
        """Count the lines after the last sentence."""
        if self._first:
            self._lines_done = self._lines
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        before, began = self._first = self._first or (self._sentences, now)
        new = self._sentences - before
        rate = f"{new / max(now - began, 1e-9):,.0f} sentences/s" if new else ""
        self._bar(round(self._lines_done), self._lines, rate=rate)


def make_shards(
    source: Source,
    out: Path,
    engine: Engine,
    job: dict[str, Any],
    progress: Progress,
    sentences_per_shard: int,
) -> list[ShardEntry]:
    """Make the missing shards; return the entries of all."""
    pending: dict[Future[pa.Buffer], Part] = {}
    with disk_errors(out):
        shards = finished_shards(out)
    with unreadable(source, out):

        def finish_some() -> None:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                entry = keep_shard(source, out, pending[future], future.result())
                shards[entry["name"]] = entry
                progress.finish(pending.pop(future))

        number = last_line = 0
        for number, sentences in enumerate(cut(source.sentences(), sentences_per_shard), 1):
            part = Part(number - 1, len(sentences), sentences[-1].line - last_line)
            last_line = sentences[-1].line
            if shard_name(part.number) in shards:
                progress.skip(part)
                continue
            while len(pending) >= engine.capacity():
                finish_some()
            on_report = partial(progress.advance, part)
            pending[engine.submit(parse_shard, source.work, job, sentences, on_report=on_report)] = part
        while pending:
            finish_some()
        progress.end()
    check_unchanged(source, out)
    return [shards[shard_name(each)] for each in range(number)]


def cut(sentences: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of ``size`` sentences; the last may be shorter."""
    while part := list(islice(sentences, size)):
        yield part


def parse_shard(work: Work, job: dict[str, Any], sentences: Sequence[Any]) -> pa.Buffer:
    """Parse the sentences of one shard in a worker; return the bytes of its file."""
    for what, mine in described(work).items():
        if mine != job[what]:
            raise InputError(
                f"workers differ in their {what} ({mine} and {job[what]}): install the same version everywhere"
            )
    rows, skipped, form = [], [], Form.of(job)
    for sentence, tree in zip(sentences, work(sentences), strict=True):
        place = sentence.document, sentence.position, sentence.line
        kept = {name: getattr(sentence, name) for name in form.kept}
        if isinstance(tree, Unparsed):
            skipped.append(Skipped(*place, tree.reason, **kept))
        else:
            rows.append(Row(*place, tree, **kept))
    return encode_shard(rows, skipped, form)


@cache
def described(work: Work) -> dict[str, Any]:
    """The manifest's entries about the work; cached in each worker because this hashes models."""
    return work.describe()


def keep_shard(source: Source, out: Path, part: Part, content: pa.Buffer) -> ShardEntry:
    """Write a shard, unless the source has changed since the job began; return its entry."""
    check_unchanged(source, out)
    entry = entry_of(part.number, content)
    with disk_errors(out):
        note_shard(out, entry)
        write_entry(out, entry, content)
    return entry


def check_unchanged(source: Source, out: Path) -> None:
    """Raise InputError if the source no longer matches the job."""
    if changed := source.changed():
        raise InputError(
            f"{' and '.join(changed)} changed during this run: restore the original and run the same command again "
            f"to resume, or delete {out} to start over"
        )


@contextmanager
def unreadable(source: Source, out: Path) -> Iterator[None]:
    """If the source can no longer be read because it changed, raise an InputError that explains this."""
    try:
        yield
    except (OSError, UnicodeDecodeError):
        check_unchanged(source, out)
        raise


def summary(corpus: ParsedCorpus) -> str:
    """The number of skipped sentences by reason, and of repaired lines by kind, in one line."""
    counts = reasons(corpus.skipped)
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


def clean(out: Path) -> None:
    """Remove from a finished corpus what was only needed to resume."""
    for name in (JOB, FINISHED):
        (out / name).unlink(missing_ok=True)


def remove(corpus: ParsedCorpus) -> None:
    """Delete a corpus, manifest first, so that a partly deleted one is never mistaken for a corpus."""
    for name in (MANIFEST, *(shard["name"] for shard in corpus.manifest["shards"])):
        (corpus.path / name).unlink()
    corpus.path.rmdir()
