"""Encode sentences in several processes, each with its own copy of the run.

with open_pool(embedder, 4) as pool:
    vectors = embedder.encode(sentences, pool=pool)
"""

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from threading import Lock

import numpy as np
import torch

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence, SentenceError, listed
from structviews.encoding.stored_run import Choice
from structviews.encoding.text_language import warn_once
from structviews.encoding.word_limit import BATCH_SIZE, WordLimit, counted_cuts, one_warning, tell_cuts
from structviews.errors import InputError
from structviews.runs.folder import WEIGHTS
from structviews.runtime.machine import available_bytes
from structviews.runtime.processes import Engine, Heard, here, in_processes, report, reporting, unheard
from structviews.runtime.scratch import keep, reused
from structviews.runtime.terminal import OnProgress

# Sentences parsed and encoded together: many, as what repeats among them is computed once, but towards the end a small
# share of those that are left, so that all processes end at about the same time.
LARGEST, SMALLEST, SHARE = 4096, 512, 16
# A further process takes as long to start as this one takes for a thousand sentences or two. Its memory, but for the
# weights: it has 0.7 GB with the default model.
SENTENCES_EACH, BYTES_EACH = 2048, 10**9
# The other processes where there are none: they begin no call.
NONE = Engine(lambda *call, **how: Future(), lambda: 0)
# Vectors (n, d) of a piece, the warnings given on the way, and how many sentences were cut to how many words.
Piece = tuple[np.ndarray, list[str], Counter[int]]


def pieces(start: int, stop: int, total: int, batch_size: int) -> Iterator[slice]:
    """The pieces of the sentences ``start`` to ``stop`` of so many in all.

    They must not depend on the number of processes: a parser's choice between two almost equally good trees may depend
    on the other sentences in the batch.
    """
    while start < stop:
        size = max(min(LARGEST, (total - start) // SHARE), SMALLEST, batch_size)
        yield slice(start, min(start + size, stop))
        start += size


class EncodingPool:
    """This process and others that have loaded a run; see ``open_pool``."""

    def __init__(self, engine: Engine, run: Path, device: str, threads: int):
        self._engine = engine
        self._run = run
        self._device = device
        self._threads = threads

    def encode(
        self,
        embedder: Embedder,
        sentences: Iterable[Sentence],
        batch_size: int = BATCH_SIZE,
        progress: OnProgress | None = None,
    ) -> np.ndarray:
        """Vectors ``(n, d)``, the same for any number of processes.

        Up to rounding, they equal those of ``Embedder.encode`` on each piece of 512 to 4,096 sentences.

        Args:
            embedder: of the run that the pool was opened for; its representation must not be transductive.
            sentences, batch_size: see ``Embedder.encode``.
            progress: see ``Embedder.encode``; called from several threads, one at a time.

        Raises:
            InputError: if the embedder is of another run or transductive, or as ``Embedder.encode`` raises.
        """
        given = embedder.prepare(sentences) if embedder.preparer.parser_is_given else listed(sentences)
        sentences_of_each = (given[piece] for piece in pieces(0, len(given), len(given), batch_size))
        heard = Told(0, len(given), progress or (lambda done, total: None))
        vectors = np.empty((len(given), embedder.dim), dtype=np.float32)
        try:
            with one_warning():
                return filled(vectors, self.each(embedder, sentences_of_each, batch_size, heard))
        finally:
            heard.end()

    def each(
        self,
        embedder: Embedder,
        given: Iterator[Sequence[Sentence]],
        batch_size: int = BATCH_SIZE,
        heard: Heard = unheard,
    ) -> Iterator[np.ndarray]:
        """Vectors ``(m, d)`` of each piece of ``m`` sentences, in order; some pieces are read ahead.

        Args:
            embedder, batch_size: see ``encode``.
            given: the sentences of each piece; see ``pieces``.
            heard: called with the number of sentences done since its last call.

        Raises:
            SentenceError: with an index in its piece.
            InputError: see ``encode``.
        """
        if embedder.run != self._run:
            raise InputError(f"{embedder.run}: the pool was opened for another run, {self._run}: open one for this run")
        if is_transductive(embedder):
            raise InputError("transductive = true: needs all sentences in one process: encode without a pool")
        how = (
            self._run,
            self._device,
            self._threads,
            embedder.choices,
            embedder.limit,
            embedder.encodes_in,
            batch_size,
        )
        begun: deque[Task] = deque()
        with here() as this:

            def begin() -> None:
                # Twice the others' room, as this process may end two or more pieces while the first is encoded.
                for piece in islice(given, 2 * self._engine.room() + 1 - len(begun)):
                    theirs = self._engine.submit(encode_piece, *how, piece, heard=heard)
                    begun.append(Task(theirs, partial(this.submit, encoded, embedder, batch_size, piece, heard=heard)))

            try:
                begin()
                while begun:
                    while not begun[0].result.done() and any(task.take() for task in begun):
                        begin()
                    yield begun[0].vectors()
                    begun.popleft()
                    begin()
            finally:
                for task in begun:
                    task.result.cancel()


class Task:
    """The encoding of a piece, by another process or, if this one comes first, here.

    Args:
        theirs: what another process makes of it.
        here: encodes it in this process.

    Attributes:
        result: what was made of it.
    """

    def __init__(self, theirs: Future[Piece], here: Callable[[], Future[Piece]]):
        self.result = theirs
        self._here = here
        self._is_mine = False

    def take(self) -> bool:
        """Encode the piece in this process, unless one has begun it; whether it was encoded."""
        if not self.result.cancel():
            return False
        self._is_mine = True
        try:
            self.result = self._here()
        except Exception as error:  # it is that of the sentences before, if they have one
            self.result = Future()
            self.result.set_exception(error)
        return True

    def vectors(self) -> np.ndarray:
        """Vectors ``(m, d)`` of the piece; what was warned of on the way is reported here."""
        vectors, given, cuts = self.result.result()
        for each in given:
            # Where ``encode`` was called. Each process says it, and this one notes what it has said.
            (warnings.warn if self._is_mine else warn_once)(each, stacklevel=7)
        tell_cuts(cuts)
        return vectors


class Told:
    """Passes on how many sentences are done, from any thread.

    Args:
        done, total: how many there are, done and in all.
        progress: called with both.
    """

    def __init__(self, done: int, total: int, progress: OnProgress):
        self._done = float(done)
        self._total = total
        self._progress = progress
        self._ended = False
        self._lock = Lock()

    def __call__(self, more: float) -> None:
        """Add to those that are done."""
        with self._lock:
            self._done += more
            if not self._ended:
                self._progress(int(self._done), self._total)

    def end(self) -> None:
        """Pass on nothing more: after an error, other processes are still busy with pieces that they had begun."""
        with self._lock:
            self._ended = True


def filled(rows: np.ndarray, each: Iterator[np.ndarray]) -> np.ndarray:
    """The array ``(n, d)`` with the vectors ``(m, d)`` of the next pieces.

    Raises:
        SentenceError: if a sentence cannot be encoded, with its row.
    """
    start = 0
    while start < len(rows):
        try:
            vectors = next(each)
        except SentenceError as error:
            raise SentenceError(start + error.index, error.reason) from None
        rows[start : start + len(vectors)] = vectors
        start += len(vectors)
    return rows


def is_transductive(embedder: Embedder) -> bool:
    """Whether a vector depends on the other sentences, so that one process must have all of them."""
    return any(representation.transductive for representation, _ in embedder.choices)


def processes_that_pay(embedder: Embedder, sentences: int) -> int:
    """Processes to encode so many sentences with: one for each of PyTorch's threads if there is work and memory.

    A thread of its own for each process is faster than threads that share each product, and much faster where another
    program needs a core: threads wait for the slowest after every product. There is one process for a GPU.
    """
    if embedder.device.type != "cpu" or is_transductive(embedder):
        return 1
    files = chain(embedder.folder.rglob(WEIGHTS), *(model.rglob("*.safetensors") for model in embedder.models))
    weights = sum(each.stat().st_size for each in files)
    free = available_bytes()
    room = torch.get_num_threads() if free is None else 1 + free // (BYTES_EACH + weights)
    return max(1, min(torch.get_num_threads(), sentences // SENTENCES_EACH, room))


@contextmanager
def open_pool(embedder: Embedder, processes: int) -> Iterator[EncodingPool]:
    """Start processes for ``Embedder.encode``, which end with the ``with`` block.

    Within it they and this process share PyTorch's threads and the embedder's device.

    Args:
        embedder: loaded from a run's folder, which each process loads as well.
        processes: number of processes, with this one.

    Raises:
        InputError: if the embedder was created in memory, or ``processes`` is below 1; within the block, if a process
            died.
    """
    if processes < 1:
        raise InputError(f"processes = {processes}: give at least 1")
    run, device, threads = embedder.folder, str(embedder.device), torch.get_num_threads()
    each = max(1, threads // processes)
    others = in_processes(processes - 1, partial(_load, run, device, each)) if processes > 1 else nullcontext(NONE)
    torch.set_num_threads(each)
    try:
        with others as engine, reused():
            yield EncodingPool(engine, run, device, each)
    finally:
        torch.set_num_threads(threads)


def encode_piece(
    run: Path,
    device: str,
    threads: int,
    choices: list[Choice],
    limit: WordLimit,
    precision: str,
    batch_size: int,
    sentences: Sequence[Sentence],
) -> Piece:
    """Run in another process, which does nothing else: encode a piece."""
    keep()
    embedder = _load(run, device, threads).with_limit(**vars(limit)).with_precision(precision)
    embedder.choose(iter(choices))
    return encoded(embedder, batch_size, sentences)


def encoded(embedder: Embedder, batch_size: int, sentences: Sequence[Sentence]) -> Piece:
    """Encode a piece, and report how many sentences are done: preparing them is half of it."""
    before = 0

    def show(done: int, total: int) -> None:
        nonlocal before
        now = len(sentences) * done // total
        report(now - before)
        before = now

    with warnings.catch_warnings(record=True) as given, counted_cuts() as cuts:
        with reporting(len(sentences), 0.5):
            prepared = embedder.prepare(sentences)
        with reporting(len(sentences), 0.5):
            vectors = embedder.encode(prepared, batch_size, show)
    return vectors, [str(each.message) for each in given], cuts


@lru_cache(maxsize=1)
def _load(run: Path, device: str, threads: int) -> Embedder:
    torch.set_num_threads(threads)
    return Embedder.load(run).to(device)
