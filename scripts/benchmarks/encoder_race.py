"""Races encoders: rates in batches of several sizes, and the time of one sentence."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import ceil
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.encoders import Encoder, int8
from benchmarks.measure import Run, product
from benchmarks.spending import Meter, Spent
from benchmarks.texts import Sentences
from structviews.runtime.products import Product

Row = dict[str, Any]
SAMPLE = 32
"""Sentences that show roughly how fast an encoder is."""
WARM_UP = 3


@dataclass(frozen=True)
class Settings:
    """What is measured, and how long.

    Attributes:
        threads: numbers of threads, each of which is measured.
        batches: sizes; of 1 the time of single calls is measured.
        precisions: some of ``benchmarks.encoders.PRECISIONS``.
        rounds: turns of each encoder.
        seconds: of a turn; a fast encoder stops earlier, after ``sentences``, and a slow one later, after one batch.
        sentences: what an encoder gets in a turn, in one call, unless a batch is larger.
        longest: seconds of a batch beyond which an encoder is left out.
        calls: single calls, over all rounds.
        ceiling: rows and columns of the product that stands for the hardware's best.
    """

    threads: Sequence[int]
    batches: Sequence[int]
    precisions: Sequence[str]
    rounds: int
    seconds: float
    sentences: int
    longest: float
    calls: int
    ceiling: int

    @property
    def pool(self) -> int:
        """Different sentences that are wanted: more than for one turn, so that the next one has others."""
        return 2 * max(self.sentences, self.calls, *self.batches)


@dataclass
class Entrant:
    """An encoder in a race.

    Attributes:
        encoder: which.
        source: all its sentences.
        count: sentences of a turn.
        spent: what its turns, or its single calls, took.
        left_out: why it takes no turns, if it does not.
    """

    encoder: Encoder
    source: Sequence[Any]
    count: int = 1
    spent: list[Spent] = field(default_factory=list)
    left_out: str = ""

    @property
    def about(self) -> Row:
        """What identifies it."""
        return {"encoder": self.encoder.name, "given": self.encoder.given, "precision": self.encoder.precision}

    @property
    def seconds(self) -> list[float]:
        """Seconds a sentence in each turn."""
        return [clock(each) / self.count for each in self.spent]

    def turn(self, number: int) -> Sequence[Any]:
        """The sentences of a turn: others than in the one before, as far as there are."""
        start = number * self.count % (len(self.source) - self.count + 1)
        return self.source[start : start + self.count]


def clock(spent: Spent) -> float:
    """Seconds that count: of a single thread those on a processor, which other jobs disturb less."""
    return spent.cpu if torch.get_num_threads() == 1 else spent.wall


def race(settings: Settings, encoders: Sequence[Encoder], pools: Sequence[Sentences], meter: Meter) -> Iterator[Row]:
    """Measure encoders on sentences: a row for each encoder, length, number of threads and size of batches."""
    for texts, words, _ in pools:
        sources: dict[tuple[str, str], Sequence[Any]] = {}
        for encoder in encoders:  # the same in all precisions
            if (key := (encoder.name, encoder.given)) not in sources:
                sources[key] = encoder.prepare(texts)
        for threads in settings.threads:
            torch.set_num_threads(threads)
            os.environ["TOKENIZERS_PARALLELISM"] = str(threads > 1).lower()  # of transformers
            for batch in settings.batches:
                print(f"{words} words, {threads} threads, batches of {batch}", file=sys.stderr, flush=True)
                entrants = [
                    Entrant(each, sources[each.name, each.given])
                    for each in encoders
                    if each.processes == 1 or (each.processes == threads and batch > 1)
                ]
                place = {"words": words, "threads": threads, "batch": batch}
                if batch > len(texts):
                    why = f"the text has {len(texts)} sentences of {words} words or more"
                    rows = [each.about | {"left_out": why} for each in entrants]
                else:
                    rows = (latencies if batch == 1 else rates)(settings, entrants, batch, meter)
                yield from (place | row for row in rows)


def rates(settings: Settings, entrants: Sequence[Entrant], batch: int, meter: Meter) -> list[Row]:
    """Sentences per second and shares of the ceiling; medians over the rounds."""
    for entrant in entrants:
        # Processes start in the first call, and must have something to share out.
        took = roughly(
            entrant, min(SAMPLE, batch) if entrant.encoder.processes == 1 else settings.sentences, batch, meter
        )
        wanted = ceil(min(settings.sentences, settings.seconds / took) / batch) * batch
        entrant.count = min(wanted, len(entrant.source))
        if took * batch > settings.longest:
            entrant.left_out = f"a batch takes about {took * batch:.0f} s"
    ceilings = {name: large_products(settings.ceiling, name) for name in settings.precisions}
    peaks: dict[str, list[float]] = {name: [] for name in ceilings}
    for way in chain.from_iterable(ceilings.values()):
        way(0)  # the first time does not count
    for number in range(settings.rounds):
        for name, ways in ceilings.items():
            least = min(clock(meter.spent(partial(way, number))) for way in ways)
            peaks[name].append(2 * settings.ceiling**3 / least)
        for entrant in entrants:
            if not entrant.left_out:
                call = partial(entrant.encoder.encode, entrant.turn(number), batch)
                entrant.spent.append(meter.spent(call))
    return [
        each.about
        | ({"left_out": each.left_out} if each.left_out else rate(each) | work(each, peaks[each.encoder.precision]))
        for each in entrants
    ]


def roughly(entrant: Entrant, count: int, batch: int, meter: Meter) -> float:
    """Roughly the seconds of a sentence, of so many, after one call that does not count."""
    sample = entrant.source[:count]
    call = partial(entrant.encoder.encode, sample, batch)
    call()
    return meter.spent(call).wall / len(sample)


def rate(entrant: Entrant) -> Row:
    """Speed and energy of an entrant."""
    joules = [each.joules for each in entrant.spent if each.joules is not None]
    return {
        "sentences": entrant.count,
        "rounds": len(entrant.spent),
        "sentences_per_second": entrant.count / median(each.wall for each in entrant.spent),
        # Of other processes it is not known.
        "sentences_per_cpu_second": entrant.count / median(each.cpu for each in entrant.spent)
        if entrant.encoder.processes == 1
        else None,
        "joules_per_1000_sentences": median(joules) / entrant.count * 1000 if joules else None,
    }


def work(entrant: Entrant, peaks: Sequence[float]) -> Row:
    """Operations of an entrant's necessary products, and how close it is to the ceiling."""
    row: Row = {"ceiling_gflops": median(peaks) / 1e9}
    operations = entrant.encoder.operations(entrant.turn(0))
    if operations is None:
        return row
    needed = operations / entrant.count
    shares = [needed / seconds / peak for seconds, peak in zip(entrant.seconds, peaks, strict=True)]
    return row | {
        "mflop_per_sentence": needed / 1e6,
        "gflops": needed / median(entrant.seconds) / 1e9,
        "share_of_ceiling": median(shares),
    }


def large_products(size: int, precision: str) -> list[Run]:
    """One large product in some precision, in ways of which one or another is faster, depending on the processor."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.uint8}[precision]
    rows, weight = torch.randint(0, 2, (size, size), dtype=dtype), torch.randn(size, size)
    if precision == "int8":
        layer, floats = int8(nn.Sequential(nn.Linear(size, size, bias=False))), rows.float()
        return [lambda _: layer(floats)]
    packed = Product(weight, precision=precision)
    return [lambda _: packed(rows), product(size, dtype, rows.device)[0]]


def latencies(settings: Settings, entrants: Sequence[Entrant], batch: int, meter: Meter) -> list[Row]:
    """Milliseconds of calls with one sentence each."""
    for number in range(settings.rounds):
        for entrant in entrants:
            calls = ceil(settings.calls / settings.rounds)
            for i in range(-WARM_UP, calls):
                sentence = entrant.turn(number * calls + i)
                spent = meter.spent(partial(entrant.encoder.encode, sentence, batch))
                if i >= 0:
                    entrant.spent.append(spent)
    return [entrant.about | percentiles(entrant.spent) for entrant in entrants]


def percentiles(spent: Sequence[Spent]) -> Row:
    """Median and 99th percentile, by wall and processor time."""
    row: Row = {"calls": len(spent)}
    for name in ("wall", "cpu"):
        times = [getattr(each, name) * 1000 for each in spent]
        row |= {f"{name}_p{p}_ms": float(np.percentile(times, p)) for p in (50, 99)}
    return row
