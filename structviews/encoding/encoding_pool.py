"""Encode sentences in several processes, each with its own copy of the run.

with open_pool(embedder, 4) as pool:
    vectors = embedder.encode(sentences, pool=pool)
"""

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence, SentenceError, listed
from structviews.encoding.word_limit import BATCH_SIZE, WordLimit, counted_cuts, one_warning, tell_cuts, warn, warn_once
from structviews.errors import InputError
from structviews.runs.folder import WEIGHTS
from structviews.runs.which_vectors import Choice
from structviews.runtime.machine import available_bytes
from structviews.runtime.processes import Engine, OnReport, ignore, in_processes, report, reporting, reports_to
from structviews.runtime.products import keep, reused
from structviews.runtime.terminal import OnProgress

# Sentences parsed and encoded together: many, as what repeats among them is computed once, but towards the end a small
# share of those that are left, so that all processes end at about the same time.
LARGEST, SMALLEST, SHARE = 4096, 512, 16
# A further process takes as long to start as this one takes for a thousand sentences or two. Its memory, but for the
# weights: it has 0.7 GB with the default model.
SENTENCES_EACH, BYTES_EACH = 2048, 10**9
# The other processes where there are none: they begin no call.
NO_OTHERS = Engine(lambda *call, **options: Future(), lambda: 0)


class Encoded(NamedTuple):
    """Vectors ``(m, d)`` of a piece, what was warned of, and how many sentences were cut to how many words."""

    vectors: np.ndarray
    warnings: list[str]
    cuts: Counter[int]


def pieces(start: int, stop: int, total: int, batch_size: int) -> Iterator[slice]:
    """The pieces of the sentences ``start`` to ``stop`` of so many in all.

    They must not depend on the number of processes: a parser's choice between two almost equally good trees may depend
    on the other sentences in the batch.
    """
    while start < stop:
        size = max(min(LARGEST, (total - start) // SHARE), SMALLEST, batch_size)
        yield slice(start, min(start + size, stop))
        start += size


@dataclass(frozen=True)
class EncodingPool:
    """This process and others that have loaded a run; see ``open_pool``."""

    engine: Engine
    run: Path
    load: Callable[[], Embedder]  # in another process

    def encode(
        self, embedder: Embedder, sentences: Iterable[Sentence], batch_size: int, progress: OnProgress | None
    ) -> np.ndarray:
        """Vectors ``(n, d)``, the same for any number of processes.

        Up to rounding, they equal those of ``Embedder.encode`` on each piece of 512 to 4,096 sentences. ``progress`` is
        called from several threads, one at a time. Raises InputError if the embedder is of another run or transductive,
        or as ``Embedder.encode`` raises.
        """
        given_parser = embedder.preparer.parser_is_given
        all_sentences = embedder.prepare(sentences) if given_parser else listed(sentences)
        n = len(all_sentences)
        counted = SharedProgress(0, n, progress)
        in_pieces = (all_sentences[piece] for piece in pieces(0, n, n, batch_size))
        try:
            with one_warning():
                return fill((n, embedder.dim), self.each(embedder, in_pieces, batch_size, counted))
        finally:
            counted.end()

    def each(
        self,
        embedder: Embedder,
        in_pieces: Iterator[Sequence[Sentence]],
        batch_size: int = BATCH_SIZE,
        on_report: OnReport = ignore,
    ) -> Iterator[np.ndarray]:
        """Vectors ``(m, d)`` of each of the ``pieces`` of ``m`` sentences, in order; some pieces are read ahead.

        ``on_report`` is told how many more sentences are done. A SentenceError has an index in its piece.
        """
        if embedder.run != self.run:
            raise InputError(f"{embedder.run}: the pool was opened for another run, {self.run}: open one for this run")
        if embedder.choice.is_transductive:
            raise InputError("transductive = true: needs all sentences in one process: encode without a pool")
        chosen = embedder.choice, embedder.limit, embedder.encodes_in
        tasks: deque[Task] = deque()

        def here(piece: Sequence[Sentence]) -> Encoded:
            with reports_to(on_report):
                return encoded(embedder, batch_size, piece)

        def begin() -> None:
            # Twice the others' capacity, as this process may end two or more pieces while the first is encoded.
            for piece in islice(in_pieces, 2 * self.engine.capacity() + 1 - len(tasks)):
                result = self.engine.submit(encode_piece, self.load, chosen, batch_size, piece, on_report=on_report)
                tasks.append(Task(result, partial(here, piece)))

        try:
            begin()
            while tasks:
                while not tasks[0].result.done() and any(task.take() for task in tasks):
                    begin()
                yield tasks[0].vectors()
                tasks.popleft()
                begin()
        finally:
            for task in tasks:
                task.result.cancel()


class Task:
    """The encoding of a piece, with its ``result``: by another process or, if this one comes first, by ``here``."""

    def __init__(self, result: Future[Encoded], here: Callable[[], Encoded]):
        self.result = result
        self._here = here
        self._is_here = False

    def take(self) -> bool:
        """Encode the piece in this process, unless one has begun it; whether it was encoded."""
        if not self.result.cancel():
            return False
        self._is_here, self.result = True, Future()
        try:
            self.result.set_result(self._here())
        except Exception as error:  # it is that of the sentences before, if they have one
            self.result.set_exception(error)
        return True

    def vectors(self) -> np.ndarray:
        """Vectors ``(m, d)`` of the piece; what was warned of on the way is reported here."""
        vectors, messages, cuts = self.result.result()
        for each in messages:
            (warn if self._is_here else warn_once)(each)  # each process says it, and this one notes what it has said
        tell_cuts(cuts)
        return vectors


class SharedProgress:
    """Adds up how many sentences are done, from any thread; ``progress`` is called with that and the total."""

    def __init__(self, done: int, total: int, progress: OnProgress | None):
        self._done = float(done)
        self._total = total
        self._progress = progress
        self._lock = Lock()

    def __call__(self, more: float) -> None:
        with self._lock:
            self._done += more
            if self._progress:
                self._progress(int(self._done), self._total)

    def end(self) -> None:
        """Pass on nothing more: after an error, other processes are still busy with pieces that they had begun."""
        with self._lock:
            self._progress = None


def fill(shape: tuple[int, int], each: Iterator[np.ndarray]) -> np.ndarray:
    """An array of this shape of the vectors ``(m, d)`` of the next pieces; the index of a SentenceError is a row."""
    rows, start = np.empty(shape, dtype=np.float32), 0
    while start < len(rows):
        try:
            vectors = next(each)
        except SentenceError as error:
            raise SentenceError(start + error.index, error.reason) from None
        rows[start : start + len(vectors)] = vectors
        start += len(vectors)
    return rows


def processes_that_pay(embedder: Embedder, sentences: int) -> int:
    """Processes to encode so many sentences with: one for each of PyTorch's threads if there is work and memory.

    Processes are faster than threads, which run Python one at a time. There is one process for a GPU.
    """
    if embedder.device.type != "cpu" or embedder.choice.is_transductive:
        return 1
    files = chain(embedder.folder.rglob(WEIGHTS), *(model.rglob("*.safetensors") for model in embedder.models))
    weights = sum(each.stat().st_size for each in files)
    free = available_bytes()
    most = torch.get_num_threads() if free is None else 1 + free // (BYTES_EACH + weights)
    return max(1, min(torch.get_num_threads(), sentences // SENTENCES_EACH, most))


@contextmanager
def open_pool(embedder: Embedder, processes: int) -> Iterator[EncodingPool]:
    """Start processes for ``Embedder.encode``, which end with the ``with`` block.

    Within it they and this process, which counts as one, share PyTorch's threads and the embedder's device.

    Raises InputError if the embedder has no folder that each process loads, or ``processes`` is below 1; within the
    block, if a process died.
    """
    if processes < 1:
        raise InputError(f"processes = {processes}: give at least 1")
    run, threads = embedder.folder, torch.get_num_threads()
    each = max(1, threads // processes)
    load = partial(_load, run, str(embedder.device), each)
    others = in_processes(processes - 1, load) if processes > 1 else nullcontext(NO_OTHERS)
    torch.set_num_threads(each)
    try:
        with others as engine, reused():
            yield EncodingPool(engine, run, load)
    finally:
        torch.set_num_threads(threads)


def encode_piece(
    load: Callable[[], Embedder], chosen: tuple[Choice, WordLimit, str], batch_size: int, sentences: Sequence[Sentence]
) -> Encoded:
    """Encode a piece in another process, which does nothing else."""
    keep()
    choice, limit, precision = chosen
    embedder = load().with_choice(choice).with_limit(**vars(limit)).with_precision(precision)
    return encoded(embedder, batch_size, sentences)


def encoded(embedder: Embedder, batch_size: int, sentences: Sequence[Sentence]) -> Encoded:
    """Encode a piece, and report how many sentences are done: preparing them is half of it."""
    before = 0

    def show(done: int, total: int) -> None:
        nonlocal before
        now = len(sentences) * done // total
        report(now - before)
        before = now

    with warnings.catch_warnings(record=True) as caught, counted_cuts() as cuts:
        with reporting(len(sentences), 0.5):
            prepared = embedder.prepare(sentences)
        with reporting(len(sentences), 0.5):
            vectors = embedder.encode(prepared, batch_size, show)
    return Encoded(vectors, [str(each.message) for each in caught], cuts)


@lru_cache(maxsize=1)
def _load(run: Path, device: str, threads: int) -> Embedder:
    torch.set_num_threads(threads)
    return Embedder.load(run).to(device)
