"""A run's ``results.json``: scores beside the protocol and the model that produced them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from structviews.cache import write_json
from structviews.errors import InputError

FORMAT = 1


def save_results(run: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Merge results into ``run/results.json`` and return what it holds now.

    Earlier scores stay if they come from the same model by the same protocol; else they are dropped.
    A task that has a score does not lose it by being unavailable later.

    Raises:
        InputError: if ``run`` has no model, or its ``results.json`` cannot be read.
    """
    results = {**results, "model": model_checksum(run)}
    earlier = load_results(run)
    if earlier and all(earlier.get(key) == results[key] for key in ("format", "model", "protocol")):
        results = {**earlier, **results, "tasks": {**earlier["tasks"], **results["tasks"]}}
        results["unavailable"] = {**earlier["unavailable"], **results["unavailable"]}
    results["unavailable"] = {k: why for k, why in results["unavailable"].items() if k not in results["tasks"]}
    write_json(Path(run) / "results.json", results)
    return results


def load_results(run: Path) -> dict[str, Any] | None:
    """What ``run/results.json`` holds, or None where there is none.

    Raises:
        InputError: if the file is not one that :func:`save_results` wrote.
    """
    path = Path(run) / "results.json"
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path}{line}: not JSON; remove the file and evaluate again") from None
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise InputError(f"{path}: not results of format {FORMAT}; remove the file and evaluate again")
    return results


def model_checksum(run: Path) -> str:
    """SHA-256 of the run's weights."""
    path = Path(run) / "model.safetensors"
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise InputError(f"{run}: not a run folder, it has no model.safetensors; give one that train made") from None
