"""What the digests cost: loading the bundled model, opening and reading a large corpus, saving a training state.

    python scripts/bench.py seals --rows 1000000 --rounds 5

Each is timed with the checks and without them, in turn, in this process; the table has the medians in seconds and
their ratio. The corpus is that of `bench.py loader`; every listed shard is checked anew, as distinct ones would be. The
disk is not measured: all files are in the page cache.
"""

import argparse
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch
from torch import nn

from benchmarks.corpora import random_corpus
from benchmarks.measure import race, table
from structviews.corpus.format import read_shard
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.embedder import Embedder
from structviews.training.checkpoint import Progress, save_state

PARAMETERS = 20_000_000


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--rows", type=int, default=1_000_000, help="size of the corpus in sentences")
    parser.add_argument("--rounds", type=int, default=5)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds without and with checks, by job."""
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus = random_corpus(folder / "x.parsed", options.rows).path
        jobs: dict[str, Callable[[], object]] = {
            "load the bundled model": lambda: Embedder.load("default"),
            f"open a corpus of {options.rows:,} sentences": lambda: ParsedCorpus.open(corpus),
            "open it and read every shard": lambda: [table.num_rows for table in ParsedCorpus.open(corpus).tables()],
            f"save the state of {PARAMETERS:,} parameters": saving(folder),
        }
        for name, job in jobs.items():
            turns = {"without": lambda _, job=job: unchecked(job), "with": lambda _, job=job: job()}
            found[name] = {way: median(times) for way, times in race(turns, options.rounds).items()}
    return {"seconds": found}


def unchecked(job: Callable[[], object]) -> None:
    """Do something without any digest."""
    with ExitStack() as stack:
        for name, other in {
            "structviews.runtime.seals.digest": lambda *_: "0" * 32,
            "structviews.runtime.seals.check_data": lambda *_, **__: None,
            "structviews.corpus.parsed_corpus.whole_shard": lambda path, entry: read_shard(path),
        }.items():
            stack.enter_context(mock.patch(name, other))
        job()


def saving(folder: Path) -> Callable[[], object]:
    """Save a model of ``PARAMETERS`` and Adam's two moments."""
    model = nn.Linear(4000, PARAMETERS // 4000, bias=False)
    optimiser = torch.optim.Adam(model.parameters())
    model.weight.grad = torch.ones_like(model.weight)
    optimiser.step()
    return lambda: save_state(folder, model, optimiser, Progress(1))


def tables(found: dict[str, Any]) -> str:
    """Median seconds, and their ratio."""
    rows = [
        [name, each["without"], each["with"], each["with"] / each["without"]] for name, each in found["seconds"].items()
    ]
    return table(["", "without", "with", "ratio"], rows)
