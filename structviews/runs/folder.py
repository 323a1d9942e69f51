"""A run's folder and the files in it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from structviews.errors import InputError
from structviews.runtime.files import file_hash

CONFIG = "config.toml"
WEIGHTS = "model.safetensors"
COMPONENTS = "components.safetensors"
EXPANSION = "expansion.safetensors"
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


def model_checksum(run: Path) -> str:
    """SHA-256 of a run's weights; with an expansion or several members, of the files' joined SHA-256 digests."""
    folder = Path(run) if (Path(run) / WEIGHTS).is_file() else Path(run) / MEMBERS
    paths = sorted(path for name in (WEIGHTS, EXPANSION) for path in folder.rglob(name))
    if not paths:
        raise InputError(f"{run}: not a run: it has no {WEIGHTS}; give a folder that structviews train made")
    digests = [file_hash(path) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
