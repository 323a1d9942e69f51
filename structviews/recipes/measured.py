"""What papers print of a model beside its scores: hours of training, and the distances of nearest sentences."""

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval.neighbours import nearest
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.recipes.reproduction import QUERIES, Reproduction
from structviews.runs.folder import read_log


def measured(job: Reproduction) -> dict[str, float]:
    """By measure of ``published.toml``, those that the recipe's paper prints of the trained run."""
    found = {"hours": hours(job)}
    if job.queries:
        found |= distances(job)
    return {name: value for name, value in found.items() if name in job.recipe.figures}


def hours(job: Reproduction) -> float:
    """Hours that the runs' steps took, by their logs: on one machine, one after another."""
    seconds = 0.0
    for folder, config in job.configs.items():
        optimisation, last = config.optimisation, 0
        for line in read_log(folder):
            if line["kind"] == "train":
                sentences = (line["step"] - last) * optimisation.batch_size * optimisation.accumulate
                seconds += sentences / line["sentences_per_second"]
                last = line["step"]
    return seconds / 3600


def distances(job: Reproduction) -> dict[str, float]:
    """Cosine distances x 100 of the nearest two sentences of SICK's test set to the queries of S table 2."""
    sick = next(task for task in job.tasks[0] if task.name == "SICK-R").splits["test"]
    sentences: list[Tokens] = list(dict.fromkeys((*job.queries, *sick.first, *sick.second)))
    embedder = Embedder.load(job.folder)
    trees = TaskTrees(job.trees).find(sentences, "SICK-R") if job.reads_trees else sentences
    vectors = embedder.encode(trees)
    rows = np.array([sentences.index(query) for query in job.queries])
    cosines = nearest(vectors[rows], vectors, 2, itself=rows).scores.tolist()
    return {
        f"neighbour {number} of '{start}'": 100 * (1 - cosine)
        for start, row in zip(QUERIES, cosines, strict=True)
        for number, cosine in enumerate(row, 1)
    }
