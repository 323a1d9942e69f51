"""Evaluate an encoder on SentEval's tasks."""

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.protocols.protocol import Protocol, Vectors
from structviews.evaluation.senteval.task_scores import score_task
from structviews.evaluation.senteval.tasks.finding import known_tasks, read_task
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.runtime.wording import counted

Encode = Callable[[list[Tokens]], np.ndarray]
# Maps blocks of sentences to their vectors (n, d), in order; it may read blocks ahead.
EncodeBlocks = Callable[[Iterator[list[Tokens]]], Iterator[np.ndarray]]
OnStage = Callable[[str], None]
# Sentences encoded at a time.
SENTENCES_AT_ONCE = 4096
# The entries of the results that are keyed by task.
BY_TASK = ("tasks", "unavailable", "predictions")


@dataclass(frozen=True)
class TaskEncoder:
    """What encodes the sentences of tasks.

    Attributes:
        encode: encodes blocks of sentences.
        transductive: a sentence's vector depends on the others it is encoded with, so each task is encoded
            separately, and all its sentences together.
        widths: the numbers of columns of each ensemble member, whose predictions are averaged; empty for no ensemble.
    """

    encode: EncodeBlocks
    transductive: bool = False
    widths: Sequence[int] = ()


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
        transductive: see ``TaskEncoder``.
        allow_partial: also score files with fewer examples than published, and mark them.
        progress: called with a description of each stage, such as ``MR: encoding 10,662 sentences``.

    Returns:
        The content of ``results.json`` (``docs/evaluation.md``) without the model's checksum; and ``predictions``:
        for each task and each test part, the predictions and gold targets.

    Raises:
        InputError: for an unknown task, a folder that does not exist, or invalid vectors.
    """
    followed = PROTOCOLS[protocol]

    def scaled(sentences: list[Tokens]) -> np.ndarray:
        return normalised(np.asarray(encode(sentences), dtype=np.float32))

    encoder = TaskEncoder(partial(map, scaled if followed.normalise else encode), transductive)
    other = TaskEncoder(partial(map, similarity), transductive) if similarity else None
    found, unavailable = read_tasks(tasks, folder, probing, allow_partial)
    results = results_of(unavailable=unavailable, protocol=followed)
    for each in evaluate_each(encoder, found, protocol=followed, similarity=other, progress=progress):
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
    encoder: TaskEncoder,
    tasks: Sequence[Task],
    *,
    protocol: Protocol = SENTEVAL,
    similarity: TaskEncoder | None = None,
    progress: OnStage = lambda stage: None,
) -> Iterator[dict[str, Any]]:
    """Yield the results of each task as soon as it is scored; see ``evaluate``.

    Args:
        encoder: encodes the tasks.
        tasks: the tasks.
        protocol: the protocol.
        similarity: encodes the similarity tasks instead.
        progress: called with a description of each stage.
    """
    parts = by_encoder(tasks, similarity is not None)
    encoders = [encoder, similarity or encoder]
    vectors_of_part = [task_vectors(each, part, progress) for each, part in zip(encoders, parts, strict=True)]
    for task in tasks:
        which = similarity is not None and task.kind == "similarity"
        start = time.perf_counter()
        vectors = next(vectors_of_part[which])
        encoding = time.perf_counter() - start
        progress(f"{task.name}: scoring")
        start = time.perf_counter()
        try:
            scored = score_task(task, members_of(vectors, encoders[which].widths), protocol)
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
            "versions": {
                "structviews": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "torch": str(torch.__version__),
                "scikit-learn": sklearn.__version__,
            },
        }
        yield results_of({task.name: entry}, predictions={task.name: tested}, protocol=protocol) | {"dim": dim}


def by_encoder(tasks: Sequence[Task], own_similarity: bool) -> tuple[list[Task], list[Task]]:
    """The tasks of ``encoder``, and those of ``similarity``, which has the similarity tasks if there is one."""
    parts: tuple[list[Task], list[Task]] = [], []
    for task in tasks:
        parts[own_similarity and task.kind == "similarity"].append(task)
    return parts


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


def task_vectors(
    encoder: TaskEncoder, tasks: Sequence[Task], progress: OnStage = lambda stage: None
) -> Iterator[dict[str, Vectors]]:
    """For each task in turn: by split, the vectors (n, d) of the first sentences and of the second ones.

    Each distinct sentence of all tasks is encoded once, in blocks, unless the encoder is transductive. A vector is
    kept only while a later task shares its sentence: memory holds the vectors of one task, the shared ones, and a
    block.

    Raises:
        InputError: if the encoder returns the wrong number of vectors, or vectors that are not finite.
    """
    uses_left = Counter() if encoder.transductive else Counter(s for task in tasks for s in task.sentences())
    shared: dict[Tokens, np.ndarray] = {}
    encoded = encoder.encode(_blocks_to_encode(encoder, tasks))
    for task in tasks:
        sentences = task.sentences()
        new = sum(sentence not in shared for sentence in sentences)
        progress(f"{task.name}: encoding {counted(new, 'sentence')}")
        row_of = {sentence: row for row, sentence in enumerate(sentences)}
        rows = {
            split: [np.array([row_of[s] for s in part], dtype=np.int64) for part in (each.first, each.second)]
            for split, each in task.splits.items()
        }
        vectors: dict[str, Vectors] = {}
        for start, block in _blocks(encoder, sentences):
            added = [sentence for sentence in block if sentence not in shared]
            own = dict(zip(added, _checked(task.name, added, next(encoded)) if added else (), strict=True))
            table = np.stack([shared[s] if s in shared else own[s] for s in block])
            for split, parts in rows.items():
                if split not in vectors:
                    first, second = (np.empty((len(part), table.shape[1]), dtype=np.float32) for part in parts)
                    vectors[split] = first, second
                for part, filled in zip(parts, vectors[split], strict=True):
                    here = np.flatnonzero((part >= start) & (part < start + len(block)))
                    filled[here] = table[part[here] - start]
            for sentence, vector in zip(block, table, strict=True):
                uses_left[sentence] -= 1
                if uses_left[sentence] > 0:
                    shared[sentence] = vector.copy()
                else:
                    shared.pop(sentence, None)
        yield vectors


def _blocks(encoder: TaskEncoder, sentences: list[Tokens]) -> Iterator[tuple[int, list[Tokens]]]:
    """The blocks of a task's sentences, each with its first row."""
    size = len(sentences) if encoder.transductive else SENTENCES_AT_ONCE
    return ((start, sentences[start : start + size]) for start in range(0, len(sentences), size))


def _blocks_to_encode(encoder: TaskEncoder, tasks: Sequence[Task]) -> Iterator[list[Tokens]]:
    """Of each block of each task, the sentences that no block before has, if there are any."""
    seen: set[Tokens] = set()
    for task in tasks:
        for _, block in _blocks(encoder, task.sentences()):
            new = [sentence for sentence in block if encoder.transductive or sentence not in seen]
            seen.update(new)
            if new:
                yield new


def _checked(task: str, sentences: list[Tokens], vectors: np.ndarray) -> np.ndarray:
    """The vectors (n, d), float32."""
    table = np.asarray(vectors, dtype=np.float32)
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
