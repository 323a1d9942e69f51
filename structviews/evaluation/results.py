"""A run's ``results.json``: scores beside the protocol and the model that produced them."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from structviews.cache import file_hash, write_json
from structviews.errors import InputError

FORMAT = 1
RESULTS = "results.json"
MODEL = "model.safetensors"
EXPANSION = "expansion.safetensors"
MEMBERS = "members"


def save_results(run: Path, results: dict[str, Any], name: str = RESULTS) -> dict[str, Any]:
    """Merge results into ``run/results.json`` and return what it holds now.

    Earlier scores stay if they come from the same model and the same vectors of it by the same protocol; else
    they are dropped. A task that has a score does not lose it by being unavailable later.

    Args:
        run: the run's folder.
        results: from ``evaluate``; ``representation`` beside them says which vectors were scored.
        name: the file, see ``results_name``.

    Raises:
        InputError: if ``run`` has no model, or its results cannot be read.
    """
    results = {**results, "model": model_checksum(run)}
    earlier = load_results(run, name)
    same = ("format", "model", "protocol", "representation")
    if earlier and all(earlier.get(key) == results.get(key) for key in same):
        results = {**earlier, **results, "tasks": {**earlier["tasks"], **results["tasks"]}}
        results["unavailable"] = {**earlier["unavailable"], **results["unavailable"]}
    results["unavailable"] = {k: why for k, why in results["unavailable"].items() if k not in results["tasks"]}
    write_json(Path(run) / name, results)
    return results


def results_name(representation: str) -> str:
    """The file for scores of a representation that is not the run's own, such as ``results.mean-pc.json``."""
    return f"results.{re.sub('[^a-z0-9]+', '-', representation).strip('-')}.json"


def all_results(run: Path) -> list[dict[str, Any]]:
    """Of each representation that was scored; the run's own first.

    Raises:
        InputError: if a file is not one that :func:`save_results` wrote.
    """
    others = sorted(path.name for path in Path(run).glob("results.*.json"))
    return [results for name in (RESULTS, *others) if (results := load_results(run, name))]


def load_results(run: Path, name: str = RESULTS) -> dict[str, Any] | None:
    """What ``run/results.json`` holds, or None where there is none.

    Raises:
        InputError: if the file is not one that :func:`save_results` wrote.
    """
    path = Path(run) / name
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
    """SHA-256 of the run's weights; with its expansion, and of a joined run, of the SHA-256 of each file."""
    folder = Path(run) if (Path(run) / MODEL).is_file() else Path(run) / MEMBERS
    paths = sorted(path for name in (MODEL, EXPANSION) for path in folder.rglob(name))
    if not paths:
        raise InputError(f"{run}: not a run folder, it has no {MODEL}; give one that train made")
    digests = [file_hash(path) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
