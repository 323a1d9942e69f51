"""What the digests cost: loading the bundled model, opening and reading a large corpus, saving a training state.

    python scripts/bench_seals.py
    python scripts/bench_seals.py --rows 100000 --rounds 3

Each is timed with the checks and without them, in turn, in this process; the table has the medians in seconds and
their ratio. The corpus is that of bench_loader.py, whose manifest lists the same shards repeatedly; every listed
shard is checked anew, as distinct ones would be. The disk is not measured: all files are in the page cache.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from unittest import mock

import torch
from bench_loader import synthetic_corpus
from torch import nn

from structviews.corpus.format import read_shard
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.embedder import Embedder
from structviews.training.checkpoint import Progress, save_state

PARAMETERS = 20_000_000


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="size of the corpus in sentences")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus = synthetic_corpus(folder / "x.parsed", args.rows)
        jobs: dict[str, Callable[[], object]] = {
            "load the bundled model": lambda: Embedder.load("default"),
            f"open a corpus of {args.rows:,} sentences": lambda: ParsedCorpus.open(corpus),
            "open it and read every shard": lambda: [table.num_rows for table in ParsedCorpus.open(corpus).tables()],
            f"save the state of {PARAMETERS:,} parameters": saving(folder),
        }
        print(f"{'':45}{'without':>10}{'with':>10}{'ratio':>8}")
        for name, job in jobs.items():
            without, checked = compared(job, args.rounds)
            print(f"{name:45}{without:10.3f}{checked:10.3f}{checked / without:8.3f}", flush=True)


def compared(job: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median seconds without and with checks, one round of each in turn, after one to warm up."""
    job()
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for checks, found in times.items():
            with nullcontext() if checks else nothing_checked():
                began = time.perf_counter()
                job()
                found.append(time.perf_counter() - began)
    return median(times[False]), median(times[True])


@contextmanager
def nothing_checked() -> Iterator[None]:
    """Leave all digests out."""
    with (
        mock.patch("structviews.runtime.seals.digest", return_value="0" * 32),
        mock.patch("structviews.runtime.seals.check_data"),
        mock.patch("structviews.corpus.parsed_corpus.whole_shard", lambda path, entry: read_shard(path)),
    ):
        yield


def saving(folder: Path) -> Callable[[], object]:
    """Save a model of ``PARAMETERS`` and Adam's two moments."""
    model = nn.Linear(4000, PARAMETERS // 4000, bias=False)
    optimiser = torch.optim.Adam(model.parameters())
    model.weight.grad = torch.ones_like(model.weight)
    optimiser.step()
    return lambda: save_state(folder, model, optimiser, Progress(1))


if __name__ == "__main__":
    main()
