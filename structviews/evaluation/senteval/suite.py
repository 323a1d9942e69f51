"""Evaluate an encoder on SentEval's tasks."""

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

from structviews import __version__
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.evaluation.scores.intervals import score_intervals
from structviews.evaluation.scores.results import FORMAT, Predictions
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.protocol import Protocol, Vectors
from structviews.evaluation.senteval.protocols.senteval_protocol import SENTEVAL
from structviews.evaluation.senteval.task_scores import score_task
from structviews.evaluation.senteval.tasks.finding import known_tasks, read_task
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.runtime.wording import counted

Encode = Callable[[list[Tokens]], np.ndarray]
OnStage = Callable[[str], None]
# Sentences encoded at a time.
SENTENCES_AT_ONCE = 4096
# The entries of the results that are keyed by task.
BY_TASK = ("tasks", "unavailable", "predictions")


def evaluate(
    encode: Encode,
    tasks: Sequence[str],
    folder: Path | None = None,
    *,
    probing: Path | None = None,
    protocol: str = SENTEVAL.name,
    similarity: Encode | None = None,
    transductive: bool = False,
    allow_partial: bool = False,
    progress: OnStage = lambda stage: None,
) -> dict[str, Any]:
    """Score an encoder on tasks of a SentEval folder; tasks that cannot be scored are listed with the reason.

    Args:
        encode: maps ``n`` tokenised sentences to vectors (n, d) in the same order; each distinct sentence of
            all tasks is passed once, in blocks of a few thousand.
        tasks: names from ``TASKS`` or of probing tasks, in any case.
        folder: the directory with ``MR/``, ``STS/`` and so on.
        probing: the directory of probing tasks, see ``tasks.probing_files``.
        protocol: ``senteval``, ``senteval-torch`` or ``kiros``, which scales the vectors to length 1.
        similarity: encoder for similarity tasks; by default ``encode``.
        transductive: a sentence's vector depends on the others it is encoded with, so encode each task
            separately and all its sentences together.
        allow_partial: also score files with fewer examples than published, and mark them.
        progress: called with a description of each stage, such as ``MR: encoding 10,662 sentences``.

    Returns:
        The content of ``results.json`` (``docs/evaluation.md``) without the model's checksum; and ``predictions``:
        for each task and each test part, the predictions and gold targets.

    Raises:
        InputError: for an unknown task, a folder that does not exist, or invalid vectors.
    """
    followed = PROTOCOLS[protocol]
    if followed.normalise:
        encode = _scaled(encode)
    found, unavailable = read_tasks(tasks, folder, probing, allow_partial)
    results = results_of(unavailable=unavailable, protocol=followed)
    for each in evaluate_each(
        encode, found, protocol=followed, similarity=similarity, transductive=transductive, progress=progress
    ):
        results |= {key: results[key] | value if key in BY_TASK else value for key, value in each.items()}
    return results


def read_tasks(
    names: Sequence[str], folder: Path | None, probing: Path | None = None, allow_partial: bool = False
) -> tuple[list[Task], dict[str, str]]:
    """The tasks that can be read, and for each other task the reason why not; see ``evaluate``."""
    names = known_tasks(names, folder, probing)
    if folder is not None and not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder; give the one with SentEval's MR/, SICK/, STS/ and so on")
    found, unavailable = [], {}
    for name in names:
        try:
            found.append(read_task(name, folder, allow_partial, probing))
        except InputError as error:
            unavailable[name] = str(error)
    return found, unavailable


def covered_tasks(
    tasks: Sequence[Task], unavailable: Mapping[str, str], protocol: Protocol
) -> tuple[list[Task], dict[str, str]]:
    """The tasks that a protocol covers; and for each other one the reason why not, after those given.

    Raises:
        InputError: if it covers none of them.
    """
    covered = [task for task in tasks if protocol.covers(task)]
    others = [task.name for task in tasks if not protocol.covers(task)]
    reason = f"the protocol {protocol.name} does not cover it"
    if tasks and not covered:
        raise InputError(f"{', '.join(others)}: {reason}: give other --tasks")
    return covered, {**unavailable, **dict.fromkeys(others, reason)}


def evaluate_each(
    encode: Encode,
    tasks: Sequence[Task],
    *,
    protocol: Protocol = SENTEVAL,
    similarity: Encode | None = None,
    transductive: bool = False,
    widths: Sequence[int] = (),
    similarity_widths: Sequence[int] = (),
    progress: OnStage = lambda stage: None,
) -> Iterator[dict[str, Any]]:
    """Yield the results of each task as soon as it is scored; see ``evaluate``.

    ``widths`` are the numbers of columns of each ensemble member: each member gets its own classifier, and their
    predictions are averaged. ``similarity_widths`` are those of ``similarity``.
    """
    of_run, others = by_encoder([] if transductive else tasks, similarity is not None)
    supervised = TaskVectors(encode, of_run, whole=transductive)
    of_similarity = TaskVectors(similarity, others, whole=transductive) if similarity else None
    for task in tasks:
        source = of_similarity if of_similarity and task.kind == "similarity" else supervised
        start = time.perf_counter()
        vectors = source.of(task, progress)
        encoding = time.perf_counter() - start
        progress(f"{task.name}: scoring")
        start = time.perf_counter()
        try:
            columns = similarity_widths if source is of_similarity else widths
            scored = score_task(task, members_of(vectors, columns), protocol)
        except InputError as error:
            yield results_of(unavailable={task.name: f"{task.name}: {error}"}, protocol=protocol)
            continue
        seconds = {"encoding": round(encoding, 2), "scoring": round(time.perf_counter() - start, 2)}
        tested = {part: (values, task.splits[part].targets) for part, values in scored.pop("predictions").items()}
        dim = next(iter(vectors.values()))[0].shape[1]
        entry = scored | {
            "intervals": score_intervals(list(scored["scores"]), tested),
            "examples": {split: len(examples) for split, examples in task.splits.items()},
            "dim": dim,
            "partial": task.partial,
            "data": task.checksums,
            "seconds": seconds,
            "versions": _versions(),
        }
        yield results_of({task.name: entry}, predictions={task.name: tested}, protocol=protocol) | {"dim": dim}


def by_encoder(tasks: Sequence[Task], own_similarity: bool) -> tuple[list[Task], list[Task]]:
    """The tasks of ``encode`` and those of ``similarity``, which has the similarity tasks if there is one."""
    parts: tuple[list[Task], list[Task]] = [], []
    for task in tasks:
        parts[own_similarity and task.kind == "similarity"].append(task)
    return parts


def calls_to_come(tasks: Iterable[Task]) -> Iterator[list[Tokens]]:
    """The sentences of each call of its encoder by ``TaskVectors``, if it is asked for these tasks in this order."""
    seen: set[Tokens] = set()
    for task in tasks:
        sentences = task.sentences()
        for start in range(0, len(sentences), SENTENCES_AT_ONCE):
            new = [sentence for sentence in sentences[start : start + SENTENCES_AT_ONCE] if sentence not in seen]
            seen.update(new)
            if new:
                yield new


def results_of(
    tasks: dict[str, Any] | None = None,
    unavailable: dict[str, str] | None = None,
    predictions: Predictions | None = None,
    protocol: Protocol = SENTEVAL,
) -> dict[str, Any]:
    """Task entries, reasons for missing ones, and predictions, in the form that ``save_results`` takes."""
    by_task = {"tasks": tasks or {}, "unavailable": unavailable or {}, "predictions": predictions or {}}
    return {"format": FORMAT, "protocol": protocol.describe(), **by_task}


def members_of(vectors: dict[str, Vectors], widths: Sequence[int]) -> list[dict[str, Vectors]]:
    """Split concatenated vectors into those of each ensemble member; without ``widths``, a single member."""
    if not widths:
        return [vectors]
    ends = np.cumsum(widths)
    return [
        {split: (first[:, start:end], second[:, start:end]) for split, (first, second) in vectors.items()}
        for start, end in zip(ends - widths, ends, strict=True)
    ]


class TaskVectors:
    """Vectors of the task sentences; each distinct sentence is encoded once.

    Sentences are encoded in blocks, and a vector is kept only while a later task shares its sentence. So memory holds
    the vectors of one task, the shared vectors and one block.

    Args:
        encode: see ``evaluate``.
        tasks: upcoming tasks, in any order; any other task is encoded separately.
        whole: pass all sentences of a task to the encoder at once.
    """

    def __init__(self, encode: Encode, tasks: Iterable[Task] = (), whole: bool = False):
        self._encode = encode
        self._whole = whole
        self._uses_to_come = Counter(sentence for task in tasks for sentence in task.sentences())
        self._kept: dict[Tokens, np.ndarray] = {}

    def of(self, task: Task, progress: OnStage = lambda stage: None) -> dict[str, Vectors]:
        """For each split, the vectors (n, d) of the first sentences and of the second ones.

        Raises:
            InputError: if the encoder returns the wrong number of vectors, or vectors that are not finite.
        """
        sentences = task.sentences()
        new = sum(sentence not in self._kept for sentence in sentences)
        progress(f"{task.name}: encoding {counted(new, 'sentence')}")
        places = {sentence: place for place, sentence in enumerate(sentences)}
        wanted = {
            split: tuple(np.array([places[s] for s in part], dtype=np.int64) for part in (each.first, each.second))
            for split, each in task.splits.items()
        }
        vectors: dict[str, Vectors] = {}
        size = len(sentences) if self._whole else SENTENCES_AT_ONCE
        for start in range(0, len(sentences), size):
            block = self._block(task.name, sentences[start : start + size])
            for split, parts in wanted.items():
                if split not in vectors:
                    first, second = (np.empty((len(part), block.shape[1]), dtype=np.float32) for part in parts)
                    vectors[split] = first, second
                for part, table in zip(parts, vectors[split], strict=True):
                    here = np.flatnonzero((part >= start) & (part < start + size))
                    table[here] = block[part[here] - start]
        return vectors

    def _block(self, task: str, sentences: list[Tokens]) -> np.ndarray:
        """Vectors (n, d) of some sentences, reused or newly encoded; keeps those that are needed later."""
        new = [row for row, sentence in enumerate(sentences) if sentence not in self._kept]
        encoded = _encoded(task, [sentences[row] for row in new], self._encode)
        if len(new) == len(sentences):
            block = encoded
        else:
            kept = {row: self._kept[sentence] for row, sentence in enumerate(sentences) if sentence in self._kept}
            block = np.empty((len(sentences), len(next(iter(kept.values())))), dtype=np.float32)
            block[list(kept)] = list(kept.values())
            if new:
                block[new] = encoded
        for sentence, vector in zip(sentences, block, strict=True):
            self._uses_to_come[sentence] -= 1
            if self._uses_to_come[sentence] > 0:
                self._kept[sentence] = vector.copy()
            else:
                self._kept.pop(sentence, None)
        return block


def _encoded(task: str, sentences: list[Tokens], encode: Encode) -> np.ndarray:
    """Encode some sentences; returns checked vectors (n, d)."""
    if not sentences:
        return np.empty((0, 0), dtype=np.float32)
    table = np.asarray(encode(sentences), dtype=np.float32)
    if table.ndim != 2 or len(table) != len(sentences):
        raise InputError(f"{task}: vectors of shape {table.shape} for {len(sentences)} sentences; return one per row")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        sentence = " ".join(sentences[bad[0]])
        raise InputError(
            f"{task}: {len(bad)} of {len(table)} vectors contain NaN or infinite numbers, the first for "
            f"{sentence[:60]!r}; train the run again with a lower --lr"
        )
    return table


def _scaled(encode: Encode) -> Encode:
    """The same encoder with vectors of length 1."""
    return lambda sentences: normalised(np.asarray(encode(sentences), dtype=np.float32))


def _versions() -> dict[str, str]:
    return {
        "structviews": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": str(torch.__version__),
        "scikit-learn": sklearn.__version__,
    }
