"""A run's ``retrieval.json``: what was measured by retrieval, beside the model that it was measured with."""

import json
from pathlib import Path
from typing import Any

from structviews.cache import write_json
from structviews.errors import InputError
from structviews.evaluation.results import model_checksum

FORMAT = 1
RETRIEVAL = "retrieval.json"
# What two entries must have in common for the later one to take the place of the other.
IDENTITY = ("task", "data", "representation", "settings")


def save_entry(run: Path, entry: dict[str, Any]) -> None:
    """Add a measurement to ``run/retrieval.json``; those of other weights than the run has now are dropped.

    Args:
        run: the run's folder.
        entry: with ``task``, ``data`` (a hash of it), ``representation``, ``settings`` and ``scores``.

    Raises:
        InputError: if ``run`` has no model, or the file cannot be read.
    """
    model = model_checksum(run)
    entries = [each for each in load_entries(run, model) if any(each[name] != entry[name] for name in IDENTITY)]
    write_json(run / RETRIEVAL, {"format": FORMAT, "model": model, "entries": [*entries, entry]})


def load_entries(run: Path, model: str) -> list[dict[str, Any]]:
    """The measurements that were made with a model, see ``model_checksum``.

    Raises:
        InputError: if the file is not one that :func:`save_entry` wrote.
    """
    path = run / RETRIEVAL
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError:
        raise InputError(f"{path}: not JSON: remove the file and measure again") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: not measurements of format {FORMAT}: remove the file and measure again")
    return content["entries"] if content["model"] == model else []
