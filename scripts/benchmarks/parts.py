"""The parts of the benchmark; each returns rows of named results."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import bench_loader
import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import corpora
from benchmarks.contenders import (
    ENCODERS,
    N_FEW,
    WAYS,
    Batches,
    Contender,
    Encoder,
    Step,
    ways,
)
from benchmarks.measure import (
    LEAST_ROUNDS,
    Run,
    median_ratio,
    peak_gigabytes,
    product,
    race,
)
from structviews.batches.batch import Batch
from structviews.batches.reader import CorpusReader, prefetch
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.runtime.machine import keep_freed_memory

Row = dict[str, Any]
VIEWS = ("dep", "const")
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Structured views 4.1: 40 million sentences in 39 hours on a GTX 1080 Ti.
PAPERS_RATE = 285
PAPERS_SIZE = (400, 1200)
# How PyTorch and the libraries below it call matrix products.
PRODUCTS = re.compile(r"\b(addmm|mm|bmm|baddbmm)_?$|mkldnn_rnn|gemm|nvjet|cutlass|xmma", re.IGNORECASE)
GROWTH_BATCH, GROWTH_LENGTH = 64, 32
GROWTH_LENGTHS, GROWTH_SIZES = (5, 10, 20, 40, 80), (16, 64, 256, 1024)


@dataclass(frozen=True)
class Settings:
    """What is measured, and how long.

    Attributes:
        corpus: folder of the parsed corpus.
        device: where.
        threads: numbers of threads, each of which is measured.
        sizes: of the batches.
        hidden: lengths of the vectors.
        rounds: of each race at most.
        seconds: after which a race starts no more rounds.
        ceiling: rows and columns of the product that stands for the hardware's best.
    """

    corpus: Path
    device: torch.device
    threads: Sequence[int]
    sizes: Sequence[int]
    hidden: Sequence[int]
    rounds: int
    seconds: float
    ceiling: int

    def batches(self) -> Batches:
        """The corpus' batches."""
        return Batches(ParsedCorpus.open(self.corpus), LEAST_ROUNDS, self.device)

    def race(self, runs: dict[str, Run]) -> dict[str, list[float]]:
        """Time some runs."""
        return race(runs, self.rounds, self.seconds, self.device)

    def each_threads(self) -> Iterator[int]:
        """Set each number of threads in turn."""
        for threads in self.threads:
            torch.set_num_threads(threads)
            yield threads


def kernels(settings: Settings) -> Iterator[Row]:
    """Each encoder alone on precomputed word vectors, forward and backward."""
    batches = settings.batches()
    for threads in settings.each_threads():
        for name in ENCODERS:
            for size in settings.sizes:
                for hidden in settings.hidden:
                    contender = Encoder(name, hidden, settings.device)
                    place = {"what": name, "batch": size, "hidden": hidden, "threads": threads}
                    yield place | compare(settings, contender, ways(name), batches, size)


def step(settings: Settings) -> Iterator[Row]:
    """The whole training step of dep,const; at the paper's size also with two channels."""
    batches = settings.batches()
    for threads in settings.each_threads():
        sizes = [(size, hidden, 1) for size in settings.sizes for hidden in settings.hidden]
        for size, hidden, channels in [*sizes, *((*one[:2], 2) for one in sizes[-1:])]:
            contender = Step(VIEWS, hidden, channels, settings.device)
            what = ",".join(VIEWS) + " step" + f", {channels} channels" * (channels > 1)
            place = {"what": what, "batch": size, "hidden": hidden, "threads": threads}
            row = place | compare(settings, contender, ways("step"), batches, size)
            if (size, hidden, channels) == (*PAPERS_SIZE, 1):
                row["times_the_paper"] = {n: rate / PAPERS_RATE for n, rate in row["sentences_per_second"].items()}
            yield row


def compare(settings: Settings, contender: Contender, entered: dict[str, Any], batches: Batches, size: int) -> Row:
    """Time all ways to run something, taking turns with plain matrix products in both precisions.

    Returns:
        For each way sentences a second, the ratio to DGL's, and the share of the ceiling: the
        operations that are needed, over those that one product makes in the same time. Medians over
        rounds, of rates measured in the same round.
    """
    full, few = batches.of_size(size), batches.of_size(N_FEW)
    chosen = {name: few if way.few else full for name, way in entered.items()}
    runs: dict[str, Run] = {name: partial(turn, contender, chosen[name], way) for name, way in entered.items()}
    ceilings = {name: product(settings.ceiling, dtype, settings.device) for name, dtype in PRECISIONS.items()}
    times = settings.race(runs | {f"{name} product": run for name, (run, _) in ceilings.items()})
    # Seconds a word, so that few sentences of other lengths count as they should.
    per_word = {
        name: [t / int(batch.lengths.sum()) for t, batch in zip(times[name], cycle(chosen[name]), strict=False)]
        for name in entered
    }
    words = sum(int(batch.lengths.sum()) for batch in full) / sum(map(len, full))
    speed = {name: [operations / t for t in times[f"{name} product"]] for name, (_, operations) in ceilings.items()}
    needed = {
        name: [contender.operations(batch) / t for t, batch in zip(times[name], cycle(chosen[name]), strict=False)]
        for name in entered
    }
    precision = {name: "bf16" if way.half else "fp32" for name, way in entered.items()}
    return {
        "sentences_per_second": {name: 1 / median(each) / words for name, each in per_word.items()},
        "times_dgl": {n: median_ratio(per_word["DGL"], each) for n, each in per_word.items() if "DGL" in per_word},
        "share_of_ceiling": {name: median_ratio(needed[name], speed[precision[name]]) for name in entered},
        "gflops": {name: median(each) / 1e9 for name, each in needed.items()},
        "ceiling_gflops": {name: median(each) / 1e9 for name, each in speed.items()},
        "rounds": len(next(iter(times.values()))),
    }


def turn(contender: Contender, batches: Sequence[Batch], way: Any, number: int) -> None:
    """One turn of a contender, on the batch of this round."""
    contender.run(batches[number % len(batches)], way)


def growth(settings: Settings) -> Iterator[Row]:
    """How cost grows with a sentence's length, with the height of its trees, and with the batch."""
    some = partial(corpora.random_sentences, seed=2)
    lengths = {f"{n} words": some(GROWTH_BATCH, length=n) for n in GROWTH_LENGTHS}
    shapes = {"halves": corpora.halves, "like English": corpora.english_split, "chains": corpora.first_word}
    heights = {name: some(GROWTH_BATCH, split=split, length=GROWTH_LENGTH) for name, split in shapes.items()}
    sizes = {f"{n} sentences": some(n) for n in GROWTH_SIZES}
    torch.set_num_threads(settings.threads[0])
    for group, cases in (("length", lengths), ("height", heights), ("batch", sizes)):
        for case, sentences in cases.items():
            batch = corpora.batch_of(sentences, ["dependency", "constituency"]).to(settings.device)
            yield {"by": group, "case": case} | growth_of(settings, batch)


def growth_of(settings: Settings, batch: Batch) -> Row:
    """Levels of a batch's trees, and microseconds per word of each encoder on it."""
    hidden = settings.hidden[len(settings.hidden) // 2]
    runs: dict[str, Run] = {}
    for name in ("dep-sum", "const"):
        encoder = Encoder(name, hidden, settings.device)
        for way in ("DGL", "fp32", "bf16"):
            if way in ways(name):
                runs[f"{name} {way}"] = partial(turn, encoder, [batch], WAYS[way])
    times = settings.race(runs)
    n_words = int(batch.lengths.sum())
    return {
        "hidden": hidden,
        "levels": [len(trees.levels) - 1 for trees in (batch.dependency_trees, batch.constituency_trees)],
        "microseconds_per_word": {n: median(each) / n_words * 1e6 for n, each in times.items()},
    }


def loader(settings: Settings) -> Iterator[Row]:
    """How fast batches are made, and whether training waits for them."""
    torch.set_num_threads(1)
    rate = bench_loader.measure(ParsedCorpus.open(settings.corpus))["sentences_per_cpu_second"]
    for threads in settings.each_threads():
        batches = settings.batches()
        size = settings.sizes[-1]
        # The smallest vectors, for which a step is most likely to wait for its batch.
        contender = Step(VIEWS, settings.hidden[0], 1, settings.device)
        count = max(1, min(8, len(batches.reader) // size))
        make = partial(made, batches.reader, size, count, settings.device)
        times = settings.race(
            {
                "held": partial(train, contender, partial(iter, list(make()))),
                "loaded": partial(train, contender, lambda make=make: prefetch(make())),
            }
        )
        yield {
            "threads": threads,
            "hidden": settings.hidden[0],
            "loader_sentences_per_cpu_second": rate,
            **{f"{name}_sentences_per_second": count * size / median(each) for name, each in times.items()},
            "loaded_over_held": median_ratio(times["held"], times["loaded"]),
        }


def made(reader: CorpusReader, size: int, count: int, device: torch.device) -> Iterator[Batch]:
    """The first batches of a corpus, made one by one."""
    return (reader.batch(np.arange(size * i, size * (i + 1))).to(device) for i in range(count))


def train(contender: Contender, batches: Callable[[], Iterable[Batch]], _: int) -> None:
    """A step on each batch."""
    for batch in batches():
        contender.run(batch, WAYS["fp32"])


def memory(settings: Settings) -> Iterator[Row]:
    """Peak memory of a training step of dep,const, in a separate process."""
    size, hidden = settings.sizes[-1], settings.hidden[-1]
    for channels in (1, 2):
        for precision in PRECISIONS:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                gigabytes = pool.submit(peak_of_step, settings, size, hidden, channels, precision).result()
            place = {"batch": size, "hidden": hidden, "channels": channels, "precision": precision}
            yield place | {"peak_gigabytes": gigabytes}


def peak_of_step(settings: Settings, size: int, hidden: int, channels: int, precision: str) -> float:
    """Peak memory of this process after a step on each of a few batches."""
    keep_freed_memory()
    torch.set_num_threads(settings.threads[0])
    contender = Step(VIEWS, hidden, channels, settings.device)
    for batch in settings.batches().of_size(size):
        contender.run(batch, WAYS[precision])
    return peak_gigabytes(settings.device)


def shares(settings: Settings) -> Iterator[Row]:
    """How much of a training step's time is spent outside matrix products."""
    size, hidden = settings.sizes[-1], settings.hidden[-1]
    contender = Step(VIEWS, hidden, 1, settings.device)
    batches = settings.batches().of_size(size)
    cuda = settings.device.type == "cuda"
    torch.set_num_threads(settings.threads[0])
    for precision in PRECISIONS:
        contender.run(batches[0], WAYS[precision])
        with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as recorded:
            for batch in islice(cycle(batches), LEAST_ROUNDS):
                contender.run(batch, WAYS[precision])
        times = {
            event.key: event.self_device_time_total if cuda else event.self_cpu_time_total
            for event in recorded.key_averages()
        }
        outside = sum(time for name, time in times.items() if not PRODUCTS.search(name))
        yield {
            "batch": size,
            "hidden": hidden,
            "precision": precision,
            "share_outside_products": outside / sum(times.values()),
            "most": dict(sorted(((n, t / sum(times.values())) for n, t in times.items()), key=lambda e: -e[1])[:8]),
        }


PARTS = {"memory": memory, "kernels": kernels, "step": step, "shares": shares, "growth": growth, "loader": loader}
