"""Time of the evaluation's classifiers, without encoding, compared with scikit-learn fold by fold.

    python scripts/bench.py eval --senteval DIR --dim 2400 --threads 2      # MR, SUBJ, TREC, SICK-E, both ways
    python scripts/bench.py eval --senteval DIR --dim 300 --quick           # only TREC, two fits per strength
    python scripts/bench.py eval --suite --senteval DIR --dim 4800          # every transfer task, only ours
    python scripts/bench.py eval --suite --senteval DIR --dim 14336         # the most memory it takes

The vectors are pooled random word vectors.

Our time is that of all of ``score_task``. For scikit-learn, only ``FITS`` fits per strength are made, in float64,
each at the loosest tolerance of 1e-2, 1e-3, ... whose objective is at most 1e-4 (relative) above ours. Only that fit
is timed; the total is extrapolated from the mean. The search for the tolerance takes longer than the fit and is not
counted; it starts near the previous strength's tolerance. Once a fold has taken ``LIMIT`` seconds, its remaining
strengths, which are slower, count as its fastest.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.measure import peak_gigabytes, table
from structviews.evaluation.senteval.design import Design
from structviews.evaluation.senteval.logistic import fit_logistic
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.protocols.protocol import Vectors
from structviews.evaluation.senteval.task_scores import choices, score_task, task_features
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.evaluation.senteval.tasks.reading import Task, Tokens

RELATIVE, FITS, LIMIT = 1e-4, 3, 600
# scikit-learn's tolerances, as exponents of ten.
LOOSEST, TIGHTEST = 2, 12
RACED = "MR,SUBJ,TREC,SICK-E"
TRANSFER = "MR,CR,SUBJ,MPQA,SST2,SST5,TREC,MRPC,SICK-E,SICK-R,STS-B"


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--senteval", type=Path, required=True, help="folder with SentEval's tasks")
    parser.add_argument("--tasks", help=f"comma-separated; default {RACED}, or all with --suite")
    parser.add_argument("--dim", type=int, default=2400, help="dimension of a sentence's vector")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--suite", action="store_true", help="all transfer tasks, only ours")
    parser.add_argument("--quick", action="store_true", help="one task, fewer fits")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each task."""
    names = (options.tasks or ("TREC" if options.quick else TRANSFER if options.suite else RACED)).split(",")
    torch.set_num_threads(options.threads)
    tasks = []
    with threadpool_limits(options.threads):
        for name in names:
            tasks.append(race(name, options))
            print(f"{name}: {tasks[-1]['seconds']:.1f} s", file=sys.stderr, flush=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seconds = sum(task["seconds"] for task in tasks)
    about = {"dim": options.dim, "threads": options.threads, "seconds": seconds, "peak GB": peak_gigabytes(device)}
    return about | {"tasks": tasks}


def race(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Our time in seconds on a task's own sentences, and scikit-learn's unless the suite is timed."""
    task = read_task(name, options.senteval, allow_partial=options.quick)
    vectors = word_features(task, options.dim)
    began = time.perf_counter()
    result = score_task(task, vectors)
    found = {"task": name, "seconds": time.perf_counter() - began, "scores": result["scores"]}
    return found if options.suite else found | scikit_seconds(task, vectors, 2 if options.quick else FITS)


def scikit_seconds(task: Task, vectors: dict[str, Vectors], fits: int) -> dict[str, Any]:
    """scikit-learn's seconds for the whole task, extrapolated from a few fits per strength."""
    labels = np.concatenate([examples.targets for examples in task.splits.values()])
    planned = choices(task, SENTEVAL, labels)
    grid = SENTEVAL.grid(task)
    folds = [train for choice in planned for train, _ in choice.inner]
    tried = folds[:: -(-len(folds) // fits)]
    features = list(task_features(task, vectors).values())
    masks = np.zeros((len(tried), len(labels)), dtype=bool)
    for mask, fold in zip(masks, tried, strict=True):
        mask[fold] = True
    goals = fit_logistic(Design(features, masks.any(0)), labels, masks, grid).objectives
    everything = np.concatenate(features).astype(np.float64)
    made = [path_seconds(everything[fold], labels[fold], grid, row) for fold, row in zip(tried, goals, strict=True)]
    times = [path + [min(path)] * (len(grid) - len(path)) for path in made]

    def whole(seconds: np.ndarray) -> float:
        by_strength = seconds.mean(axis=0)
        # The tested fits have a strength each, taken here as the mean one.
        return float(len(folds) * by_strength.sum() + len(planned) * by_strength.mean())

    return {
        "scikit-learn seconds": whole(np.array(times)),
        "scikit-learn fits": len(folds) * len(grid) + len(planned),
        "scikit-learn fits made": sum(map(len, made)),
    }


def path_seconds(
    features: np.ndarray, labels: np.ndarray, strengths: Sequence[float], goals: Sequence[float]
) -> list[float]:
    """Time a fit per strength, at the loosest tolerance that reaches our objective, until the limit has passed."""
    times, needed, start = [], LOOSEST, time.perf_counter()
    for strength, goal in zip(strengths, goals, strict=True):
        if times and time.perf_counter() - start > LIMIT:
            break
        for digits in range(max(LOOSEST, needed - 1), TIGHTEST):
            began = time.perf_counter()
            _, objective = scikit_fit(features, labels, strength, 10.0**-digits)
            seconds = time.perf_counter() - began
            if objective <= goal * (1 + RELATIVE):
                needed = digits
                break
        else:
            raise RuntimeError(f"scikit-learn does not reach the objective {goal} at C={strength}, but {objective}")
        times.append(seconds)
    return times


def word_features(task: Task, dim: int) -> dict[str, Vectors]:
    """Vectors (n, dim) of a task's sentences: mean, maximum and minimum of random word vectors of 300 dimensions.

    Of more than 900 dimensions, the rest is ``max(0, .)`` of random projections of these.
    """
    vocabulary = sorted({word for sentence in task.sentences() for word in sentence})
    rng = np.random.default_rng(0)
    table = rng.standard_normal((len(vocabulary), 300), dtype=np.float32) / 10
    places = {word: row for row, word in enumerate(vocabulary)}
    pooled_dim = 3 * table.shape[1]
    projection = rng.standard_normal((pooled_dim, max(0, dim - pooled_dim)), dtype=np.float32) / np.float32(
        np.sqrt(pooled_dim)
    )

    def encode(sentences: tuple[Tokens, ...]) -> np.ndarray:
        if not sentences:
            return np.empty((0, dim), dtype=np.float32)
        found = [table[[places[word] for word in sentence]] for sentence in sentences]
        pooled = np.array([np.concatenate([x.mean(0), x.max(0), x.min(0)]) for x in found], dtype=np.float32)
        return np.concatenate([pooled[:, :dim], np.maximum(pooled @ projection, 0)], axis=1)

    return {split: (encode(examples.first), encode(examples.second)) for split, examples in task.splits.items()}


def scikit_fit(
    features: np.ndarray, labels: np.ndarray, strength: float, tolerance: float
) -> tuple[LogisticRegression, float]:
    """scikit-learn's fit of features (n, d), and its objective: log losses and ``|w|^2 / (2 C)``."""
    model = LogisticRegression(C=strength, tol=tolerance, max_iter=100_000).fit(features, labels)
    losses = -model.predict_log_proba(features)[np.arange(len(labels)), labels]
    return model, float(losses.sum() + (model.coef_**2).sum() / (2 * strength))


def tables(found: dict[str, Any]) -> str:
    """Seconds of ours, and of scikit-learn where it was measured."""
    rows = []
    for task in found["tasks"]:
        theirs = task.get("scikit-learn seconds")
        fits = f"{task['scikit-learn fits made']} of {task['scikit-learn fits']}" if theirs else "-"
        ratio = [f"{theirs:.0f}", f"{theirs / task['seconds']:.1f}"] if theirs else ["-", "-"]
        rows.append([task["task"], f"{task['seconds']:.1f}", *ratio, fits])
    shown = table(["task", "seconds", "scikit-learn", "times faster", "fits made"], rows)
    about = f"{found['dim']}-d, {found['threads']} threads"
    return f"{about}\n\n{shown}\n\nin all {found['seconds']:.0f} s; at most {found['peak GB']:.1f} GB"
