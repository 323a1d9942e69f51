"""How busy `structviews encode` keeps the cores: the stages of one process, and the waiting of several.

    python scripts/bench_pipeline.py big.txt
    python scripts/bench_pipeline.py big.txt --run runs/dep-const --processes 1,2,4 --json

First, the processor time of each stage, in microseconds a sentence, with one thread. Then the whole text with each
number of processes that share the threads: sentences/s, start included; and the share of the time in which this
process, and each of the others on average, waited. Those others take some seconds to start, so give a text that takes a
minute.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.measure import machine

from structviews.batches.batch import collate
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import LARGEST
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.encoding.streaming import Text, encode_text, open_text


def main() -> None:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="one sentence per line")
    parser.add_argument("--run", default="default", help="a trained run")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="shared by the processes")
    parser.add_argument("--processes", default="1,2", help="comma-separated")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    embedder = Embedder.load(args.run)
    if not isinstance(embedder, TrainedEmbedder):
        parser.error(f"--run {args.run}: give a trained run")
    found: dict[str, Any] = {"machine": machine(torch.device("cpu")), "threads": args.threads}
    with open_text(args.text) as text:
        torch.set_num_threads(1)
        found["stages"] = stages(embedder, text.lines(0, min(text.n, LARGEST)), args.batch_size)
        torch.set_num_threads(args.threads)
        found["pipeline"] = [waiting(embedder, text, int(each), args.batch_size) for each in args.processes.split(",")]
    print(json.dumps(found, indent=2) if args.json else tables(found))


def stages(embedder: TrainedEmbedder, lines: list[str], batch_size: int) -> dict[str, float]:
    """Microseconds of processor time a sentence, by stage."""
    embedder.encode(lines[:batch_size])
    words, tokenise = timed(lambda: embedder.preparer.prepare(lines, {"tokens"}, embedder.limit))
    parsed, parse = timed(lambda: embedder.prepare(words))
    parsed.sort(key=lambda each: len(each.tokens))
    starts = range(0, len(parsed), batch_size)
    how = embedder.vocabularies, embedder.needs, embedder.encodes_in
    _, batch = timed(lambda: [collate(parsed[start : start + batch_size], *how) for start in starts])
    _, encode = timed(lambda: embedder.encode(parsed, batch_size))
    found = {"repair, tokenise, check": tokenise, "parse": parse, "batch": batch, "encode": encode - batch}
    return {name: 1e6 * seconds / len(lines) for name, seconds in found.items()}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its processor time."""
    began = time.process_time()
    return call(), time.process_time() - began


def waiting(embedder: Embedder, text: Text, processes: int, batch_size: int) -> dict[str, float]:
    """Encode a text with so many processes."""
    began, before = time.perf_counter(), [processor_time(who) for who in WHO]
    with tempfile.TemporaryDirectory() as folder:
        encode_text(text, embedder, Path(folder) / "x.npy", batch_size=batch_size, processes=processes)
    seconds, after = time.perf_counter() - began, [processor_time(who) for who in WHO]
    own, others = (now - then for now, then in zip(after, before, strict=True))
    threads = max(1, torch.get_num_threads() // processes)
    return {
        "processes": processes,
        "sentences/s": text.n / seconds,
        "this one waits": 1 - own / (seconds * threads),
        "others wait": 1 - others / (seconds * threads * (processes - 1)) if processes > 1 else 0.0,
    }


WHO = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN


def processor_time(who: int) -> float:
    """Seconds of processor time of this process, or of those that it started and that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def tables(found: dict[str, Any]) -> str:
    """What was found, as Markdown."""
    total = sum(found["stages"].values())
    lines = [f"{found['machine']['processor']}, {found['threads']} threads", ""]
    lines += ["| stage | µs a sentence | share |", "|---|--:|--:|"]
    lines += [f"| {name} | {each:,.1f} | {each / total:.0%} |" for name, each in found["stages"].items()]
    lines += ["", f"| {' | '.join(found['pipeline'][0])} |", "|--:|--:|--:|--:|"]
    for each in found["pipeline"]:
        processes, rate, *waits = each.values()
        lines.append(f"| {processes} | {rate:,.0f} | {' | '.join(f'{wait:.0%}' for wait in waits)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
