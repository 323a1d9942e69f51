"""A similarity task scored in the course of training: the curves of the papers."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from structviews.config import Parsed
from structviews.embedder import TrainedEmbedder
from structviews.errors import InputError
from structviews.evaluation.protocols import score_task
from structviews.evaluation.suite import TaskVectors
from structviews.evaluation.tasks import Task, Tokens, read_task
from structviews.evaluation.trees import TaskTrees

if TYPE_CHECKING:
    from structviews.training import Training


class Monitor:
    """The vectors of a model that is being trained, on a task whose sentences are parsed once, here.

    A component that the run's representation removes is fitted on the task's sentences, since the run
    stores its own only when it has been trained.

    Args:
        training: whose model, and whose settings name the task.

    Raises:
        InputError: if the task cannot be read, is none of similarity, or a sentence has no trees.
    """

    def __init__(self, training: "Training"):
        config = training.config
        self.task = read_similarity(config.eval_task, config.eval_data)
        self.model = training.model
        parsed = Parsed.of(training.corpus, training.vectors)
        embedder = TrainedEmbedder(config, parsed, training.model, training.vocabularies).for_similarity()
        removes = embedder.representation.remove_component
        self.embedder = embedder.represented(transductive=True) if removes else embedder
        tokens = self.task.sentences()
        trees = TaskTrees(config.eval_parsed).find(tokens, config.eval_task) if config.eval_parsed else tokens
        self.parsed = dict(zip(tokens, embedder.preparer.prepare(trees, embedder.needs), strict=True))
        self.model.train()

    def score(self) -> dict[str, float]:
        """Correlations of cosines with gold scores, means over the task's data sets, by the task's name."""
        self.model.eval()
        vectors = TaskVectors(self._encode, whole=self.embedder.representation.transductive).of(self.task)
        self.model.train()
        scores = score_task(self.task, vectors)["scores"]
        return {f"{self.task.name}.{kind}": scores[f"{kind} mean"] for kind in ("pearson", "spearman")}

    def _encode(self, sentences: list[Tokens]) -> np.ndarray:
        return self.embedder.encode([self.parsed[sentence] for sentence in sentences])


def read_similarity(name: str, folder: str) -> Task:
    """A task, which must be one of similarity."""
    task = read_task(name, Path(folder))
    if task.kind != "similarity":
        raise InputError(f"eval_task = {name}: scored with a classifier: give a similarity task, such as STS14")
    return task
