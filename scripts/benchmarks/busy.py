"""Rates beside other PyTorch programs that use all cores.

    python scripts/bench.py busy --beside 0 1 2 4 --json busy.json

Each program beside multiplies as a transformer does, with as many threads as there are cores. A fair share is the rate
alone over one more than their number; `share` is the rate as a multiple of it. `encode` and `parse` run in processes as
their commands do, `calls` and `single calls` are `Embedder.encode` of 1,024 sentences and of one, `serve` is the
server's queue with four requests of 32 sentences.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import table
from structviews import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.serving.request_batches import Batcher
from structviews.serving.served import ServedRun

TEXT = Path(__file__).resolve().parents[2] / "data/corpus.txt"
OTHER = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(384, 1536), torch.nn.GELU(), torch.nn.Linear(1536, 384))
inputs = torch.randn(2048, 384)
with torch.inference_mode():
    while True:
        model(inputs)
"""
WAYS = ("encode", "parse", "calls", "single calls", "serve")
SETTLE = 3.0  # seconds for the programs beside to begin


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--text", type=Path, default=TEXT, help="one sentence per line")
    parser.add_argument("--beside", nargs="+", type=int, default=[0, 1, 2, 4], help="numbers of programs; 0 first")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS, metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement, at least")
    parser.add_argument("--sentences", type=int, default=8192, help="of a turn of encode and parse")


@contextmanager
def beside(number: int) -> Iterator[None]:
    """Run so many other programs."""
    others = [subprocess.Popen([sys.executable, "-c", OTHER]) for _ in range(number)]
    try:
        time.sleep(SETTLE if number else 0)
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


@contextmanager
def turns(way: str, embedder: Embedder, lines: Sequence[str], many: int) -> Iterator[tuple[int, Callable[[], object]]]:
    """How many sentences a turn takes, and a function that takes it."""
    source, cores = cycle(lines), os.cpu_count() or 1
    with ExitStack() as stack:
        if way == "encode":
            pool = stack.enter_context(open_pool(embedder, cores))
            yield many, lambda: embedder.encode(islice(source, many), pool=pool)
        elif way == "parse":
            folder = Path(stack.enter_context(TemporaryDirectory()))
            text = folder / "text.txt"
            text.write_text("\n".join(islice(source, many)) + "\n", "utf-8")
            names = (folder / f"{number}.parsed" for number in range(10**6))
            how: dict[str, Any] = {"parser": "builtin", "layout": "lines", "tokenised": False, "max_tokens": 512}
            yield many, lambda: parse_corpus(open_source([str(text)], **how), next(names), workers=cores)
        elif way == "serve":
            queue, run = Batcher(), ServedRun("run", embedder)
            stack.callback(queue.close)
            requests = lambda: [queue.submit(run.encode, [*islice(source, 32)]) for _ in range(4)]  # noqa: E731
            yield 4 * 32, lambda: [request.result() for request in requests()]
        else:
            size = 1024 if way == "calls" else 1
            yield size, lambda: embedder.encode([*islice(source, size)])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """A row for each way and number of programs beside."""
    lines = [line for line in options.text.read_text("utf-8").splitlines() if line.strip()]
    embedder, rows, alone = Embedder.load("default"), [], {}
    for number in options.beside:
        for way in options.ways:
            with beside(number), turns(way, embedder, lines, options.sentences) as (size, turn):
                turn()
                done, start = 0, time.perf_counter()
                while time.perf_counter() - start < options.seconds:
                    turn()
                    done += size
                rate = done / (time.perf_counter() - start)
            fair = alone.setdefault(way, rate) / (number + 1)
            rows.append({"way": way, "beside": str(number), "sentences_per_second": rate, "share": rate / fair})
            print(f"{way} beside {number}: {rate:,.0f}/s", file=sys.stderr, flush=True)
    return {"rows": rows}


def tables(found: dict[str, Any]) -> str:
    """Rates and shares, a row for each way."""
    numbers = list(dict.fromkeys(row["beside"] for row in found["rows"]))
    cells: dict[str, list[str]] = {}
    for row in found["rows"]:
        cells.setdefault(row["way"], []).append(f"{row['sentences_per_second']:,.0f}, {row['share']:.2f}")
    body = table(["", *(f"beside {n}" for n in numbers)], [[way, *rest] for way, rest in cells.items()])
    return f"Sentences/s, and as a multiple of the fair share.\n\n{body}"
