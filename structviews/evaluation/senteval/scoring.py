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
from structviews.encoding.kinds.baseline import WordBaseline
from structviews.encoding.kinds.external import GivenVectors
from structviews.encoding.kinds.joined import JoinedEmbedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.sentence_vectors import saved
from structviews.encoding.word_limit import DEFAULT_LIMIT, WordLimit, one_warning
from structviews.errors import InputError
from structviews.evaluation.scores.results import results_name, save_results
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.protocols.protocol import Protocol
from structviews.evaluation.senteval.suite import EncodeBlocks, TaskEncoder, by_encoder, evaluate_each, results_of
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.runtime.terminal import rate_bar


@dataclass(frozen=True)
class Scored:
    """Which of a run's vectors to score.

    Attributes:
        view: a single view of the run; empty for all views.
        changes: changes to the run's representation, see ``Embedder.with_representation``.
        flags: the equivalent command-line flags.
        limit: the longest sentence that is encoded.
        precision: see ``Embedder.load``.
    """

    view: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    flags: str = ""
    limit: WordLimit = DEFAULT_LIMIT
    precision: str = "auto"


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
    """Score a run and save the scores in its folder, task by task.

    Args:
        run: the run's folder.
        tasks: tasks from ``read_tasks``.
        unavailable: tasks that could not be read, each with the reason.
        scored: which vectors to score.
        protocol: the evaluation protocol.
        ensemble: for a joined run, average the members' predictions instead of joining their vectors.
        trees: trees of the task sentences; by default the run's own parser parses them.
        save_vectors: folder for the vectors and their sentences, ``RUN.npy`` and ``RUN.txt``.
        progress: called with a description of each stage.

    Yields:
        For each task, whether it now has a score.

    Raises:
        InputError: if the run cannot encode the sentences, or its vectors are invalid.
    """
    embedder, vectors, file = scored_vectors(Embedder.load(run), scored, protocol, ensemble)
    similarity = embedder.for_similarity()
    embedders = [embedder, similarity] if similarity.representation != embedder.representation else [embedder]
    if save_vectors and embedder.choice.is_transductive:
        raise InputError("--save-vectors: --transductive vectors of a sentence differ by task: drop --transductive")
    for each in embedders:
        _check(each, tasks, trees)
    with ExitStack() as stack:
        pool = None
        if not (ensemble or embedder.choice.is_transductive or isinstance(embedder, GivenVectors | WordBaseline)):
            parts = by_encoder(tasks, len(embedders) > 1)
            sentences = sum(len({each for task in part for each in task.sentences()}) for part in parts)
            pool = stack.enter_context(open_pool(embedder, processes_that_pay(embedder, sentences)))
        encoders = []
        for each, suffix in zip(embedders, ("", ".similarity"), strict=False):
            encode = _encode_blocks(run, each, trees, ensemble, pool)
            if save_vectors:
                save_vectors.mkdir(parents=True, exist_ok=True)
                stem = run.resolve().name + file.removeprefix("results").removesuffix(".json")
                encode = stack.enter_context(saved(encode, save_vectors / f"{stem}{suffix}.npy"))
            widths = _members(run, each).widths if ensemble else ()
            encoders.append(TaskEncoder(encode, embedder.choice.is_transductive, widths))
        other = encoders[1] if len(encoders) > 1 else None
        for results in evaluate_each(encoders[0], tasks, protocol=protocol, similarity=other, progress=progress):
            # Save after each task, so that an interruption loses at most one.
            save_results(run, results | vectors, file)
            yield bool(results["tasks"])
    save_results(run, results_of(unavailable=unavailable, protocol=protocol) | vectors, file)


def score_with_bar(
    run: Path, tasks: Sequence[Task], unavailable: dict[str, str], console: Console, **options: Any
) -> int:
    """Score a run with a bar; how many of the tasks now have a score.

    Args:
        run, tasks, unavailable: see ``score_run``.
        console: where the bar is.
        **options: further arguments of ``score_run``.
    """
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


def place_of(run: Path, scored: Scored, protocol: Protocol, ensemble: bool) -> tuple[dict[str, str], str]:
    """What results say of the vectors that ``score_run`` scores, and the file in the run's folder."""
    _, vectors, file = scored_vectors(Embedder.load(run), scored, protocol, ensemble)
    return vectors, file


def scored_vectors(
    own: Embedder, scored: Scored, protocol: Protocol, ensemble: bool = False
) -> tuple[Embedder, dict[str, str], str]:
    """The embedder to score, what results say of its vectors, and the file in the run's folder.

    The vectors have the length that the protocol wants, which their description does not repeat.

    Args:
        own: the run as it is without flags.
        scored: which of its vectors.
        protocol: the evaluation protocol.
        ensemble: whether the members' predictions are averaged.
    """
    embedder = own.with_representation(**scored.changes).with_limit(**vars(scored.limit))
    embedder = embedder.with_precision(scored.precision)
    description = embedder.description
    if scored.view:
        embedder, description = embedder.with_view(scored.view), f"{scored.view} alone: {description}"
    description += ", ensemble" * ensemble
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


def _check(embedder: Embedder, tasks: Sequence[Task], trees: TaskTrees | None) -> None:
    """Raise InputError, before scoring, if a sentence has no tree or no vector."""
    lookup: GivenVectors | TaskTrees | None = None
    if isinstance(embedder, GivenVectors):
        lookup = embedder
    elif trees and embedder.needs != {"tokens"}:
        trees.suit(embedder)
        lookup = trees
    if lookup:
        for task in tasks:
            lookup.check(task.sentences(), task.name)


def _members(run: Path, embedder: Embedder) -> JoinedEmbedder:
    if not isinstance(embedder, JoinedEmbedder):
        raise InputError(f"{run}: not a joined run, so no ensemble members: run structviews join RUN RUN -o DIR first")
    if embedder.representation.view_weights:
        raise InputError("--ensemble: gives members weights of its own: drop --view-weights, --similarity-view-weights")
    return embedder


def _encode_blocks(
    run: Path, embedder: Embedder, trees: TaskTrees | None, ensemble: bool, pool: EncodingPool | None
) -> EncodeBlocks:
    """Encodes blocks of sentences with the given trees, if any; for an ensemble, the members' vectors side by side.

    With a pool, as many processes as pay encode the blocks to come while a task is scored.
    """

    def with_trees(sentences: list[Tokens]) -> Sequence[Sentence]:
        return sentences if trees is None or embedder.needs == {"tokens"} else trees.find(sentences)

    if pool:
        return lambda blocks: pool.each(embedder, map(with_trees, blocks))
    if not ensemble:
        return lambda blocks: (embedder.encode(with_trees(sentences)) for sentences in blocks)
    joined = _members(run, embedder)
    return lambda blocks: (np.concatenate(joined.encode_views(with_trees(sentences)), axis=1) for sentences in blocks)
