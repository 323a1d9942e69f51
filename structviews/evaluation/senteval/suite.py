"""Evaluate an encoder on SentEval's tasks; score a run on them, and save the scores."""

import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from rich.console import Console

from structviews import __version__
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import EncodingPool, open_pool, processes_that_pay
from structviews.encoding.kinds.baseline import GivenVectors, WordBaseline
from structviews.encoding.kinds.joined import JoinedEmbedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.representation import normalised
from structviews.encoding.sentence_vectors import EncodeBlocks, saved
from structviews.encoding.word_limit import DEFAULT_LIMIT, WordLimit, one_warning
from structviews.errors import InputError
from structviews.evaluation.scores.intervals import score_intervals
from structviews.evaluation.scores.results import FORMAT, results_name, save_results
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.protocols.protocol import Protocol, Vectors
from structviews.evaluation.senteval.task_scores import score_task
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.finding import known_tasks, read_task
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.runs.which_vectors import FITTED_ON
from structviews.runtime.terminal import Bar
from structviews.runtime.wording import counted

Encode = Callable[[list[Tokens]], np.ndarray]
# Tasks, and for each other task the reason why it is not among them.
Chosen = tuple[list[Task], dict[str, str]]
OnStage = Callable[[str], None]
SENTENCES_AT_ONCE = 4096  # most that are encoded at a time
# The entries of the results that are keyed by task: scores, reasons for missing ones, and predictions.
BY_TASK = ("tasks", "unavailable", "predictions")
BY_COSINE = ("similarity", "structure")  # kinds of tasks that have the representation for similarity
# What scores may depend on beside the run, the data and the protocol.
VERSIONS = {
    "structviews": __version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "torch": str(torch.__version__),
    "scikit-learn": sklearn.__version__,
}


@dataclass(frozen=True)
class TaskEncoder:
    """What encodes the sentences of tasks.

    A transductive one has vectors that depend on the other sentences: all of a task, or those of a part, which is one
    side of a split, such as the second sentences of a data set of STS. These are encoded separately and whole.
    """

    encode: EncodeBlocks
    transductive: str = ""  # of ``FITTED_ON``; empty for one that is not
    widths: Sequence[int] = ()  # numbers of columns of ensemble members, whose predictions are averaged


def evaluate(
    encode: Encode,
    tasks: Sequence[str],
    folder: Path | None = None,
    *,
    probing: Path | None = None,
    protocol: str = SENTEVAL.name,
    similarity: Encode | None = None,
    transductive: str = "",
    allow_partial: bool = False,
    progress: OnStage = lambda stage: None,
) -> dict[str, Any]:
    """Score an encoder on tasks of a SentEval folder; tasks that cannot be scored are listed with the reason.

    Returns the content of ``results.json`` (``docs/evaluation.md``) without the model's checksum; and ``predictions``:
    for each task and each test part, the predictions and gold targets. InputError for an unknown task, a folder that
    does not exist, or invalid vectors.

    Args:
        encode: maps ``n`` tokenised sentences to vectors (n, d) in the same order; each distinct sentence of
            all tasks is passed once, in blocks of a few thousand.
        tasks: names from ``TASKS`` or of probing tasks, in any case.
        folder, probing: the directory with ``MR/``, ``STS/`` and so on; and of probing tasks (``probing_files``).
        protocol: a name from ``PROTOCOLS``; ``kiros`` scales the vectors to length 1.
        similarity: encoder for similarity tasks; by default ``encode``.
        transductive: see ``TaskEncoder``.
        allow_partial: also score files with fewer examples than published, and mark them.
        progress: called with a description of each stage, such as ``MR: encoding 10,662 sentences``.
    """
    followed = PROTOCOLS[protocol]

    def scaled(sentences: list[Tokens]) -> np.ndarray:
        return normalised(np.asarray(encode(sentences), dtype=np.float32))

    encoders = [TaskEncoder(partial(map, scaled if followed.normalise else encode), transductive)]
    if similarity:
        encoders.append(TaskEncoder(partial(map, similarity), transductive))
    found, unavailable = read_tasks(tasks, folder, probing, allow_partial)
    results = results_of(followed, unavailable=unavailable)
    for each in evaluate_each(encoders, found, followed, progress):
        results |= {key: results[key] | value if key in BY_TASK else value for key, value in each.items()}
    return results


def read_tasks(
    names: Sequence[str], folder: Path | None, probing: Path | None = None, allow_partial: bool = False
) -> Chosen:
    """The tasks that can be read; see ``evaluate``."""
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


def covered_tasks(tasks: Sequence[Task], unavailable: Mapping[str, str], protocol: Protocol) -> Chosen:
    """The tasks that a protocol covers, InputError if none; and the reasons, after those given."""
    covered = [task for task in tasks if protocol.covers(task)]
    others = [task.name for task in tasks if not protocol.covers(task)]
    reason = f"the protocol {protocol.name} does not cover it"
    if tasks and not covered:
        raise InputError(f"{', '.join(others)}: {reason}: give other --tasks")
    return covered, {**unavailable, **dict.fromkeys(others, reason)}


def evaluate_each(
    encoders: Sequence[TaskEncoder], tasks: Sequence[Task], protocol: Protocol, progress: OnStage
) -> Iterator[dict[str, Any]]:
    """Yield the results of each task as soon as it is scored; the last encoder encodes the similarity tasks."""
    tasks = [protocol.seen(task) for task in tasks]
    parts = by_encoder(tasks, len(encoders))
    vectors_of_part = [task_vectors(each, part, progress) for each, part in zip(encoders, parts, strict=True)]
    for task in tasks:
        number = -1 if task.kind in BY_COSINE else 0
        start = time.perf_counter()
        vectors = next(vectors_of_part[number])
        ends = np.cumsum(encoders[number].widths, dtype=int)[:-1]  # of the columns of ensemble members
        columns = {split: [np.split(x, ends, axis=1) for x in pair] for split, pair in vectors.items()}
        members = [{split: (u[m], v[m]) for split, (u, v) in columns.items()} for m in range(len(ends) + 1)]
        encoding = time.perf_counter() - start
        progress(f"{task.name}: scoring")
        start = time.perf_counter()
        try:
            scored = score_task(task, members, protocol)
        except InputError as error:
            yield results_of(protocol, unavailable={task.name: f"{task.name}: {error}"})
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
            "versions": VERSIONS,
        }
        yield results_of(protocol, tasks={task.name: entry}, predictions={task.name: tested}) | {"dim": dim}


def by_encoder(tasks: Sequence[Task], encoders: int) -> list[list[Task]]:
    """The tasks of each encoder: of two, the last has the similarity tasks."""
    parts: list[list[Task]] = [[] for _ in range(encoders)]
    for task in tasks:
        parts[-1 if task.kind in BY_COSINE else 0].append(task)
    return parts


def results_of(protocol: Protocol = SENTEVAL, **by_task: dict[str, Any]) -> dict[str, Any]:
    """What is known of each task, by an entry of ``BY_TASK``, in the form that ``save_results`` takes."""
    return {"format": FORMAT, "protocol": protocol.describe(), **{entry: {} for entry in BY_TASK}, **by_task}


def task_vectors(
    encoder: TaskEncoder, tasks: Sequence[Task], progress: OnStage = lambda stage: None
) -> Iterator[dict[str, Vectors]]:
    """For each task in turn: by split, the vectors (n, d) of the first sentences and of the second ones.

    Each distinct sentence of all tasks is encoded once, in blocks, unless the encoder is transductive. A vector is
    kept only while a later task shares its sentence: memory holds the vectors of one task, the shared ones, and a
    block. InputError for a wrong number of vectors, or vectors that are not finite.
    """
    if encoder.transductive == "part":
        yield from _vectors_by_part(encoder, tasks, progress)
        return
    # Of each task, its sentences in blocks, each with those of them that no block before has.
    plan: list[list[tuple[list[Tokens], list[Tokens]]]] = []
    last: dict[Tokens, int] = {}  # the last task that has a sentence
    for number, task in enumerate(tasks):
        sentences = task.sentences()
        size = len(sentences) if encoder.transductive else SENTENCES_AT_ONCE
        whole = [sentences[start : start + size] for start in range(0, len(sentences), size)]
        plan.append([(block, [s for s in block if encoder.transductive or s not in last]) for block in whole])
        last |= dict.fromkeys(sentences, number)
    encoded = encoder.encode(new for blocks in plan for _, new in blocks if new)
    shared: dict[Tokens, np.ndarray] = {}
    for number, (task, blocks) in enumerate(zip(tasks, plan, strict=True)):
        progress(f"{task.name}: encoding {counted(sum(len(new) for _, new in blocks), 'sentence')}")
        parts = [part for examples in task.splits.values() for part in (examples.first, examples.second)]
        filled: list[np.ndarray] = []
        rows: dict[Tokens, list[tuple[int, int]]] = defaultdict(list)  # of each sentence, in the parts
        for i, part in enumerate(parts):
            for row, sentence in enumerate(part):
                rows[sentence].append((i, row))
        for block, new in blocks:
            own = dict(zip(new, _checked(task.name, new, next(encoded)) if new else (), strict=True))
            for sentence in block:
                vector = own[sentence] if sentence in own else shared.pop(sentence)
                filled = filled or [np.empty((len(part), len(vector)), dtype=np.float32) for part in parts]
                for i, row in rows[sentence]:
                    filled[i][row] = vector
                if not encoder.transductive and last[sentence] > number:
                    shared[sentence] = vector.copy() if sentence in own else vector
        yield dict(zip(task.splits, zip(filled[::2], filled[1::2], strict=True), strict=True))


def _vectors_by_part(encoder: TaskEncoder, tasks: Sequence[Task], progress: OnStage) -> Iterator[dict[str, Vectors]]:
    """As ``task_vectors``; each side of each split is encoded as it stands, apart from the others."""
    sides = [[side for each in task.splits.values() for side in (each.first, each.second)] for task in tasks]
    encoded = encoder.encode(list(side) for task in sides for side in task if side)
    for task, parts in zip(tasks, sides, strict=True):
        progress(f"{task.name}: encoding {counted(sum(map(len, parts)), 'sentence')} by part")
        found = {i: _checked(task.name, list(side), next(encoded)) for i, side in enumerate(parts) if side}
        none = np.empty((0, next(iter(found.values())).shape[1]), np.float32)
        whole = [found.get(i, none) for i in range(len(parts))]
        yield dict(zip(task.splits, zip(whole[::2], whole[1::2], strict=True), strict=True))


def _checked(task: str, sentences: list[Tokens], vectors: np.ndarray) -> np.ndarray:
    """The vectors (n, d), float32."""
    table = np.asarray(vectors, dtype=np.float32)
    if table.ndim != 2 or len(table) != len(sentences):
        raise InputError(f"{task}: vectors of shape {table.shape} for {len(sentences)} sentences; return one per row")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        sentence = " ".join(sentences[bad[0]])
        what = f"{len(bad)} of {len(table)} vectors contain NaN or infinite numbers, the first for {sentence[:60]!r}"
        raise InputError(f"{task}: {what}; train the run again with a lower --lr")
    return table


@dataclass(frozen=True)
class Scored:
    """Which of a run's vectors to score."""

    view: str = ""  # a single view of the run; empty for all views
    changes: dict[str, Any] = field(default_factory=dict)  # of the representation, see Embedder.with_representation
    flags: str = ""  # the equivalent command-line flags
    limit: WordLimit = DEFAULT_LIMIT
    precision: str = "auto"  # see Embedder.load
    by_part: bool = False  # whether a transductive component is fitted on each part of a task alone


def score_run(
    run: Path,
    tasks: Sequence[Task],
    unavailable: dict[str, str],
    *,
    scored: Scored = Scored(),
    protocol: Protocol = SENTEVAL,
    ensemble: bool = False,
    trees: TaskTrees | None = None,
    save_vectors: Path | None = None,
    progress: OnStage = lambda stage: None,
) -> Iterator[bool]:
    """Score a run on what ``read_tasks`` found, save the scores in its folder, and yield whether each task has one.

    An ``ensemble`` averages the predictions of a joined run's members. Without ``trees``, the run's own parser parses
    the sentences. ``save_vectors`` is a folder for these and their vectors, ``RUN.txt`` and ``RUN.npy``.
    """
    embedder, vectors, file = scored_vectors(run, scored, protocol, ensemble)
    similarity = embedder.for_similarity()
    embedders = [embedder, similarity] if similarity.representation != embedder.representation else [embedder]
    if save_vectors and embedder.choice.is_transductive:
        raise InputError("--save-vectors: --transductive vectors of a sentence differ by task: drop --transductive")
    for each in embedders:
        lookup = each if isinstance(each, GivenVectors) else trees if each.needs != {"tokens"} else None
        if isinstance(lookup, TaskTrees):
            lookup.suit(each)
        for task in tasks:
            if lookup:  # now, rather than after an hour
                lookup.check(task.sentences(), task.name)
    with ExitStack() as stack:
        pool = None
        if not (ensemble or embedder.choice.is_transductive or isinstance(embedder, GivenVectors | WordBaseline)):
            parts = by_encoder(tasks, len(embedders))
            sentences = sum(len({each for task in part for each in task.sentences()}) for part in parts)
            pool = stack.enter_context(open_pool(embedder, processes_that_pay(embedder, sentences)))
        encoders = []
        for each, suffix in zip(embedders, ("", ".similarity"), strict=False):
            encode, widths = _encode_blocks(run, each, trees, ensemble, pool)
            if save_vectors:
                save_vectors.mkdir(parents=True, exist_ok=True)
                stem = run.resolve().name + file.removeprefix("results").removesuffix(".json")
                encode = stack.enter_context(saved(encode, save_vectors / f"{stem}{suffix}.npy"))
            fitted_on = FITTED_ON[scored.by_part] if embedder.choice.is_transductive else ""
            encoders.append(TaskEncoder(encode, fitted_on, widths))
        for results in evaluate_each(encoders, tasks, protocol, progress):
            # Save after each task, so that an interruption loses at most one.
            save_results(run, results | vectors, file)
            yield bool(results["tasks"])
    save_results(run, results_of(protocol, unavailable=unavailable) | vectors, file)


def score_with_bar(
    run: Path, tasks: Sequence[Task], unavailable: dict[str, str], console: Console, **options: Any
) -> int:
    """Score a run with a bar on the console; how many of the tasks now have a score. See ``score_run``."""
    n_scored = done = 0
    with Bar(console, run.name, "tasks", percent=False, steady=False) as bar, one_warning():

        def show(stage: str) -> None:
            bar(done, len(tasks))
            bar.stage(stage)

        bar.stage("loading")
        for done, has_score in enumerate(score_run(run, tasks, unavailable, progress=show, **options), 1):
            n_scored += has_score
            bar(done, len(tasks), note="")
    return n_scored


def scored_vectors(
    run: Path, scored: Scored, protocol: Protocol, ensemble: bool = False
) -> tuple[Embedder, dict[str, str], str]:
    """The embedder to score, what results say of its vectors, and the file in the run's folder.

    The vectors have the length that the protocol wants, which their description does not repeat.
    """
    own = Embedder.load(run)
    embedder = own.with_representation(**scored.changes).with_limit(**vars(scored.limit))
    embedder = embedder.with_precision(scored.precision)
    description = embedder.description
    if scored.view:
        embedder, description = embedder.with_view(scored.view), f"{scored.view} alone: {description}"
    description += ", by part" * scored.by_part + ", ensemble" * ensemble
    differences, flags = [], ""
    if description != own.description:
        # A description is silent on fp32, which may be what sets the vectors apart.
        differences = [description, *(["fp32"] if embedder.encodes_in == "fp32" != own.encodes_in else [])]
        flags = scored.flags + " --ensemble" * ensemble
    if protocol != SENTEVAL:
        differences, flags = [*differences, protocol.name], f"{flags} --protocol {protocol.name}"
    if protocol.normalise:
        embedder = embedder.with_representation(normalise=True)
    return embedder, {"representation": description, "flags": flags}, results_name(*differences)


def _encode_blocks(
    run: Path, embedder: Embedder, trees: TaskTrees | None, ensemble: bool, pool: EncodingPool | None
) -> tuple[EncodeBlocks, Sequence[int]]:
    """What encodes blocks of sentences; and for an ensemble, whose vectors stand side by side, its members' widths.

    The processes of a pool encode the blocks to come while a task is scored.
    """

    def with_trees(sentences: list[Tokens]) -> Sequence[Sentence]:
        return sentences if trees is None or embedder.needs == {"tokens"} else trees.find(sentences)

    if pool:
        return lambda blocks: pool.each(embedder, map(with_trees, blocks)), ()
    if not ensemble:
        return lambda blocks: (embedder.encode(with_trees(sentences)) for sentences in blocks), ()
    if not isinstance(embedder, JoinedEmbedder):
        raise InputError(f"{run}: not a joined run, so no ensemble members: run structviews join RUN RUN -o DIR first")
    if embedder.representation.view_weights:
        raise InputError("--ensemble: gives members weights of its own: drop --view-weights, --similarity-view-weights")
    views = embedder.encode_views
    return lambda blocks: (np.concatenate(views(with_trees(each)), axis=1) for each in blocks), embedder.widths
