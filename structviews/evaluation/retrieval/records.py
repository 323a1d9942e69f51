"""A run's ``retrieval.json``: retrieval results with the checksum of the evaluated model."""

from pathlib import Path
from typing import Any, Literal, TypedDict

from structviews.runs.folder import RETRIEVAL, model_checksum
from structviews.runtime.documents import read_sealed, write_json
from structviews.runtime.files import writing

FORMAT = 1
# A new entry replaces an earlier one that is equal in these fields.
IDENTITY = ("task", "data", "representation", "settings")


class Entry(TypedDict):
    """An entry; what else it has differs between tasks."""

    task: str
    data: str
    representation: str
    settings: dict[str, Any]
    scores: dict[str, Any]


class Retrieval(TypedDict):
    """The content of ``retrieval.json``."""

    format: Literal[1]
    model: str
    entries: list[Entry]


def save_entry(run: Path, entry: dict[str, Any]) -> None:
    """Add an entry to ``run/retrieval.json``; entries of other weights than the run's current ones are dropped.

    Args:
        run: the run's folder.
        entry: has ``task``, ``data`` (a hash), ``representation``, ``settings`` and ``scores``.

    Raises:
        InputError: if ``run`` has no model, or the file cannot be read.
    """
    model = model_checksum(run)
    with writing(run / RETRIEVAL, patience=60):
        entries = [each for each in load_entries(run, model) if any(each[name] != entry[name] for name in IDENTITY)]
        write_json(run / RETRIEVAL, {"format": FORMAT, "model": model, "entries": [*entries, entry]})


def load_entries(run: Path, model: str) -> list[dict[str, Any]]:
    """The entries for the model with this checksum (see ``model_checksum``).

    Raises:
        InputError: if the file was not written by :func:`save_entry`.
    """
    path = run / RETRIEVAL
    if not path.exists():
        return []
    content = read_sealed(path, Retrieval, "remove the file and evaluate again")
    return content["entries"] if content["model"] == model else []
