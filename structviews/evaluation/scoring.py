"""A run through the tasks: which vectors are scored, where their trees are from, and where the scores go."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.protocols import SENTEVAL, Protocol
from structviews.evaluation.results import results_name, save_results
from structviews.evaluation.suite import Encode, evaluate_each, results_of
from structviews.evaluation.tasks import Task
from structviews.evaluation.trees import TaskTrees
from structviews.given import GivenVectors
from structviews.joined import JoinedEmbedder
from structviews.preparation import Sentence
from structviews.sentence_vectors import saved


@dataclass(frozen=True)
class Scored:
    """Which of a run's vectors are scored.

    Attributes:
        view: one of the run's views alone; all of them if empty.
        changes: of the run's representation, see ``Embedder.represented``.
        flags: of the command line that say the same.
    """

    view: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    flags: str = ""

    def of(self, own: Embedder) -> tuple[Embedder, str]:
        """What encodes, and which vectors these are, in a few words."""
        embedder = own.represented(**self.changes)
        if not self.view:
            return embedder, embedder.description
        return embedder.alone(self.view), f"{self.view} alone: {embedder.description}"


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
    """Score a run and keep the scores in its folder, task by task.

    Args:
        run: its folder.
        tasks: from ``read_tasks``.
        unavailable: those that could not be read, and why.
        scored: which vectors.
        protocol: by which they are.
        ensemble: of a joined run average the members' predictions, not their vectors.
        trees: of the tasks' sentences; without, the run's own parser makes them.
        save_vectors: folder for the vectors and their sentences, ``RUN.npy`` and ``RUN.txt``.
        progress: told each stage.

    Yields:
        For each task whether it has a score now.

    Raises:
        InputError: if the run cannot encode the sentences, or its vectors are none.
    """
    own = Embedder.load(run)
    embedder, description = scored.of(own)
    similarity = embedder.for_similarity()
    another = similarity.representation != embedder.representation
    if ensemble:
        description += ", ensemble"
    other = description != own.description
    by_another = protocol != SENTEVAL
    flags = (scored.flags if other else "") + " --ensemble" * ensemble + f" --protocol {protocol.name}" * by_another
    vectors = {"representation": description, "flags": flags}
    file = results_name(description if other else "", protocol.name if by_another else "")
    transductive = embedder.representation.transductive
    if save_vectors and transductive:
        raise InputError("--save-vectors: a transductive sentence has a vector for each task: leave out --transductive")
    _check(embedder, tasks, trees)
    with ExitStack() as files:
        encoders = [
            _encoder(run, each, trees, ensemble) for each in ([embedder, similarity] if another else [embedder])
        ]
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
            # Saved task by task, so that an interruption loses one.
            save_results(run, results | vectors, file)
            yield bool(results["tasks"])
    save_results(run, results_of(unavailable=unavailable, protocol=protocol) | vectors, file)


def _check(embedder: Embedder, tasks: Sequence[Task], trees: TaskTrees | None) -> None:
    """Raise InputError before anything is scored, if a sentence has no tree or no vector."""
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
        raise InputError(f"{run}: no members to make an ensemble of: join runs first, structviews join RUN RUN -o DIR")
    return embedder


def _encoder(run: Path, embedder: Embedder, trees: TaskTrees | None, ensemble: bool) -> Encode:
    """Vectors from a task's own trees if there are some; of an ensemble those of the members side by side."""
    encode: Callable[[Sequence[Sentence]], np.ndarray] = embedder.encode
    if ensemble:
        joined = _members(run, embedder)

        def encode(sentences: Sequence[Sentence]) -> np.ndarray:
            return np.concatenate(joined.encode_views(sentences), axis=1)

    if trees is None or embedder.needs == {"tokens"}:
        return encode
    return lambda sentences: encode(trees.find(sentences))
