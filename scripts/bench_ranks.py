"""Speed of training with several ranks, compared with one process on the same cores.

    python scripts/bench_ranks.py --corpus my.parsed --ranks 2 --rounds 3

Three configurations take turns on the same batches: one process with one thread, one process with as many threads
as ranks, and ranks with one thread each, started by torchrun. A rate is sentences per second of wall time, over all
ranks, after a few warm-up steps. The table shows medians over the rounds, and the ratios of the ranks' rate to the
other two. On a machine with GPUs, each rank has one, and the configuration with several threads is left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import torch

from structviews.batches.reader import prefetch
from structviews.runs.config import TrainConfig
from structviews.training.checkpoint import Progress
from structviews.training.ranks import joined_ranks
from structviews.training.trainer import Training

WARM_UP = 3


def main() -> None:
    """Measure, and print a table or JSON; in a process started by ``measure``, print one rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="a parsed corpus")
    parser.add_argument("--views", default="dep,const")
    parser.add_argument("--hidden", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=400, help="sentences per batch of each rank")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--gather-negatives", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        with joined_ranks() as ranks:
            rate = steps_a_second(args, ranks)
        if ranks.leads:
            print(json.dumps({"rate": rate}))
        return
    rates = measure(args)
    print(json.dumps(rates, indent=1) if args.json else describe(rates))


def steps_a_second(args: argparse.Namespace, ranks) -> float:
    """Sentences per second of all ranks together."""
    config = TrainConfig.of(
        corpus=args.corpus,
        views=tuple(args.views.split(",")),
        hidden=args.hidden,
        batch_size=args.batch_size,
        precision=args.precision,
        gather_negatives=args.gather_negatives,
        epochs=1000,
        out="unused",
    )
    training, sentences, began = Training(config, ranks), 0, 0.0
    for number, step in enumerate(islice(prefetch(training.steps(Progress())), WARM_UP + args.steps)):
        agreed = training.agree(step, 0)
        training.step(*step.batches, words=agreed.words)
        if number + 1 == WARM_UP:
            finished(training)
            sentences, began = 0, time.perf_counter()
        else:
            sentences += agreed.sentences
    finished(training)
    return sentences / (time.perf_counter() - began)


def finished(training: Training) -> None:
    """Wait for the device."""
    if training.device.type == "cuda":
        torch.cuda.synchronize()


def measure(args: argparse.Namespace) -> dict[str, list[float]]:
    """Rates by configuration, one per round."""
    alone, together = [sys.executable], [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    together += ["--nproc-per-node", str(args.ranks)]
    ways = {"1 process, 1 thread": (alone, 1), f"{args.ranks} ranks, 1 thread each": (together, 1)}
    if not torch.cuda.is_available():
        ways[f"1 process, {args.ranks} threads"] = (alone, args.ranks)
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(args.rounds):
        for way, (starter, threads) in ways.items():
            command = [*starter, str(Path(__file__).resolve()), *sys.argv[1:], "--one"]
            environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if ended.returncode:
                sys.exit(ended.stderr)
            rates[way].append(json.loads(ended.stdout.splitlines()[-1])["rate"])
    return rates


def describe(rates: dict[str, list[float]]) -> str:
    """A Markdown table."""
    medians = {way: statistics.median(each) for way, each in rates.items()}
    of_ranks = next(rate for way, rate in medians.items() if "ranks" in way)
    lines = ["| | sentences/s | the ranks' rate over it |", "|---|--:|--:|"]
    lines += [f"| {way} | {rate:,.0f} | {of_ranks / rate:.2f} |" for way, rate in medians.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
