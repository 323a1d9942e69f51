"""Check the evaluation against plain loops: scikit-learn fold by fold, and SentEval's relatedness model, five seeds.

    python scripts/check_eval.py --senteval DIR --dim 300                   # random word vectors
    python scripts/check_eval.py --senteval DIR --dim 300 --words FILE      # real ones

For each classification task, every fit of the protocol is repeated with scikit-learn's ``LogisticRegression`` at a
tight tolerance, in float64, with the same folds, grid and penalty. The output shows both accuracies, how many of the
chosen strengths agree and, where they do not, how much the two differ in scikit-learn's own inner score (0: equal). For
SICK-R, the scores of five seeds of a plain model are shown next to ours.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.evaluation import scikit_fit, word_features
from scipy.stats import pearsonr

from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL, senteval_order
from structviews.evaluation.senteval.protocols.protocol import Vectors
from structviews.evaluation.senteval.relatedness import (
    expected_class,
    fit_relatedness,
    soft_labels,
)
from structviews.evaluation.senteval.task_scores import choices, score_task, task_features
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.evaluation.senteval.tasks.reading import Task

SEEDS = range(1111, 1116)


def main() -> None:
    """Check, and print a line for each task or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--senteval", type=Path, required=True, help="folder with SentEval's tasks")
    parser.add_argument("--tasks", default="MR,SUBJ,TREC,SICK-E,SICK-R")
    parser.add_argument("--dim", type=int, default=300, help="dimension of a sentence's vector")
    parser.add_argument("--words", type=Path, help="a file of word vectors; random ones if not given")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="scikit-learn's tolerance")
    parser.add_argument("--outer", type=int, help="check only this many outer folds of a nested cross-validation")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for name in args.tasks.split(","):
        task = read_task(name, args.senteval)
        vectors = word_features(task, args.dim, args.words)
        began = time.perf_counter()
        if task.kind == "relatedness":
            found = check_relatedness(task, vectors)
        else:
            found = check_classification(task, vectors, args.tolerance, args.outer)
        found = {"task": name, **found, "seconds": round(time.perf_counter() - began)}
        print(json.dumps(found) if args.json else describe(found), flush=True)


def describe(found: dict[str, Any]) -> str:
    """A line of names and values."""
    return ", ".join(f"{name} {value}" for name, value in found.items())


def check_classification(
    task: Task, vectors: dict[str, Vectors], tolerance: float, outer: int | None
) -> dict[str, Any]:
    """Our and scikit-learn's accuracy and strengths, optionally only for the first outer folds."""
    labels = np.concatenate([examples.targets for examples in task.splits.values()])
    features = np.concatenate(list(task_features(task, vectors).values())).astype(np.float64)
    grid = SENTEVAL.grid(task)
    result = score_task(task, vectors)
    planned = choices(task, SENTEVAL, labels)[:outer]
    part = "all" if "all" in task.splits else "test"
    predicted = labels.copy()
    predicted[len(labels) - len(task.splits[part]) :] = result["predictions"][part]
    agree, gaps, ours, theirs, different, count = 0, [], [], [], 0, 0
    for choice, strength in zip(planned, result["strengths"], strict=False):
        inner = [
            np.mean([accuracy(features, labels, learnt, tested, c, tolerance) for learnt, tested in choice.inner])
            for c in grid
        ]
        rounded = np.round(100 * np.array(inner), 2)
        agree += grid[int(rounded.argmax())] == strength
        gaps.append(float(rounded.max() - rounded[grid.index(strength)]))
        model, _ = scikit_fit(features[choice.train], labels[choice.train], grid[int(rounded.argmax())], tolerance)
        plain = model.predict(features[choice.test])
        ours.append(np.mean(predicted[choice.test] == labels[choice.test]))
        theirs.append(np.mean(plain == labels[choice.test]))
        different += int(np.sum(plain != predicted[choice.test]))
        count += len(plain)
    return {
        "ours": round(100 * float(np.mean(ours)), 3),
        "scikit-learn": round(100 * float(np.mean(theirs)), 3),
        "strengths that agree": f"{agree}/{len(planned)}",
        "largest inner gap of the others": round(max(gaps), 3),
        "predictions that differ": f"{different}/{count}",
    }


def accuracy(
    features: np.ndarray, labels: np.ndarray, learnt: np.ndarray, tested: np.ndarray, strength: float, tolerance: float
) -> float:
    """scikit-learn's accuracy on some rows after training on others."""
    model, _ = scikit_fit(features[learnt], labels[learnt], strength, tolerance)
    return model.score(features[tested], labels[tested])


def check_relatedness(task: Task, vectors: dict[str, Vectors]) -> dict[str, Any]:
    """Test correlations of five seeds, ours and the plain model's."""
    features = task_features(task, vectors)
    scores = {split: examples.targets for split, examples in task.splits.items()}
    order = senteval_order(task.splits["train"])
    ours = [
        pearsonr(expected_class(fit_relatedness(features, scores, order, seed)[1]), scores["test"])[0] for seed in SEEDS
    ]
    theirs = [plain_relatedness(features, scores, order, seed) for seed in SEEDS]
    return {
        "ours": [round(100 * float(r), 2) for r in ours],
        "plain": [round(100 * float(r), 2) for r in theirs],
    }


def plain_relatedness(
    features: dict[str, np.ndarray], scores: dict[str, np.ndarray], order: np.ndarray, seed: int
) -> float:
    """SentEval's relatedness model as in its code, on the CPU: Pearson correlation on test."""
    torch.manual_seed(seed)
    rng = np.random.RandomState(seed)
    data = {split: torch.from_numpy(x) for split, x in features.items()}
    train, targets = data["train"][order], torch.from_numpy(soft_labels(scores["train"][order]))
    model = torch.nn.Sequential(torch.nn.Linear(train.shape[1], 5), torch.nn.Softmax(dim=-1))
    optimiser = torch.optim.Adam(model.parameters())
    loss = torch.nn.MSELoss()

    def predict(split: str) -> np.ndarray:
        with torch.no_grad():
            return model(data[split]).numpy().astype(np.float64) @ np.arange(1, 6)

    best, test, misses, epochs, stop = -1.0, np.empty(0), 0, 0, False
    while not stop and epochs <= 1000:
        for _ in range(50):
            permutation = rng.permutation(len(train))
            for i in range(0, len(train), 64):
                chosen = permutation[i : i + 64]
                optimiser.zero_grad()
                loss(model(train[chosen]), targets[chosen]).backward()
                optimiser.step()
        epochs += 50
        r = pearsonr(predict("dev"), scores["dev"])[0]
        if r > best:
            best, test = r, predict("test")
        else:
            stop = misses >= 3
            misses += 1
    return pearsonr(test, scores["test"])[0]


if __name__ == "__main__":
    main()
