"""Scores a similarity task during training, for learning curves like the papers'."""

from functools import partial
from pathlib import Path

import numpy as np

from structviews.encoding.further_words import read_further_words
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.errors import InputError
from structviews.evaluation.senteval.suite import TaskEncoder, task_vectors
from structviews.evaluation.senteval.task_scores import score_task
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.runs.which_vectors import GATED
from structviews.training.trainer import Training


class Monitor:
    """Scores a model during training on one task, whose sentences are parsed once, at the start.

    If the run's representation removes a component, that is fitted on the task's sentences, since a run
    stores its own only at the end of training. A gate is fitted later still: until then views are averaged.

    Args:
        training: its settings name the task and the representation. The fixed channel knows every word of its file.

    Raises:
        InputError: if the task cannot be read, is not a similarity task, or a sentence has no trees.
    """

    def __init__(self, training: Training) -> None:
        config = training.config
        self.task = read_similarity(config.monitoring.eval_task, config.monitoring.eval_data)
        self.model = training.model
        known = training.vocabularies
        if training.vectors:
            known = read_further_words(self.model, known, training.vectors)
        embedder = TrainedEmbedder(config, training.parsed, self.model, known, blueprint=training.blueprint)
        embedder = embedder.for_similarity()
        own = embedder.representation
        join = "average" if own.join == GATED else own.join
        self.embedder = embedder.with_representation(transductive=own.remove_component, join=join)
        tokens = self.task.sentences()
        trees = (
            TaskTrees(config.monitoring.eval_parsed).find(tokens, config.monitoring.eval_task)
            if config.monitoring.eval_parsed
            else tokens
        )
        self.parsed = dict(zip(tokens, embedder.preparer.prepare(trees, embedder.needs), strict=True))
        self.model.train()

    def score(self) -> dict[str, float]:
        """Correlations of cosines with gold scores, averaged over the task's data sets, as ``TASK.KIND``."""
        self.model.eval()
        encoder = TaskEncoder(partial(map, self._encode), self.embedder.representation.transductive)
        (vectors,) = task_vectors(encoder, [self.task])
        self.model.train()
        scores = score_task(self.task, vectors)["scores"]
        return {f"{self.task.name}.{kind}": scores[f"{kind} mean"] for kind in ("pearson", "spearman")}

    def _encode(self, sentences: list[Tokens]) -> np.ndarray:
        return self.embedder.encode([self.parsed[sentence] for sentence in sentences])


def read_similarity(name: str, folder: str) -> Task:
    """Read a similarity task.

    Raises:
        InputError: if the task is of another kind, or cannot be read.
    """
    task = read_task(name, Path(folder))
    if task.kind != "similarity":
        raise InputError(f"eval_task = {name}: needs a classifier: give a similarity task, such as STS14")
    return task
