"""The readers of files: what each reads, of which files, and what is promised of damaged ones.

A reader is a function of a folder that reads what is in it as a command would, decorated with ``reader``. Its
sample is made once; before each reading the folder is as it was made, times included, but for the damage.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from corpora import small_config, topic_corpus, vectors_of
from damage import damage
from resealing import reseal, sealed_content
from rich.console import Console
from sandbox import OK, Outcome, digest, judged, observe

from structviews.errors import InputError
from structviews.runs.file_checks import verify
from structviews.training.loop import train

# Written by the tool and trusted later: any change is refused.
SEALED = "sealed"
# Written by the tool, which can make it again: refused, or read as if it were whole.
CACHE = "cache"
# Written by people and other programs: read, or refused.
TEXT = "text"
QUIET = Console(quiet=True)


@dataclass(frozen=True)
class Reader:
    """A reader of files."""

    name: str
    kind: str  # ``SEALED``, ``CACHE`` or ``TEXT``
    make: Callable[[Path, "Shared"], object]  # writes a valid sample into a new folder, with what samples share
    read: Callable[[Path], Any]  # reads it; what it returns is compared
    files: tuple[str, ...]  # patterns of the files to damage
    named: tuple[str, ...] = ()  # names one of which a refusal may have instead of the damaged file's
    missing: tuple[Any, ...] = ()  # what is read if a cache is as good as not there
    # Patterns of files whose content was proved when it was written: they are not damaged under right digests.
    proved: tuple[str, ...] = ()


READERS: dict[str, Reader] = {}


def reader(kind: str, files: str, make: Callable[[Path, "Shared"], object], **more: Any) -> Callable[[Any], Any]:
    """Declare a reader; its name is the function's, or ``name``. ``files``, ``named`` and ``proved`` are words."""

    def declare(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        name = more.pop("name", read.__name__.replace("_", "-"))
        words = {key: tuple(more.pop(key).split()) for key in ("named", "proved") if key in more}
        assert name not in READERS
        READERS[name] = Reader(name, kind, make, read, tuple(files.split()), **words, **more)
        return read

    return declare


def verified(path: Path) -> None:
    """Check a corpus, a run or a cache as the command ``verify`` does; its first fault is raised."""
    for fault in verify(path, lambda done, total: None):
        raise InputError(fault)


class Stopped(Exception):  # noqa: N818 - no error
    """Where an unfinished job stops."""


def half_done(job: Callable[[Callable[[int, int], None]], object]) -> None:
    """Stop a job, which is given a progress callback, when half of it is done."""

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise Stopped

    with pytest.raises(Stopped):
        job(stop)


class Shared:
    """What samples are made from, each made when it is first asked for."""

    def __init__(self, root: Path):
        self.root = root / "shared"
        self.runs: dict[str, Path] = {}

    @cached_property
    def corpus(self) -> Path:
        return topic_corpus(self.root / "x.parsed", documents=6)

    @cached_property
    def vectors(self) -> Path:
        return vectors_of(self.corpus, self.root / "v.vec")

    def run(self, folder: Path, **settings: Any) -> Path:
        """A run that takes two steps, a copy for each who asks."""
        key = repr(settings)
        if key not in self.runs:
            config = small_config(self.corpus, self.root / f"run{len(self.runs)}", **{"steps": 2} | settings)
            self.runs[key] = train(config, QUIET)
        shutil.copytree(self.runs[key], folder)
        return folder


shared = cache(Shared)


class Sample:
    """A reader's files, with a copy of them as they were made."""

    def __init__(self, reader: Reader, root: Path):
        self.reader, self.folder = reader, root / reader.name
        self.original = root / f"{reader.name} as made"
        self.folder.mkdir(parents=True)
        reader.make(self.folder, shared(root))
        shutil.copytree(self.folder, self.original)
        files = [path for path in sorted(self.original.rglob("*")) if path.is_file()]
        names = [path.relative_to(self.original) for path in files]
        self.targets = [name for name in names if any(map(name.match, reader.files))]
        assert self.targets, f"{reader.name}: no file is like {reader.files}"

    def restore(self) -> None:
        """Put the folder back as it was made, times included."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.original, self.folder)


@dataclass(frozen=True)
class Damage:
    """A damaged file of a sample."""

    path: Path
    mutation: str
    content: bytes
    original: bytes
    resealed: bool  # whether its digests are made right again


def damages(sample: Sample, seed: int) -> Iterator[Damage]:
    """Damaged files without end, the same for the same seed."""
    rng = random.Random(f"{sample.reader.name} {seed}")
    while True:
        name = rng.choice(sample.targets)
        original = sample.original.joinpath(name).read_bytes()
        mutation, content = damage(name.name, original, rng)
        resealed = sample.reader.kind != TEXT and not any(map(name.match, sample.reader.proved))
        yield Damage(sample.folder / name, mutation, content, original, resealed and rng.random() < 0.5)


def json_content(data: bytes) -> str:
    return json.dumps(json.loads(data), sort_keys=True)


def same_content(damaged: Damage) -> bool:
    """Whether a damaged file says what the original says, as JSON does with other white space."""
    says = {".json": json_content, ".sha256": bytes.split, ".safetensors": sealed_content}.get(damaged.path.suffix)
    try:
        return says is not None and digest(says(damaged.content)) == digest(says(damaged.original))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def reading(sample: Sample, damaged: Damage | None = None) -> Callable[[], Any]:
    """Restores the sample, damages it, and reads it."""

    def read() -> Any:
        sample.restore()
        if damaged:
            about = damaged.path.stat()
            damaged.path.write_bytes(damaged.content)
            os.utime(damaged.path, ns=(about.st_atime_ns, about.st_mtime_ns))
            if damaged.resealed:
                reseal(damaged.path)
        return sample.reader.read(sample.folder)

    return read


def outcomes(sample: Sample, damaged: Collection[Damage]) -> list[Outcome]:
    """How the readings of damaged samples ended, by the reader's promise; the undamaged one is read first, twice."""
    reader = sample.reader
    whole, again, *found = observe([reading(sample), reading(sample), *(reading(sample, each) for each in damaged)])
    assert whole.kind == OK, f"{reader.name}: the sample itself is {whole.kind}: {whole.detail}"
    assert whole == again, f"{reader.name}: two readings of the sample differ"
    judgements = []
    for each, outcome in zip(damaged, found, strict=True):
        as_missing = reader.missing and outcome.content in map(digest, reader.missing)
        free = reader.kind == TEXT or each.resealed or as_missing
        must_refuse = reader.kind == SEALED and not free and not same_content(each)
        names = (each.path.name, *reader.named)
        judgements.append(
            judged(outcome, names=names, original=None if free else whole.content, must_refuse=must_refuse)
        )
    return judgements
