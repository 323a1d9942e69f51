"""Score a run on tasks: choose the vectors and the source of the trees, and save the scores."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import EncodingPool, open_pool, processes_that_pay
from structviews.encoding.kinds.baseline import GivenVectors, WordBaseline
from structviews.encoding.kinds.joined import JoinedEmbedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.sentence_vectors import EncodeBlocks, saved
from structviews.encoding.word_limit import DEFAULT_LIMIT, WordLimit, one_warning
from structviews.errors import InputError
from structviews.evaluation.scores.results import results_name, save_results
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.protocols.protocol import Protocol
from structviews.evaluation.senteval.suite import TaskEncoder, by_encoder, evaluate_each, results_of
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.runs.which_vectors import FITTED_ON
from structviews.runtime.terminal import rate_bar


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
    progress: Callable[[str], None] = lambda stage: None,
) -> Iterator[bool]:
    """Score a run on what ``read_tasks`` found, save the scores in its folder, and yield whether each task has one.

    Args:
        ensemble: for a joined run, average the members' predictions instead of joining their vectors.
        trees: trees of the task sentences; by default the run's own parser parses them.
        save_vectors: folder for the vectors and their sentences, ``RUN.npy`` and ``RUN.txt``.
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
            parts = by_encoder(tasks, len(embedders) > 1)
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
        other = encoders[1] if len(encoders) > 1 else None
        for results in evaluate_each(encoders[0], tasks, protocol=protocol, similarity=other, progress=progress):
            # Save after each task, so that an interruption loses at most one.
            save_results(run, results | vectors, file)
            yield bool(results["tasks"])
    save_results(run, results_of(unavailable=unavailable, protocol=protocol) | vectors, file)


def score_with_bar(
    run: Path, tasks: Sequence[Task], unavailable: dict[str, str], console: Console, **options: Any
) -> int:
    """Score a run with a bar on the console; how many of the tasks now have a score. See ``score_run``."""
    n_scored = done = 0
    with rate_bar(console, run.name, "tasks", percent=False, steady=False) as bar, one_warning():

        def show(stage: str) -> None:
            bar(done, len(tasks))
            bar.stage(stage)

        bar.stage("loading")
        for has_score in score_run(run, tasks, unavailable, progress=show, **options):
            n_scored += has_score
            done += 1
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
    """What encodes blocks of sentences, with the given trees, if any; and for an ensemble its members' widths.

    An ensemble's members have their vectors side by side. With a pool, as many processes as pay encode the blocks to
    come while a task is scored.
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
