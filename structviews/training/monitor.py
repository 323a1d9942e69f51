"""Scores a similarity task during training, for learning curves like the papers'."""

from functools import partial
from pathlib import Path

import numpy as np

from structviews.errors import InputError
from structviews.evaluation.senteval.suite import TaskEncoder, task_vectors
from structviews.evaluation.senteval.task_scores import score_task
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.runs.which_vectors import FITTED_ON
from structviews.training.trainer import Training


class Monitor:
    """Scores a model during training on one task, whose sentences are parsed once, at the start.

    If the run's representation removes a component, that is fitted on the task's sentences, since a run stores its own
    only at the end of training. Raises InputError if the task cannot be read, or is not a similarity task.
    """

    def __init__(self, training: Training) -> None:
        self.training = training
        monitoring = training.config.monitoring
        self.task = read_task(monitoring.eval_task, Path(monitoring.eval_data))
        if self.task.kind != "similarity":
            fault = f"eval_task = {monitoring.eval_task}: needs a classifier"
            raise InputError(f"{fault}: give a similarity task, such as STS14")
        with training.undisturbed():
            embedder = training.embedder().for_similarity()
            self.embedder = embedder.with_representation(transductive=embedder.representation.remove_component)
            tokens = self.task.sentences()
            parsed = monitoring.eval_parsed
            trees = TaskTrees(parsed).find(tokens, monitoring.eval_task) if parsed else tokens
            self.parsed = dict(zip(tokens, embedder.preparer.prepare(trees, embedder.needs), strict=True))
            training.model.train()

    def score(self) -> dict[str, float]:
        """Correlations of cosines with gold scores, averaged over the task's data sets, as ``TASK.KIND``."""

        def encode(sentences: list[Tokens]) -> np.ndarray:
            return self.embedder.encode([self.parsed[sentence] for sentence in sentences])

        fitted_on = FITTED_ON[0] if self.embedder.representation.transductive else ""
        encoder = TaskEncoder(partial(map, encode), fitted_on)
        with self.training.undisturbed():
            self.training.model.eval()
            (vectors,) = task_vectors(encoder, [self.task])
            self.training.model.train()
        scores = score_task(self.task, vectors)["scores"]
        return {f"{self.task.name}.{kind}": scores[f"{kind} mean"] for kind in ("pearson", "spearman")}
