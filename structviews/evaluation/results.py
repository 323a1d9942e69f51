"""A run's ``results.json``: scores beside the protocol and the model that produced them.

``predictions.safetensors`` beside it has what was predicted for each test example, and the gold.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from structviews.cache import file_hash, write_json, write_whole
from structviews.errors import InputError
from structviews.evaluation.intervals import Tested

FORMAT = 1
RESULTS = "results.json"
MODEL = "model.safetensors"
EXPANSION = "expansion.safetensors"
MEMBERS = "members"
PREDICTED, GOLD, SEPARATOR = "predicted", "gold", "/"
# Of each task: predictions and gold of each part that is tested.
Predictions = dict[str, dict[str, Tested]]


def save_results(run: Path, results: dict[str, Any], name: str = RESULTS) -> dict[str, Any]:
    """Merge results into ``run/results.json`` and return what it holds now.

    Earlier scores stay if they come from the same model and the same vectors of it by the same protocol; else
    they are dropped. A task that has a score does not lose it by being unavailable later.

    Args:
        run: the run's folder.
        results: from ``evaluate``; ``representation`` beside them says which vectors were scored. Their
            ``predictions`` go to a file of their own.
        name: the file, see ``results_name``.

    Raises:
        InputError: if ``run`` has no model, or its results cannot be read.
    """
    results = {**results, "model": model_checksum(run)}
    predictions: Predictions = results.pop("predictions", {})
    earlier = load_results(run, name)
    same = ("format", "model", "protocol", "representation")
    if earlier and all(earlier.get(key) == results.get(key) for key in same):
        results = {**earlier, **results, "tasks": {**earlier["tasks"], **results["tasks"]}}
        results["unavailable"] = {**earlier["unavailable"], **results["unavailable"]}
        predictions = load_predictions(run, earlier, name) | predictions
    if predictions:
        results["predictions"] = _save_predictions(_predictions_path(run, name), predictions)
    results["unavailable"] = {k: why for k, why in results["unavailable"].items() if k not in results["tasks"]}
    write_json(Path(run) / name, results)
    return results


def results_name(*differences: str) -> str:
    """The file for scores by what they differ in from a run's own, such as ``results.mean-pc-kiros.json``.

    Args:
        differences: the representation, ``ensemble``, the protocol; an empty one is no difference.
    """
    name = re.sub("[^a-z0-9]+", "-", " ".join(differences)).strip("-")
    return f"results.{name}.json" if name else RESULTS


def all_results(run: Path) -> list[dict[str, Any]]:
    """Of each representation that was scored, with the weights that the run has now; the run's own first.

    Raises:
        InputError: if a file is not one that :func:`save_results` wrote.
    """
    others = sorted(path.name for path in Path(run).glob("results.*.json"))
    found = [results for name in (RESULTS, *others) if (results := load_results(run, name))]
    try:
        model = model_checksum(run) if found else ""
    except InputError:  # the weights are elsewhere, the scores are here
        return found
    return [results for results in found if results["model"] == model]


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


def load_predictions(run: Path, results: dict[str, Any], name: str = RESULTS) -> Predictions:
    """What was predicted for each test example when the results were made; empty if it was not kept.

    Args:
        run: the run's folder.
        results: from :func:`load_results`.
        name: their file.
    """
    path = _predictions_path(run, name)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    # Written before the results: after a kill in between it belongs to none.
    if hashlib.sha256(data).hexdigest() != results.get("predictions"):
        return {}
    arrays = load(data)
    predictions: Predictions = {}
    for key in arrays:
        task, part, what = key.split(SEPARATOR)
        if what == PREDICTED:
            tested = arrays[key], arrays[SEPARATOR.join((task, part, GOLD))]
            predictions.setdefault(task, {})[part] = tested
    return predictions


def _predictions_path(run: Path, name: str) -> Path:
    return Path(run) / name.replace("results", "predictions", 1).replace(".json", ".safetensors")


def _save_predictions(path: Path, predictions: Predictions) -> str:
    """Write them whole; their SHA-256."""
    arrays = {
        SEPARATOR.join((task, part, what)): np.ascontiguousarray(values)
        for task, parts in predictions.items()
        for part, tested in parts.items()
        for what, values in zip((PREDICTED, GOLD), tested, strict=True)
    }
    data = save(arrays)
    write_whole(path, lambda file: file.write(data))
    return hashlib.sha256(data).hexdigest()


def model_checksum(run: Path) -> str:
    """SHA-256 of the run's weights; with its expansion, and of a joined run, of the SHA-256 of each file."""
    folder = Path(run) if (Path(run) / MODEL).is_file() else Path(run) / MEMBERS
    paths = sorted(path for name in (MODEL, EXPANSION) for path in folder.rglob(name))
    if not paths:
        raise InputError(f"{run}: not a run folder, it has no {MODEL}; give one that train made")
    digests = [file_hash(path) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
