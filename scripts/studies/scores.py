"""What is stored of each run: its scores, and what they say about each example, in one small file.

Of a classifier, one bit an example: whether it was right. Of a correlation, the predicted and the gold scores,
standardised, in half precision. Of the next sentence, the reciprocal ranks of each document. The tests between runs
need no more.
"""

import json
import platform
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from structviews import __version__
from structviews.cli.console import errors
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval.next_sentence import Passages, read_passages
from structviews.evaluation.retrieval.ranking import Trials, cosine_scores, ranks_of_first
from structviews.evaluation.scores.results import load_predictions, load_results
from structviews.evaluation.scores.tables import shown_scores
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.scoring import Scored, place_of, score_with_bar
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Task
from structviews.runs.folder import model_checksum, read_log
from structviews.runtime.documents import checksum
from studies.rows import Run

# The tasks whose mean is a study's main score, and the score of retrieval.
TASKS = ("MR", "SUBJ", "TREC", "SICK-R", "SICK-E", "STS-B", "STS14", "SICK14")
NEXT = "next sentence"
# Otherwise the view with the longest vectors drowns the others, and SentEval's penalties end too early for short ones.
SCORED = Scored(changes={"normalise": True}, flags="--normalise")
WITHOUT_COMPONENT = Scored(
    changes={**SCORED.changes, "remove_component": True}, flags=f"{SCORED.flags} --remove-component"
)


@dataclass(frozen=True)
class Examples:
    """A score, and what its test examples contribute.

    Attributes:
        kind: ``accuracy``, ``pearson``, or ``ratio``: a sum of the first row over a sum of the second one.
        score: as reported, in the tables' unit.
        parts: for each data set ``(1, n)`` hits, or ``(2, n)`` predicted and gold scores, or sums and counts.
    """

    kind: str
    score: float
    parts: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Scores:
    """The content of a run's file.

    Attributes:
        about: settings, times, dimensions.
        examples: by task.
    """

    about: dict[str, Any]
    examples: dict[str, Examples]


def score(run: Run, folder: Path, tasks: Sequence[Task], trees: Path, held_out: Path, asked: int) -> dict[str, Any]:
    """Score a trained run; what is stored of it.

    Args:
        run: the run.
        folder: where it is.
        tasks: all tasks to score.
        trees: the parsed corpus of their sentences.
        held_out: the parsed corpus in which next sentences are looked for.
        asked: sentences among which they are.
    """
    began = time.monotonic()
    scored = vectors_of(run)
    _, file = place_of(folder, scored, SENTEVAL, ensemble=False)
    left = [task for task in tasks if task.name not in results_of(folder, file)]
    if left:
        score_with_bar(folder, left, {}, errors, trees=task_trees(trees), scored=scored)
    entries = results_of(folder, file)
    examples = {task: examples_of(folder, file, task) for task in entries}
    examples[NEXT] = next_sentences(run, folder, held_out, asked)
    about = {
        "run": run.name,
        "row": vars(run.row) | {"seed": run.seed},
        "dim": max(entry["dim"] for entry in entries.values()),
        "scoring minutes": round((time.monotonic() - began) / 60, 2),
        "versions": {"structviews": __version__, "torch": torch.__version__, "machine": platform.machine()},
        "data": checksum({task: entry["data"] for task, entry in entries.items()}),
        "partial": sorted(task for task, entry in entries.items() if entry["partial"]),
    }
    if run.row.trained:
        lines = list(read_log(folder))
        rate = median(line["sentences_per_second"] for line in lines if line["kind"] == "train")
        validation = [line for line in lines if line["kind"] == "validation"][-1]
        minutes = validation["step"] * run.row.batch / rate / 60
        about["training"] = {"sentences a second": round(rate, 1), "minutes": round(minutes, 2)}
        about["validation"] = {name: value for name, value in validation.items() if isinstance(value, float)}
    return {**about, "examples": {task: packed(each) for task, each in examples.items()}}


def results_of(folder: Path, file: str) -> dict[str, Any]:
    """A run's results by task, of these very weights."""
    results = load_results(folder, file)
    return results["tasks"] if results and results["model"] == model_checksum(folder) else {}


def vectors_of(run: Run) -> Scored:
    """Which vectors of a run are scored."""
    return WITHOUT_COMPONENT if run.row.without_component else SCORED


@lru_cache(maxsize=1)
def task_trees(corpus: Path) -> TaskTrees:
    """The trees of the tasks' sentences."""
    return TaskTrees(corpus)


def examples_of(folder: Path, file: str, task: str) -> Examples:
    """The score of a task in a file of results, and its test examples."""
    results = load_results(folder, file)
    assert results
    scores = results["tasks"][task]["scores"]
    name = shown_scores(scores)[0]
    tested = load_predictions(folder, results, file)[task].values()
    if name == "accuracy":
        return Examples(name, scores[name], tuple((predicted == gold)[None] for predicted, gold in tested))
    return Examples("pearson", 100 * scores[name], tuple(np.stack(list(map(standard, each))) for each in tested))


def standard(values: np.ndarray) -> np.ndarray:
    """Moved and scaled to mean 0 and deviation 1, which correlations do not notice and half precision needs."""
    moved = values.astype(np.float64) - values.mean()
    found: np.ndarray = moved / (moved.std() or 1)
    return found


def next_sentences(run: Run, folder: Path, held_out: Path, asked: int) -> Examples:
    """The mean reciprocal rank of the next sentence, in per cent, and its documents."""
    passages, trials = passages_of(held_out, asked)
    embedder = Embedder.load(folder).with_representation(**vectors_of(run).changes)
    ranks = 100 * ranks_of_first(cosine_scores(embedder.encode(passages.sentences), trials)).reciprocal()
    _, numbers = np.unique(trials.documents, return_inverse=True)
    return Examples("ratio", float(ranks.mean()), (np.stack([np.bincount(numbers, ranks), np.bincount(numbers)]),))


@lru_cache(maxsize=1)
def passages_of(corpus: Path, most: int) -> tuple[Passages, Trials]:
    """The sentences whose next ones are looked for, and the candidates of each."""
    passages = read_passages([], ParsedCorpus.open(corpus), most)
    return passages, passages.trials()


def packed(examples: Examples) -> dict[str, Any]:
    """As JSON."""
    form = bool if examples.kind == "accuracy" else np.float16 if examples.kind == "pearson" else np.float32
    parts = [
        {
            "shape": list(part.shape),
            "values": b64encode(
                zlib.compress((np.packbits(part) if form is bool else part.astype(form)).tobytes(), 9)
            ).decode(),
        }
        for part in examples.parts
    ]
    return {"kind": examples.kind, "score": round(examples.score, 4), "parts": parts}


def unpacked(content: dict[str, Any]) -> Examples:
    """What ``packed`` packed."""
    kind, parts = content["kind"], []
    for part in content["parts"]:
        values, shape = zlib.decompress(b64decode(part["values"])), part["shape"]
        if kind == "accuracy":
            bits = np.unpackbits(np.frombuffer(values, np.uint8), count=int(np.prod(shape)))
            parts.append(bits.reshape(shape).astype(np.float64))
        else:
            form = np.float16 if kind == "pearson" else np.float32
            parts.append(np.frombuffer(values, form).reshape(shape).astype(np.float64))
    return Examples(kind, content["score"], tuple(parts))


def load(file: Path) -> Scores:
    """A run's file."""
    content = json.loads(file.read_text("utf-8"))
    examples = {task: unpacked(each) for task, each in content.pop("examples").items()}
    return Scores(content, examples)
