"""Speed and memory of the loader, over an epoch of a large corpus.

    python scripts/bench_loader.py --rows 10000000
    python scripts/bench_loader.py --compress zstd
    python scripts/bench_loader.py --corpus my.parsed --json

Without --corpus, it uses a synthetic one: documents of 20 sentences with 20 words on average, random trees
and a vocabulary as large as that of English text. 16,000 sentences are written once, and the manifest lists them
repeatedly until the requested size is reached. Every listed shard is mapped and decoded anew, as distinct
shards would be, so only the disk is not measured. Batches are made as in training: shuffled, in
a background thread. Rates are sentences per second of processor time and of wall time. Memory is
anonymous memory (RssAnon, Linux), as the system can evict pages of mapped files.
"""

import argparse
import json
import random
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from structviews.batches.order import epoch_batches, held_out, n_batches
from structviews.batches.reader import CorpusReader, prefetch
from structviews.corpus.format import MANIFEST, Form, Row, new_job
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.writer import write_manifest, write_shard
from structviews.runtime.documents import write_json
from structviews.words.vocabulary import Vocabulary

SHARDS, SHARD_ROWS, DOCUMENT = 16, 1000, 20
MEAN_LENGTH, WORD_TYPES, ZIPF = 20, 200_000, 1.15
SAMPLES = 20


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="size of the synthetic corpus in sentences")
    parser.add_argument("--corpus", type=Path, help="a parsed corpus to measure instead")
    parser.add_argument("--compress", choices=["zstd"], help="compress the synthetic corpus")
    parser.add_argument("--batch-size", type=int, default=400)
    parser.add_argument("--vocabulary", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.corpus or synthetic_corpus(Path(folder) / "synthetic.parsed", args.rows, args.compress)
        results = measure(ParsedCorpus.open(path), args.batch_size, args.vocabulary)
    print(json.dumps(results, indent=1) if args.json else describe(results))


def measure(corpus: ParsedCorpus, batch_size: int = 400, vocabulary: int = 50_000) -> dict[str, Any]:
    """Read an epoch with both kinds of tree: rates, and anonymous memory in MB during the epoch."""
    words = Vocabulary.of_corpus(corpus, vocabulary)
    reader = CorpusReader(corpus, {"trained": words}, ["dependency", "constituency"])
    rows = np.flatnonzero(~held_out(reader.documents(), 1, 0.05)).astype(np.int32)
    n = n_batches(len(rows), batch_size, 1, 0)
    memory, sentences = [], 0
    wall, cpu = time.perf_counter(), time.process_time()
    for number, batch in enumerate(prefetch(reader.batch(part) for part in epoch_batches(rows, batch_size, 1, 0))):
        sentences += len(batch)
        if number % max(1, n // SAMPLES) == 0:
            memory.append(anonymous_megabytes())
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    memory.append(anonymous_megabytes())
    return {
        "sentences": sentences,
        "shards": corpus.n_shards,
        "batches": n,
        "sentences_per_cpu_second": sentences / cpu,
        "sentences_per_second": sentences / wall,
        "rss_anon_mb": {"start": memory[0], "middle": memory[len(memory) // 2], "end": memory[-1], "most": max(memory)},
    }


def describe(results: dict[str, Any]) -> str:
    """The results in two lines."""
    memory = ", ".join(f"{when} {size:.1f}" for when, size in results["rss_anon_mb"].items())
    return (
        f"{results['sentences']:,} sentences, {results['shards']:,} shards, {results['batches']:,} batches: "
        f"{results['sentences_per_cpu_second']:,.0f} sentences/s of processor time, "
        f"{results['sentences_per_second']:,.0f} of wall time\nRssAnon in MB: {memory}"
    )


def anonymous_megabytes() -> float:
    """This process' anonymous memory; NaN if the system does not report it."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return float("nan")
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def synthetic_corpus(folder: Path, rows: int, compression: str | None = None, seed: int = 0) -> Path:
    """A parsed corpus of at least ``rows`` sentences, whose manifest lists the same few shards repeatedly."""
    folder.mkdir(parents=True)
    rng = random.Random(seed)
    frequencies = list(accumulate(rank**-ZIPF for rank in range(1, WORD_TYPES + 1)))
    entries = []
    for number in range(SHARDS):
        first = number * SHARD_ROWS
        shard = [
            Row((first + i) // DOCUMENT, (first + i) % DOCUMENT, first + i + 1, random_sentence(rng, frequencies))
            for i in range(SHARD_ROWS)
        ]
        entries.append(write_shard(folder, number, shard, [], Form(compression=compression)))
    job = new_job(
        parser={"name": "random", "version": "1", "settings": {}, "model": ""},
        tokeniser={"name": "random"},
        settings={},
        sources=[],
    )
    write_manifest(folder, entries, job)
    repeat(folder, -(-rows // (SHARDS * SHARD_ROWS)))
    return folder


def repeat(folder: Path, times: int) -> None:
    """Make the manifest list each shard of the corpus several times."""
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    manifest |= {name: times * manifest[name] for name in ("documents", "sentences", "tokens", "shards")}
    write_json(folder / MANIFEST, manifest)


def random_sentence(rng: random.Random, frequencies: list[float]) -> ParsedSentence:
    """A sentence of random words with a random binary tree; each head comes from the left or right part."""
    n = 1 + min(int(rng.gammavariate(2.5, (MEAN_LENGTH - 1) / 2.5)), 99)
    heads, left, right = [0] * n, [], []

    def build(start: int, end: int) -> tuple[int, int]:
        """The node over a span of words, and its head word."""
        if end - start == 1:
            return start, start
        cut = rng.randint(start + 1, end - 1)
        parts = [build(start, cut), build(cut, end)]
        left.append(parts[0][0])
        right.append(parts[1][0])
        rng.shuffle(parts)
        (_, head), (_, other) = parts
        heads[other] = head + 1
        return n + len(left) - 1, head

    build(0, n)
    words = rng.choices(range(WORD_TYPES), cum_weights=frequencies, k=n)
    return ParsedSentence(
        tokens=tuple(f"word{word}" for word in words),
        heads=tuple(heads),
        relations=("dep",) * n,
        left=tuple(left),
        right=tuple(right),
        labels=("X",) * (2 * n - 1),
    )


if __name__ == "__main__":
    main()
