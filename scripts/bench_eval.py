"""Time of the evaluation's classifiers, without encoding, compared with scikit-learn fold by fold.

    python scripts/bench_eval.py --senteval DIR --dim 2400 --threads 2      # MR, SUBJ, TREC, SICK-E, both ways
    python scripts/bench_eval.py --senteval DIR --dim 300 --quick           # only TREC, two fits per strength
    python scripts/bench_eval.py --suite --senteval DIR --dim 4800          # every transfer task, only ours
    python scripts/bench_eval.py --suite --senteval DIR --dim 14336         # the most memory it takes

The vectors are those of ``benchmarks.evaluation``: pooled word vectors, random ones unless ``--words`` names a file. In
the suite, tasks that are incomplete in the folder get random vectors, in the published number.
Our time is that of all of ``score_task``. For scikit-learn, only ``--fits`` fits per strength are made, in float64,
each at the loosest tolerance of 1e-2, 1e-3, ... whose objective is at most 1e-4 (relative) above ours. Only that fit
is timed; the total is extrapolated from the mean, as the output notes. The search for the tolerance takes longer than
the fit and is not counted; it starts near the previous strength's tolerance. Once a fold has taken ``--limit`` seconds,
its remaining strengths, which are slower, count as its fastest. scikit-learn's defaults (tolerance 1e-4, at most 100
steps) are also timed; they may end far from the minimum, and the output shows how far.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.evaluation import SIZES, random_task, scikit_fit, word_features
from benchmarks.measure import machine, peak_gigabytes
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from structviews.errors import InputError
from structviews.evaluation.senteval.design import Design
from structviews.evaluation.senteval.logistic import fit_logistic
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL
from structviews.evaluation.senteval.protocols.protocol import Vectors
from structviews.evaluation.senteval.task_scores import choices, score_task, task_features
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.evaluation.senteval.tasks.reading import Task

RELATIVE = 1e-4
# scikit-learn's tolerances, as exponents of ten.
LOOSEST, TIGHTEST = 2, 12
RACED = "MR,SUBJ,TREC,SICK-E"


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--senteval", type=Path, help="folder with SentEval's tasks")
    parser.add_argument("--tasks", help=f"comma-separated; default {RACED}, or all with --suite")
    parser.add_argument("--dim", type=int, default=2400, help="dimension of a sentence's vector")
    parser.add_argument("--words", type=Path, help="a file of word vectors")
    parser.add_argument("--fits", type=int, default=3, help="scikit-learn fits per strength")
    parser.add_argument("--limit", type=float, default=600, help="seconds for scikit-learn per fold")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--suite", action="store_true", help="all tasks, in their published sizes")
    parser.add_argument("--quick", action="store_true", help="one task, fewer fits")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.suite and not args.senteval:
        parser.error("give --senteval DIR, or --suite")
    names = (args.tasks or ("TREC" if args.quick else ",".join(SIZES) if args.suite else RACED)).split(",")
    torch.set_num_threads(args.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with threadpool_limits(args.threads):
        tasks = [told(suite_task(name, args) if args.suite else race(name, args)) for name in names]
    found = {
        "dim": args.dim,
        "threads": args.threads,
        "seconds": sum(task["seconds"] for task in tasks),
        "peak GB": peak_gigabytes(device),
        "tasks": tasks,
        "machine": machine(device),
    }
    print(json.dumps(found, indent=1) if args.json else describe(found))


def told(task: dict[str, Any]) -> dict[str, Any]:
    """Print a task's time as soon as it is known."""
    theirs = f", scikit-learn {task['scikit-learn seconds']:.0f} s" if "scikit-learn seconds" in task else ""
    print(f"{task['task']}: {task['seconds']:.1f} s{theirs}", file=sys.stderr, flush=True)
    return task


def suite_task(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Time only our classifiers."""
    try:
        task = read_task(name, args.senteval)
        vectors = word_features(task, args.dim, args.words)
    except InputError:
        task, vectors = random_task(name, args.dim)
    return {"task": name, **scored(task, vectors)}


def scored(task: Task, vectors: dict[str, Vectors]) -> dict[str, Any]:
    """Our time in seconds, and the scores."""
    began = time.perf_counter()
    result = score_task(task, vectors)
    return {"seconds": time.perf_counter() - began, "scores": result["scores"]}


def race(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Ours and scikit-learn's on a task's own sentences."""
    task = read_task(name, args.senteval)
    vectors = word_features(task, args.dim, args.words)
    return {
        "task": name,
        **scored(task, vectors),
        **scikit_seconds(task, vectors, 2 if args.quick else args.fits, args.limit),
    }


def scikit_seconds(task: Task, vectors: dict[str, Vectors], fits: int, limit: float) -> dict[str, Any]:
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
    made = [
        path_seconds(everything[fold], labels[fold], grid, row, limit) for fold, row in zip(tried, goals, strict=True)
    ]
    times = [path + [min(path)] * (len(grid) - len(path)) for path in made]
    defaults = np.array(
        [
            [
                default_fit(everything[fold], labels[fold], strength, goal)
                for strength, goal in zip(grid, row, strict=True)
            ]
            for fold, row in zip(tried, goals, strict=True)
        ]
    )

    def whole(seconds: np.ndarray) -> float:
        by_strength = seconds.mean(axis=0)
        # The tested fits have a strength each, taken here as the mean one.
        return float(len(folds) * by_strength.sum() + len(planned) * by_strength.mean())

    return {
        "scikit-learn seconds": whole(np.array(times)),
        "scikit-learn seconds, defaults": whole(defaults[..., 0]),
        "objective above ours, defaults, at most": float(defaults[..., 1].max()),
        "scikit-learn fits": len(folds) * len(grid) + len(planned),
        "scikit-learn fits made": sum(map(len, made)),
        "scikit-learn seconds by strength": np.mean(times, axis=0).tolist(),
    }


def path_seconds(
    features: np.ndarray, labels: np.ndarray, strengths: Sequence[float], goals: Sequence[float], limit: float
) -> list[float]:
    """Time a fit per strength, at the loosest tolerance that reaches our objective, until the limit has passed."""
    times, needed, start = [], LOOSEST, time.perf_counter()
    for strength, goal in zip(strengths, goals, strict=True):
        if times and time.perf_counter() - start > limit:
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


def default_fit(features: np.ndarray, labels: np.ndarray, strength: float, goal: float) -> tuple[float, float]:
    """Seconds of a fit with scikit-learn's defaults, and the relative excess of its objective over ours."""
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        _, objective = scikit_fit(features, labels, strength, 1e-4, 100)
    return time.perf_counter() - began, objective / goal - 1


def describe(found: dict[str, Any]) -> str:
    """A Markdown table."""
    machine = found["machine"]
    lines = [
        f"{found['dim']}-d, {found['threads']} threads, {machine['processor']}, load {machine['load']:.1f}",
        "",
        "| task | seconds | scikit-learn | times faster | fits made | its defaults | times faster | objective above |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for task in found["tasks"]:
        theirs = task.get("scikit-learn seconds")
        rest = "- | - | - | - | - | -"
        if theirs:
            default = task["scikit-learn seconds, defaults"]
            rest = (
                f"{theirs:.0f} | {theirs / task['seconds']:.1f} | "
                f"{task['scikit-learn fits made']} of {task['scikit-learn fits']} | {default:.0f} | "
                f"{default / task['seconds']:.1f} | {100 * task['objective above ours, defaults, at most']:.1f} %"
            )
        lines.append(f"| {task['task']} | {task['seconds']:.1f} | {rest} |")
    return "\n".join([*lines, "", f"in all {found['seconds']:.0f} s; at most {found['peak GB']:.1f} GB"])


if __name__ == "__main__":
    main()
