"""How busy `structviews encode` keeps the cores: the stages of one process, and the waiting of several.

    python scripts/bench.py pipeline big.txt
    python scripts/bench.py pipeline big.txt --run runs/dep-const --processes 1,2,4

First, the processor time of each stage, in microseconds a sentence, with one thread. Then the whole text with each
number of processes that share the threads: sentences/s, start included; and the share of the time in which this
process, and each of the others on average, waited. Those others take some seconds to start, so give a text that takes a
minute.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import table
from structviews.encoding.embedder import Embedder
from structviews.encoding.streaming import Text, encode_text, open_text

# Lines whose stages are measured.
LINES = 4096


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("text", type=Path, help="one sentence per line")
    parser.add_argument("--run", default="default", help="a run")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="shared by the processes")
    parser.add_argument("--processes", default="1,2", help="comma-separated")
    parser.add_argument("--batch-size", type=int, default=256)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The stages, and the waiting."""
    embedder = Embedder.load(options.run)
    with open_text(options.text) as text:
        torch.set_num_threads(1)
        found: dict[str, Any] = {"stages": stages(embedder, text.lines(0, min(text.n, LINES)), options.batch_size)}
        torch.set_num_threads(options.threads)
        found["pipeline"] = [waiting(embedder, text, int(n), options.batch_size) for n in options.processes.split(",")]
    return found


def stages(embedder: Embedder, lines: list[str], batch_size: int) -> dict[str, float]:
    """Microseconds of processor time a sentence, by stage."""
    embedder.encode(lines[:batch_size])
    words, tokenise = timed(lambda: embedder.preparer.prepare(lines, {"tokens"}, embedder.limit))
    parsed, parse = timed(lambda: embedder.prepare(words))
    _, encode = timed(lambda: embedder.encode(parsed, batch_size))
    found = {"repair, tokenise, check": tokenise, "parse": parse, "batch, encode": encode}
    return {name: 1e6 * seconds / len(lines) for name, seconds in found.items()}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its processor time."""
    began = time.process_time()
    return call(), time.process_time() - began


def waiting(embedder: Embedder, text: Text, processes: int, batch_size: int) -> dict[str, float]:
    """Encode a text with so many processes."""
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    began, before = time.perf_counter(), [processor_time(which) for which in whose]
    with tempfile.TemporaryDirectory() as folder:
        encode_text(text, embedder, Path(folder) / "x.npy", batch_size=batch_size, processes=processes)
    seconds, after = time.perf_counter() - began, [processor_time(which) for which in whose]
    own, others = (now - then for now, then in zip(after, before, strict=True))
    threads = max(1, torch.get_num_threads() // processes)
    return {
        "processes": processes,
        "sentences/s": text.n / seconds,
        "this one waits": 1 - own / (seconds * threads),
        "others wait": 1 - others / (seconds * threads * (processes - 1)) if processes > 1 else 0.0,
    }


def processor_time(whose: int) -> float:
    """Seconds of processor time of this process, or of those that it started and that have ended."""
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def tables(found: dict[str, Any]) -> str:
    """What was found, as Markdown."""
    total = sum(found["stages"].values())
    stages = table(
        ["stage", "µs a sentence", "share"],
        [[name, each, f"{each / total:.0%}"] for name, each in found["stages"].items()],
    )
    shown = [[n, rate, *(f"{wait:.0%}" for wait in waits)] for n, rate, *waits in map(dict.values, found["pipeline"])]
    return f"{stages}\n\n{table(found['pipeline'][0], shown)}"
