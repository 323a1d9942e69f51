"""A run's folder, the names of the files in it, and its log."""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from structviews.errors import InputError, nearest
from structviews.runs import RUNS
from structviews.runs.bundled import or_bundled
from structviews.runtime.documents import checked, parse_json
from structviews.runtime.files import new_folder, write_whole
from structviews.runtime.seals import read_head

# What to do about a missing or damaged file of a run.
REMEDY = "copy the run again, or train it again with another --out"
CONFIG = "config.toml"
WEIGHTS = "model.safetensors"
WORDS = "words.safetensors"
COMPONENTS = "components.safetensors"
EXPANSION = "expansion.safetensors"
SUB_WORDS = "sub-words.safetensors"
ENCODER = "encoder.safetensors"
SOURCES = "sources.tsv"
SHARED = (CONFIG, WEIGHTS, COMPONENTS, SUB_WORDS, ENCODER, SOURCES, WORDS)  # what a copy for others holds of these
LOG = "log.jsonl"
STATE = "state"
TENSORBOARD = "tensorboard"
RESULTS = "results.json"
RETRIEVAL = "retrieval.json"
# Folder with the members of a joined run.
MEMBERS = "members"


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder at any depth, sorted: the folder itself if it is one, else those below it.

    Hidden folders, links to folders and what is within a run are not searched.
    """
    found = []
    for path, inner, files in os.walk(folder):
        if CONFIG in files:
            found.append(Path(path))
            inner.clear()
        inner[:] = sorted(name for name in inner if not name.startswith("."))
    return found


def no_run(path: Path) -> InputError:
    """The error for a path that is no run."""
    why = "it is a file" if os.path.isfile(path) else f"it has no {CONFIG}"
    if not os.path.exists(path):  # unlike Path.exists, no error for a name that is too long
        near = nearest(str(path), [str(run.relative_to(RUNS)) for run in find_runs(RUNS)])
        why = "no such folder" + (f" (did you mean {RUNS / near}?)" if near else "")
    other = or_bundled() if path.name == str(path) else ""
    return InputError(f"{path}: not a run: {why}; give a folder that structviews train made{other}")


def run_names(runs: Sequence[Path]) -> list[str]:
    """Display names for several runs: their folders' names, or their paths where these clash; each run once."""
    folders = [run.resolve() for run in runs]
    for i, folder in enumerate(folders):
        if folder in folders[:i]:
            raise InputError(f"{runs[i]}: named twice: name each run once")
    names = [folder.name for folder in folders]
    return [name if names.count(name) == 1 else str(run) for run, name in zip(runs, names, strict=True)]


def weight_files(run: Path) -> list[Path]:
    """The files with the weights of a run, its expansion, its sub-words and its members; empty if it has none."""
    folder = Path(run) if (Path(run) / WEIGHTS).is_file() else Path(run) / MEMBERS
    return sorted(path for name in (WEIGHTS, EXPANSION, SUB_WORDS) for path in folder.rglob(name))


def model_checksum(run: Path) -> str:
    """Digest of a run's weights; with an expansion, sub-words or several members, of their files' joined digests."""
    paths = weight_files(run)
    if not paths:
        raise InputError(f"{run}: not a run: it has no {WEIGHTS}; give a folder that structviews train made")
    digests = [read_head(path, REMEDY).digest for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def copy_run(run: Path, folder: Path) -> None:
    """Copy a run whole, but for what only the continuation of its training needs, to a folder that is not there."""
    check_outside(run, folder)
    with new_folder(folder, "save to another folder") as copied:
        shutil.copytree(run, copied, ignore=shutil.ignore_patterns(STATE, ".*"), dirs_exist_ok=True)


def check_outside(run: Path, folder: Path) -> None:
    """Raise InputError if a folder that a run is to be copied to is inside it."""
    if run.resolve() in folder.resolve().parents:
        raise InputError(f"{folder}: inside the run itself: save to another folder")


# A number that TensorBoard can keep.
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LogEntry(TypedDict):
    """A line of ``log.jsonl``; its further keys are metrics, which are numbers."""

    kind: str
    step: Whole
    epoch: Whole


def append_log(run: Path, entry: LogEntry, metrics: Mapping[str, float]) -> None:
    """Append a line, without the metrics that are NaN or infinite, for which JSON has no number."""
    finite = {name: round(value, 6) for name, value in metrics.items() if math.isfinite(value)}
    with (run / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps({**entry, **finite}) + "\n")


def read_log(run: Path) -> list[dict[str, Any]]:
    """A run's log; empty if it has none. A last line that is damaged, or cut short by a kill, is left out."""
    lines = (run / LOG).read_bytes().splitlines() if (run / LOG).exists() else []
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(_log_entry(line, f"{run / LOG}:{number}"))
        except InputError:
            if number < len(lines):
                raise
    return entries


def _log_entry(line: bytes, source: str) -> dict[str, Any]:
    remedy = "remove this line"
    entry: dict[str, Any] = parse_json(line, LogEntry, source, remedy)
    checked(metrics_of(entry), dict[str, float], source, remedy)
    return entry


def metrics_of(entry: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a line of the log."""
    return {name: value for name, value in entry.items() if name not in LogEntry.__annotations__}


def cut_log(run: Path, step: int) -> None:
    """Drop lines after the step that training resumes from, as they will be written again, and damaged ones."""
    if not (run / LOG).exists():
        return
    lines = []
    for line in (run / LOG).read_bytes().splitlines():
        with suppress(InputError):
            if _log_entry(line, "")["step"] <= step:
                lines.append(line + b"\n")
    write_whole(run / LOG, b"".join(lines))
