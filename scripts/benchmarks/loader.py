"""Speed and memory of the loader, over an epoch of a large corpus.

    python scripts/bench.py loader --rows 10000000
    python scripts/bench.py loader --corpus my.parsed --json loader.json

Without --corpus, it is a corpus of random trees, shaped like English ones, whose manifest lists the same shards
repeatedly until the size is reached. Batches are made as in training: shuffled, in a background thread. Rates are
sentences per second of processor time and of wall time. Memory is anonymous memory (RssAnon, Linux), as the system can
evict pages of mapped files.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import random_corpus
from benchmarks.measure import megabytes
from structviews.batches.reader import CorpusReader, epoch_batches, held_out, n_batches, prefetch
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.words.vocabulary import Vocabulary

SAMPLES, VOCABULARY = 20, 50_000


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--rows", type=int, default=100_000, help="size of the random corpus in sentences")
    parser.add_argument("--corpus", type=Path, help="a parsed corpus to measure instead")
    parser.add_argument("--batch-size", type=int, default=400)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Read an epoch with both kinds of tree: rates, and anonymous memory in MB during the epoch."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = ParsedCorpus.open(options.corpus) if options.corpus else random_corpus(Path(folder), options.rows)
        words = Vocabulary.of_corpus(corpus, VOCABULARY)
        reader = CorpusReader(corpus, {"trained": words}, ["dependency", "constituency"])
        rows = np.flatnonzero(~held_out(reader.documents(), 1, 0.05)).astype(np.int32)
        n = n_batches(len(rows), options.batch_size, 1, 0)
        memory, sentences = [], 0
        wall, cpu = time.perf_counter(), time.process_time()
        batches = prefetch(reader.batch(some) for some in epoch_batches(rows, options.batch_size, 1, 0))
        for number, batch in enumerate(batches):
            sentences += len(batch)
            if number % max(1, n // SAMPLES) == 0:
                memory.append(megabytes("RssAnon"))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    memory.append(megabytes("RssAnon"))
    return {
        "sentences": sentences,
        "shards": corpus.n_shards,
        "batches": n,
        "sentences_per_cpu_second": sentences / cpu,
        "sentences_per_second": sentences / wall,
        "rss_anon_mb": {"start": memory[0], "middle": memory[len(memory) // 2], "end": memory[-1], "most": max(memory)},
    }


def tables(found: dict[str, Any]) -> str:
    """The results in two lines."""
    memory = ", ".join(f"{when} {size:.1f}" for when, size in found["rss_anon_mb"].items())
    return (
        f"{found['sentences']:,} sentences, {found['shards']:,} shards, {found['batches']:,} batches: "
        f"{found['sentences_per_cpu_second']:,.0f} sentences/s of processor time, "
        f"{found['sentences_per_second']:,.0f} of wall time\nRssAnon in MB: {memory}"
    )
