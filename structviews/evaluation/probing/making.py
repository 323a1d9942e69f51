"""Write probing tasks to files in SentEval's format."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import write_subset
from structviews.errors import InputError
from structviews.evaluation.parses import Parses
from structviews.evaluation.probing.changes import Text
from structviews.evaluation.probing.probing_tasks import TASKS, Examples, Pool, ProbingTask
from structviews.evaluation.probing.sampling import LEFT_OUT, PARTS, deal_documents
from structviews.evaluation.senteval.tasks.finding import PROBING
from structviews.runtime.documents import write_json
from structviews.runtime.files import new_folder, write_bytes

SHORTEST, LONGEST = 5, 28
"""Range of sentence lengths, as published."""
LEAST_OF_PART = 50
MANIFEST, INTACT = "probing.json", "intact.parsed"


class TaskResult(NamedTuple):
    """The result for a task: number of examples per part and labels, or why it was left out."""

    name: str
    counts: list[int]
    labels: list[str]
    reason: str


def make_tasks(
    corpus: ParsedCorpus,
    folder: Path,
    *,
    size: int = 100_000,
    sentences: int = 1_000_000,
    seed: int = 1,
    progress: Callable[[str], None] = lambda stage: None,
) -> list[TaskResult]:
    """Write every task that the corpus has enough examples for into a new or empty folder.

    ``probing.json`` describes the tasks, and ``intact.parsed`` has the unaltered sentences with their trees. A task has
    at most ``size`` training examples, and a tenth of it in each other part; at most ``sentences`` are read, from
    randomly drawn shards.

    Raises:
        InputError: if a size is too small, the folder exists, or the corpus is too small for any task.
    """
    if size < 10 * LEAST_OF_PART:
        raise InputError(f"size = {size}: give at least {10 * LEAST_OF_PART}, as the test part has a tenth of it")
    if sentences < 1:
        raise InputError(f"sentences = {sentences}: give at least 1")
    with new_folder(folder) as unfinished:
        progress("reading")
        parses = Parses.read(corpus, SHORTEST, LONGEST, sentences, np.random.default_rng(seed))
        if not len(parses):
            raise InputError(f"{corpus.path}: no sentences of {SHORTEST} to {LONGEST} words: give a larger corpus")
        rng = np.random.default_rng(seed)
        is_first = parses.first_occurrences(LONGEST, rng)
        parts = np.where(is_first, deal_documents(parses.documents, rng), LEFT_OUT)
        results, rows = [], []
        for number, (name, file) in enumerate(PROBING.items()):
            progress(name)
            # Each task has its own random numbers, so that it does not depend on the others.
            pool = Pool(parses, parts, (size, size // 10, size // 10), np.random.default_rng([seed, number]))
            examples, reason = make_task(TASKS[name], pool)
            if examples:
                write_examples(unfinished / file, examples)
                rows += [parses.rows[chosen] for chosen in examples.intact]
                results.append(TaskResult(name, examples.counts.tolist(), sorted(set(examples.labels)), ""))
            else:
                results.append(TaskResult(name, [], [], reason))
        if not rows:
            few = f"{results[0].name}: {results[0].reason}"
            raise InputError(f"{corpus.path}: too small for any task ({few}): give a larger corpus")
        progress("trees")
        write_subset(corpus, np.unique(np.concatenate(rows)), unfinished / INTACT)
        counts = np.bincount(parts[parts >= 0], minlength=len(PARTS)).tolist()
        described = {
            "format": "structviews probing tasks",
            "corpus": {"sha256": corpus.fingerprint, "parser": corpus.parser},
            "size": size,
            "seed": seed,
            "sentences": dict(zip(PARTS, counts, strict=True)),
            "documents": len(np.unique(parses.documents)),
            "tasks": {
                each.name: {
                    "file": PROBING[each.name],
                    "examples": dict(zip(PARTS, each.counts, strict=True)),
                    "labels": each.labels,
                }
                for each in results
                if not each.reason
            },
            "left_out": {each.name: each.reason for each in results if each.reason},
        }
        write_json(unfinished / MANIFEST, described)
        return results


def make_task(task: ProbingTask, pool: Pool) -> tuple[Examples | None, str]:
    """The examples of a task, or None and why it has none."""
    lacking = [need for need in task.needs if need in pool.parses.lacking]
    if lacking:
        return None, f"the corpus has no {lacking[0]}{'' if lacking[0] == 'tags' else ' trees'}"
    examples = task.make(pool)
    counts = examples.counts
    if counts.min() < LEAST_OF_PART or len(set(examples.labels)) < 2:
        few = " / ".join(f"{count:,}" for count in counts)
        return None, f"{few} examples; every part needs {LEAST_OF_PART}"
    return examples, ""


def write_examples(path: Path, examples: Examples) -> None:
    """Write one tab-separated line ``part, label, sentence`` per example; pairs have two sentences."""

    def joined(text: Text) -> pa.Array:
        words = pa.array(text.words.names, pa.string()).take(pa.array(text.words.ids))
        offsets = pa.array(np.concatenate([[0], np.cumsum(text.lengths)]), pa.int32())
        return pc.binary_join(pa.ListArray.from_arrays(offsets, words), " ")

    columns = [pa.array([PARTS[part] for part in examples.parts]), pa.array(examples.labels, pa.string())]
    lines = pc.binary_join_element_wise(*columns, *map(joined, examples.texts), "\t").to_pylist()
    write_bytes(path, ("\n".join(lines) + "\n").encode())
