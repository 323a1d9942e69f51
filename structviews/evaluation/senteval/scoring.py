"""Score a run on tasks: choose the vectors and the source of the trees, and save the scores."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import EncodingPool, is_transductive, open_pool, processes_that_pay
from structviews.encoding.kinds.external import GivenVectors
from structviews.encoding.kinds.joined import JoinedEmbedder
from structviews.encoding.kinds.word_average import WordBaseline
from structviews.encoding.preparation import Sentence
from structviews.encoding.sentence_vectors import saved
from structviews.encoding.word_limit import DEFAULT_LIMIT, WordLimit, one_warning
from structviews.errors import InputError
from structviews.evaluation.scores.results import results_name, save_results
from structviews.evaluation.senteval.protocols.protocol import Protocol
from structviews.evaluation.senteval.protocols.senteval_protocol import SENTEVAL
from structviews.evaluation.senteval.suite import Encode, by_encoder, calls_to_come, evaluate_each, results_of
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

    def of(self, own: Embedder) -> tuple[Embedder, str]:
        """The embedder to score, and a short description of its vectors."""
        embedder = own.with_representation(**self.changes).with_limit(**vars(self.limit))
        embedder = embedder.with_precision(self.precision)
        if not self.view:
            return embedder, embedder.description
        return embedder.with_view(self.view), f"{self.view} alone: {embedder.description}"


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
    own = Embedder.load(run)
    embedder, vectors, file = _place(own, scored, protocol, ensemble)
    similarity = embedder.for_similarity()
    another = similarity.representation != embedder.representation
    transductive = is_transductive(embedder)
    if save_vectors and transductive:
        raise InputError("--save-vectors: --transductive vectors of a sentence differ by task: drop --transductive")
    for each in (embedder, similarity):
        _check(each, tasks, trees)
    with ExitStack() as files:
        embedders = [embedder, similarity] if another else [embedder]
        encoders = files.enter_context(_encoders(run, embedders, tasks, trees, ensemble))
        if save_vectors:
            save_vectors.mkdir(parents=True, exist_ok=True)
            stem = run.resolve().name + file.removeprefix("results").removesuffix(".json")
            places = [save_vectors / f"{stem}{which}.npy" for which in ("", ".similarity")]
            encoders = [files.enter_context(saved(each, place)) for each, place in zip(encoders, places, strict=False)]
        each_task = evaluate_each(
            encoders[0],
            tasks,
            similarity=encoders[1] if another else None,
            protocol=protocol,
            transductive=transductive,
            widths=_members(run, embedder).widths if ensemble else (),
            similarity_widths=_members(run, similarity).widths if ensemble and another else (),
            progress=progress,
        )
        for results in each_task:
            # Save after each task, so that an interruption loses at most one.
            save_results(run, results | vectors, file)
            yield bool(results["tasks"])
    save_results(run, results_of(unavailable=unavailable, protocol=protocol) | vectors, file)


def score_with_bar(run: Path, tasks: Sequence[Task], unavailable: dict[str, str], console: Console, **how: Any) -> int:
    """Score a run with a bar; how many of the tasks now have a score.

    Args:
        run, tasks, unavailable: see ``score_run``.
        console: where the bar is.
        **how: further arguments of ``score_run``.
    """
    n_scored = done = 0
    with rate_bar(console, run.name, "tasks", percent=False, steady=False) as bar, one_warning():

        def show(stage: str) -> None:
            bar(done, len(tasks))
            bar.stage(stage)

        bar.stage("loading")
        for has_score in score_run(run, tasks, unavailable, progress=show, **how):
            n_scored += has_score
            done += 1
            bar(done, len(tasks), note="")
    return n_scored


def place_of(run: Path, scored: Scored, protocol: Protocol, ensemble: bool) -> tuple[dict[str, str], str]:
    """What results say of the vectors that ``score_run`` scores, and the file in the run's folder."""
    _, vectors, file = _place(Embedder.load(run), scored, protocol, ensemble)
    return vectors, file


def _place(own: Embedder, scored: Scored, protocol: Protocol, ensemble: bool) -> tuple[Embedder, dict[str, str], str]:
    """The embedder to score, and as ``place_of``."""
    embedder, description = scored.of(own)
    description += ", ensemble" * ensemble
    vectors, file = kept_as(own, embedder, description, scored.flags + " --ensemble" * ensemble, protocol)
    return scaled(embedder, protocol), vectors, file


def scaled(embedder: Embedder, protocol: Protocol) -> Embedder:
    """With vectors of the length that a protocol wants, which descriptions of the vectors do not repeat."""
    return embedder.with_representation(normalise=True) if protocol.normalise else embedder


def kept_as(
    own: Embedder, embedder: Embedder, description: str, flags: str, protocol: Protocol = SENTEVAL
) -> tuple[dict[str, str], str]:
    """What results say of the vectors that were scored, and the file that they are kept in.

    Args:
        own: the run as it is without flags.
        embedder: what was scored.
        description: of its vectors.
        flags: of the command line that chose them.
        protocol: the evaluation protocol.
    """
    differences = []
    if description != own.description:
        # A description is silent on fp32, which may be what sets the vectors apart.
        differences = [description, *(["fp32"] if embedder.encodes_in == "fp32" != own.encodes_in else [])]
    else:
        flags = ""
    if protocol != SENTEVAL:
        differences, flags = [*differences, protocol.name], f"{flags} --protocol {protocol.name}"
    return {"representation": description, "flags": flags}, results_name(*differences)


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


@contextmanager
def _encoders(
    run: Path, embedders: Sequence[Embedder], tasks: Sequence[Task], trees: TaskTrees | None, ensemble: bool
) -> Iterator[list[Encode]]:
    """Encoders of the tasks, and with two embedders of those for similarity; as many processes as pay encode ahead."""
    first = embedders[0]
    if ensemble or is_transductive(first) or isinstance(first, GivenVectors | WordBaseline):
        yield [_encoder(run, each, trees, ensemble) for each in embedders]
        return
    calls = [list(calls_to_come(part)) for part in by_encoder(tasks, len(embedders) > 1)]
    sentences = sum(len(call) for part in calls for call in part)
    with open_pool(first, processes_that_pay(first, sentences)) as pool:
        yield [_encoder_ahead(each, trees, pool, part) for each, part in zip(embedders, calls, strict=False)]


def _encoder(run: Path, embedder: Embedder, trees: TaskTrees | None, ensemble: bool) -> Encode:
    """An encoder that uses the given trees, if any; for an ensemble it concatenates the members' vectors."""
    encode: Callable[[Sequence[Sentence]], np.ndarray] = embedder.encode
    if ensemble:
        joined = _members(run, embedder)

        def encode(sentences: Sequence[Sentence]) -> np.ndarray:
            return np.concatenate(joined.encode_views(sentences), axis=1)

    find = _finder(embedder, trees)
    return lambda sentences: encode(find(sentences))


def _encoder_ahead(
    embedder: Embedder, trees: TaskTrees | None, pool: EncodingPool, calls: Sequence[list[Tokens]]
) -> Encode:
    """An encoder for these calls in this order; while a task is scored, other processes encode those to come."""
    vectors = zip(calls, pool.each(embedder, map(_finder(embedder, trees), calls)), strict=True)

    def encode(sentences: list[Tokens]) -> np.ndarray:
        foreseen, table = next(vectors, ([], np.empty((0, 0))))
        if sentences != foreseen:
            raise RuntimeError(
                f"encoded {len(foreseen)} sentences ahead, but not the {len(sentences)} that are asked for"
            )
        return table

    return encode


def _finder(embedder: Embedder, trees: TaskTrees | None) -> Callable[[list[Tokens]], Sequence[Sentence]]:
    """What the embedder is to encode for sentences: they themselves, or with the given trees, if it needs them."""
    return (lambda sentences: sentences) if trees is None or embedder.needs == {"tokens"} else trees.find
