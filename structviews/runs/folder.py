"""A run's folder and the files in it."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from structviews.errors import InputError, nearest
from structviews.runs import RUNS
from structviews.runs.bundled import or_bundled
from structviews.runtime.seals import read_head

# What to do about a missing or damaged file of a run.
REMEDY = "copy the run again, or train it again with another --out"
CONFIG = "config.toml"
WEIGHTS = "model.safetensors"
COMPONENTS = "components.safetensors"
EXPANSION = "expansion.safetensors"
SUB_WORDS = "sub-words.safetensors"
ENCODER = "encoder.safetensors"
SOURCES = "sources.tsv"
LOG = "log.jsonl"
STATE = "state"
TENSORBOARD = "tensorboard"
RESULTS = "results.json"
RETRIEVAL = "retrieval.json"
# Folder with the members of a joined run.
MEMBERS = "members"


def vocabulary_file(channel: str) -> str:
    """The file with a channel's vocabulary."""
    return f"vocabulary.{channel}.txt"


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder at any depth, sorted: the folder itself if it is one, else those below it.

    Hidden folders, links to folders and what is within a run are not searched.
    """
    found = []
    for place, inner, files in os.walk(folder):
        if CONFIG in files:
            found.append(Path(place))
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
    """Display names for several runs: their folders' names, or their paths where these clash.

    Raises:
        InputError: if a run is named twice.
    """
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
    """Digest of a run's weights; with an expansion, sub-words or several members, of their files' joined digests.

    Raises:
        InputError: if it has no weights, or a file is damaged.
    """
    paths = weight_files(run)
    if not paths:
        raise InputError(f"{run}: not a run: it has no {WEIGHTS}; give a folder that structviews train made")
    digests = [read_head(path, REMEDY).digest for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
