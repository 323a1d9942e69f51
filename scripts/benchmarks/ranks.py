"""Speed of training with several ranks, compared with one process on the same cores.

    python scripts/bench.py ranks --corpus my.parsed --ranks 2 --rounds 3

Three configurations take turns on the same batches: one process with one thread, one process with as many threads
as ranks, and ranks with one thread each, started by torchrun. A rate is sentences per second of wall time, over all
ranks, after a few warm-up steps. The table shows medians over the rounds, and the ratios of the ranks' rate to the
other two. On a machine with GPUs, each rank has one, and the configuration with several threads is left out.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import islice
from statistics import median
from typing import Any

import torch

from benchmarks.measure import table
from structviews.batches.reader import prefetch
from structviews.runs.config import TrainConfig
from structviews.training.checkpoint import Progress
from structviews.training.ranks import Ranks, joined_ranks
from structviews.training.trainer import Training

WARM_UP = 3


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--corpus", required=True, help="a parsed corpus")
    parser.add_argument("--views", default="dep,const")
    parser.add_argument("--hidden", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=400, help="sentences per batch of each rank")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--gather-negatives", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)


def measure(options: argparse.Namespace) -> dict[str, Any] | None:
    """Rates by configuration, one per round; in a process that this starts, print one rate."""
    if options.one:
        with joined_ranks() as ranks:
            rate = sentences_a_second(options, ranks)
        if ranks.leads:
            print(json.dumps({"rate": rate}))
        return None
    alone, together = [sys.executable], [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    together += ["--nproc-per-node", str(options.ranks)]
    ways = {"1 process, 1 thread": (alone, 1), f"{options.ranks} ranks, 1 thread each": (together, 1)}
    if not torch.cuda.is_available():
        ways[f"1 process, {options.ranks} threads"] = (alone, options.ranks)
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, (starter, threads) in ways.items():
            environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
            command = [*starter, *sys.argv, "--one"]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if ended.returncode:
                sys.exit(ended.stderr)
            rates[way].append(json.loads(ended.stdout.splitlines()[-1])["rate"])
    return {"rates": rates}


def sentences_a_second(options: argparse.Namespace, ranks: Ranks) -> float:
    """Sentences per second of all ranks together."""
    config = TrainConfig.of(
        corpus=options.corpus,
        views=tuple(options.views.split(",")),
        hidden=options.hidden,
        batch_size=options.batch_size,
        precision=options.precision,
        gather_negatives=options.gather_negatives,
        epochs=1000,
        out="unused",
    )
    training, sentences, began = Training(config, ranks), 0, 0.0
    for number, step in enumerate(islice(prefetch(training.steps(Progress())), WARM_UP + options.steps)):
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


def tables(found: dict[str, Any]) -> str:
    """Medians and ratios."""
    medians = {way: median(each) for way, each in found["rates"].items()}
    of_ranks = next(rate for way, rate in medians.items() if "ranks" in way)
    rows = [[way, f"{rate:,.0f}", f"{of_ranks / rate:.2f}"] for way, rate in medians.items()]
    return table(["", "sentences/s", "the ranks' rate over it"], rows)
