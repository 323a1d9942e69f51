"""A run's ``results.json`` and ``retrieval.json``: scores, with the checksum of the model that produced them.

``predictions.safetensors`` next to ``results.json`` has the predictions and gold targets of the test examples.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from structviews.evaluation.scores.intervals import Tested
from structviews.runs.folder import RESULTS, RETRIEVAL, model_checksum, weight_files
from structviews.runtime.documents import checksum, read_sealed, write_json
from structviews.runtime.files import writing
from structviews.runtime.seals import read_arrays, read_head, write_arrays

FORMAT = 1
HALF = "bf16"  # in the description of vectors, see ``Embedder.description``
# The task of structviews tasks captions, whose scores are kept with those of eval.
CAPTION_TASK = "COCO"
PREDICTED, GOLD, SEPARATOR = "predicted", "gold", "/"
PATIENCE = 60  # seconds to wait for another process that adds its scores
REMEDY = "remove the file and evaluate again"
# A new entry of retrieval.json replaces an earlier one that is equal in these fields.
IDENTITY = ("task", "data", "representation", "settings")
# For each task and test part: predictions and gold targets.
Predictions = dict[str, dict[str, Tested]]


class Entry(TypedDict):
    """A task's entry in the results; its other keys are not checked."""

    scores: dict[str, float]
    data: NotRequired[dict[str, str]]
    partial: dict[str, Any]
    dim: NotRequired[int]
    intervals: NotRequired[dict[str, tuple[float, float]]]
    versions: NotRequired[dict[str, str]]
    at_grid_end: NotRequired[dict[str, int]]


class Results(TypedDict):
    """The content of ``results.json``."""

    format: Literal[1]
    model: str
    dim: NotRequired[int]
    representation: NotRequired[str]
    protocol: NotRequired[dict[str, Any]]
    predictions: NotRequired[str]
    tasks: dict[str, Entry]
    unavailable: dict[str, str]


class RetrievalEntry(TypedDict):
    """An entry of ``retrieval.json``; its other keys differ between tasks."""

    task: str
    data: str
    representation: str
    settings: dict[str, Any]
    scores: dict[str, Any]


class Retrieval(TypedDict):
    """The content of ``retrieval.json``."""

    format: Literal[1]
    model: str
    entries: list[RetrievalEntry]


def save_results(run: Path, results: dict[str, Any], name: str = RESULTS) -> dict[str, Any]:
    """Merge results of ``evaluate``, with their ``representation``, into the run's and return the merged content.

    Earlier scores are kept if model, representation and protocol are the same, and dropped otherwise. A task keeps its
    score if it is unavailable later. Predictions go to a separate file. InputError if ``run`` has no model.
    """
    path = _predictions_path(run, name)
    with writing(Path(run) / name, PATIENCE), writing(path, PATIENCE):
        results = {**results, "model": model_checksum(run)}
        predictions: Predictions = results.pop("predictions", {})
        tasks = {task: entry | {"signature": signature(results, [task])} for task, entry in results["tasks"].items()}
        results["tasks"] = tasks
        earlier = load_results(run, name)
        same = ("format", "model", "protocol", "representation")
        if earlier and all(earlier.get(key) == results.get(key) for key in same):
            results = {**earlier, **results, "tasks": {**earlier["tasks"], **results["tasks"]}}
            results["unavailable"] = {**earlier["unavailable"], **results["unavailable"]}
            predictions = load_predictions(run, earlier, name) | predictions
        if predictions:
            arrays = {
                SEPARATOR.join((task, part, side)): values
                for task, parts in predictions.items()
                for part, tested in parts.items()
                for side, values in zip((PREDICTED, GOLD), tested, strict=True)
            }
            write_arrays(path, arrays)
            results["predictions"] = read_head(path, REMEDY).digest
        results["unavailable"] = {k: why for k, why in results["unavailable"].items() if k not in results["tasks"]}
        write_json(Path(run) / name, results)
    return results


def shown_scores(scores: Collection[str]) -> list[str]:
    """Which of a task's scores the table shows."""
    for name in ("pearson mean", "pearson", "spearman all", "ap"):
        if name in scores:
            return [name]
    shown = ("accuracy", "f1", "image to text R@1", "text to image R@1")
    return [name for name in shown if name in scores]


def signature(results: Mapping[str, Any], tasks: Sequence[str]) -> str:
    """One line that says by what tasks were scored: scores of equal signatures can be compared.

    It has the task or how many, the digest of their data, the protocol, the scores that tables show, the precision, the
    representation, and the version. After the signatures of sacreBLEU (Post, 2018).
    """
    entries = [results["tasks"][task] for task in tasks]
    shown = dict.fromkeys(name for entry in entries for name in shown_scores(entry["scores"]))
    words = results.get("representation", "vector").split(", ")
    versions = dict.fromkeys(entry.get("versions", {}).get("structviews", "unknown") for entry in entries)
    parts = {
        "data": checksum({task: results["tasks"][task].get("data", {}) for task in tasks})[:8],
        "protocol": results.get("protocol", {}).get("name", "senteval"),
        "scores": ", ".join(shown),
        "precision": HALF if HALF in words else "fp32",
        "vectors": ", ".join(word for word in words if word != HALF),
        "structviews": ", ".join(versions),
    }
    named = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    return "|".join([named, *(f"{name}:{value}" for name, value in parts.items())])


def results_name(*differences: str) -> str:
    """File name for scores that differ from a run's default by these, such as ``results.mean-pc-kiros.json``."""
    name = re.sub("[^a-z0-9.]+", "-", " ".join(differences)).strip("-")
    return f"results.{name}.json" if name else RESULTS


def all_results(run: Path) -> list[dict[str, Any]]:
    """Results for the run's current weights, one per scored representation and protocol; the default first."""
    others = sorted(path.name for path in Path(run).glob("results.*.json"))
    found = [results for name in (RESULTS, *others) if (results := load_results(run, name))]
    if not found or not weight_files(run):  # scores without the weights
        return found
    model = model_checksum(run)
    return [results for results in found if results["model"] == model]


def load_results(run: Path, name: str = RESULTS) -> dict[str, Any] | None:
    """The content of ``run/results.json``, None without the file; InputError unless :func:`save_results` wrote it."""
    path = Path(run) / name
    return read_sealed(path, Results, REMEDY) if path.exists() else None


def load_predictions(run: Path, results: dict[str, Any], name: str = RESULTS) -> Predictions:
    """The predictions for the test examples that belong to the results of this name; empty if they were not saved."""
    path = _predictions_path(run, name)
    # Written before the results: if killed in between, they match no results.
    if not path.exists() or read_head(path, REMEDY).digest != results.get("predictions"):
        return {}
    arrays = read_arrays(path, REMEDY)
    predictions: Predictions = {}
    for key in arrays:
        task, *part, side = key.split(SEPARATOR)  # a part may have the separator in its name
        if side == PREDICTED:
            tested = arrays[key], arrays[SEPARATOR.join((task, *part, GOLD))]
            predictions.setdefault(task, {})[SEPARATOR.join(part)] = tested
    return predictions


def _predictions_path(run: Path, name: str) -> Path:
    return Path(run) / name.replace("results", "predictions", 1).replace(".json", ".safetensors")


def save_entry(run: Path, entry: dict[str, Any]) -> None:
    """Add an entry to ``run/retrieval.json``; entries of other weights than the run's current ones are dropped."""
    model = model_checksum(run)
    with writing(run / RETRIEVAL, PATIENCE):
        entries = [each for each in load_entries(run, model) if any(each[name] != entry[name] for name in IDENTITY)]
        write_json(run / RETRIEVAL, {"format": FORMAT, "model": model, "entries": [*entries, entry]})


def load_entries(run: Path, model: str) -> list[dict[str, Any]]:
    """The entries for the model with this checksum (see ``model_checksum``)."""
    path = run / RETRIEVAL
    if not path.exists():
        return []
    content = read_sealed(path, Retrieval, REMEDY)
    return content["entries"] if content["model"] == model else []
