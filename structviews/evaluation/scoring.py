"""A run through the tasks: which vectors are scored, where their trees are from, and where the scores go."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.results import RESULTS, results_name, save_results
from structviews.evaluation.suite import Encode, evaluate_each, results_of
from structviews.evaluation.tasks import Task, Tokens
from structviews.evaluation.trees import TaskTrees
from structviews.given import GivenVectors
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
    vectors = {"representation": description, "flags": "" if description == own.description else scored.flags}
    file = RESULTS if description == own.description else results_name(description)
    transductive = embedder.representation.transductive
    if save_vectors and transductive:
        raise InputError("--save-vectors: a transductive sentence has a vector for each task: leave out --transductive")
    _check(embedder, tasks, trees)
    with ExitStack() as files:
        encoders = [_encoder(each, trees) for each in ([embedder, similarity] if another else [embedder])]
        if save_vectors:
            save_vectors.mkdir(parents=True, exist_ok=True)
            stem = run.resolve().name + file.removeprefix("results").removesuffix(".json")
            places = [save_vectors / f"{stem}{which}.npy" for which in ("", ".similarity")]
            encoders = [files.enter_context(saved(each, place)) for each, place in zip(encoders, places, strict=False)]
        each_task = evaluate_each(
            encoders[0],
            tasks,
            similarity=encoders[1] if another else None,
            transductive=transductive,
            progress=progress,
        )
        for results in each_task:
            # Saved task by task, so that an interruption loses one.
            save_results(run, results | vectors, file)
            yield bool(results["tasks"])
    save_results(run, results_of(unavailable=unavailable) | vectors, file)


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


def _encoder(embedder: Embedder, trees: TaskTrees | None) -> Encode:
    if trees is None or embedder.needs == {"tokens"}:
        return embedder.encode

    def encode(sentences: list[Tokens]) -> np.ndarray:
        return embedder.encode(trees.find(sentences))

    return encode
