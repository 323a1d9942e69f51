"""Run an encoder through SentEval's tasks."""

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

from structviews import __version__
from structviews.errors import InputError
from structviews.evaluation.protocols import SENTEVAL, Vectors, score_task
from structviews.evaluation.results import FORMAT
from structviews.evaluation.tasks import Task, Tokens, check_tasks, read_task

Encode = Callable[[list[Tokens]], np.ndarray]


def evaluate(
    encode: Encode,
    tasks: Sequence[str],
    folder: Path,
    *,
    similarity: Encode | None = None,
    allow_partial: bool = False,
    progress: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Score an encoder on tasks of a SentEval folder; what cannot be scored is listed with its reason.

    Args:
        encode: from ``n`` tokenised sentences to vectors (n, d) in the same order; each distinct sentence
            of a task is passed once.
        similarity: what encodes the sentences of similarity tasks; ``encode`` if not given.
        tasks: names from ``TASKS``.
        folder: the directory that holds ``MR/``, ``STS/`` and so on.
        allow_partial: score files with fewer examples than published too, and mark them.
        progress: told each stage, ``MR: encoding 10,662 sentences``.

    Returns:
        What ``results.json`` holds (``docs/evaluation.md``), without the model's checksum.

    Raises:
        InputError: for an unknown task, a folder that does not exist, or vectors that are none.
    """
    check_tasks(tasks)
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder; give the one that holds SentEval's MR/, SICK/, STS/ and so on")
    results: dict[str, Any] = {"format": FORMAT, "protocol": SENTEVAL, "tasks": {}, "unavailable": {}}
    for name in tasks:
        try:
            task = read_task(name, folder, allow_partial)
        except InputError as error:
            results["unavailable"][name] = str(error)
            continue
        encoder = similarity if similarity and task.kind == "similarity" else encode
        vectors, dim, encoding = encoded(task, encoder, progress)
        progress(f"{name}: scoring")
        start = time.perf_counter()
        try:
            scored = score_task(task, vectors)
        except InputError as error:
            results["unavailable"][name] = f"{name}: {error}"
            continue
        del scored["predictions"]  # too many for results.json
        results["dim"] = dim
        results["tasks"][name] = scored | {
            "examples": {split: len(examples) for split, examples in task.splits.items()},
            "dim": dim,
            "partial": task.partial,
            "data": task.checksums,
            "seconds": {"encoding": round(encoding, 2), "scoring": round(time.perf_counter() - start, 2)},
            "versions": _versions(),
        }
    return results


def encoded(
    task: Task, encode: Encode, progress: Callable[[str], None] = lambda stage: None
) -> tuple[dict[str, Vectors], int, float]:
    """Vectors of each split, their dimension, and the seconds they took."""
    sentences: dict[Tokens, int] = {}
    rows = {
        split: [
            np.array([sentences.setdefault(s, len(sentences)) for s in part], dtype=np.int64)
            for part in (examples.first, examples.second)
        ]
        for split, examples in task.splits.items()
    }
    progress(f"{task.name}: encoding {len(sentences):,} sentences")
    start = time.perf_counter()
    table = np.asarray(encode(list(sentences)), dtype=np.float32)
    seconds = time.perf_counter() - start
    if table.ndim != 2 or len(table) != len(sentences):
        raise InputError(f"{task.name}: vectors of shape {table.shape} for {len(sentences)} sentences; want one a row")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        sentence = " ".join(list(sentences)[bad[0]])
        raise InputError(
            f"{task.name}: {len(bad)} of {len(table)} vectors have numbers that are not finite, the first for "
            f"{sentence[:60]!r}; train the run again with a lower --lr"
        )
    return {split: (table[first], table[second]) for split, (first, second) in rows.items()}, table.shape[1], seconds


def _versions() -> dict[str, str]:
    return {
        "structviews": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": str(torch.__version__),
        "scikit-learn": sklearn.__version__,
    }
