"""Encode sentences in several processes, each with its own copy of the run.

with open_pool(embedder, 4) as pool:
    vectors = embedder.encode(sentences, pool=pool)
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch

from structviews.encoding.embedder import Choice, Embedder
from structviews.encoding.preparation import Sentence, SentenceError, listed
from structviews.encoding.text_language import warn_once
from structviews.encoding.word_limit import WordLimit, counted_cuts, one_warning, tell_cuts
from structviews.errors import InputError
from structviews.runtime.processes import Engine, in_processes
from structviews.runtime.progress import OnProgress

# Sentences parsed and encoded together. A parser's choice between two almost equally good trees may depend on the
# other sentences in the batch, so the split into pieces must not depend on the number of processes.
PIECE = 512
# Vectors (n, d) of a piece, the warnings given on the way, and how many sentences were cut to how many words.
Piece = tuple[np.ndarray, list[str], Counter[int]]


class EncodingPool:
    """Worker processes that have loaded a run; see ``open_pool``."""

    def __init__(self, engine: Engine, run: Path, device: str, threads: int):
        self._engine = engine
        self._run = run
        self._device = device
        self._threads = threads

    def encode(
        self,
        embedder: Embedder,
        sentences: Iterable[Sentence],
        batch_size: int = 256,
        progress: OnProgress | None = None,
    ) -> np.ndarray:
        """Vectors ``(n, d)``, the same for any number of processes.

        Up to rounding, they equal those of ``Embedder.encode`` on each piece of 512 sentences.

        Args:
            embedder: of the run that the pool was opened for; its representation must not be transductive.
            sentences, batch_size, progress: see ``Embedder.encode``.

        Raises:
            InputError: if the embedder is of another run or transductive, or as ``Embedder.encode`` raises.
        """
        if embedder.run != self._run:
            raise InputError(f"{embedder.run}: the pool was opened for another run, {self._run}: open one for this run")
        if any(representation.transductive for representation, _ in embedder.choices):
            raise InputError("transductive = true: needs all sentences in one process: encode without a pool")
        given = embedder.prepare(sentences) if embedder.preparer.parser_is_given else listed(sentences)
        how = (
            str(self._run),
            self._device,
            self._threads,
            embedder.choices,
            embedder.limit,
            embedder.encodes_in,
            batch_size,
        )
        under_way: list[Future[Piece]] = []

        def submit(piece: Sequence[Sentence]) -> Callable[[], np.ndarray]:
            under_way.append(self._engine.submit(encode_piece, *how, piece))
            return partial(result_of, under_way[-1])

        try:
            return in_pieces(submit, embedder.dim, given, batch_size, progress)
        finally:
            for piece in under_way:
                piece.cancel()


def in_pieces(
    submit: Callable[[Sequence[Sentence]], Callable[[], np.ndarray]],
    dim: int,
    sentences: Sequence[Sentence],
    batch_size: int,
    progress: OnProgress | None = None,
) -> np.ndarray:
    """Encode sentences piece by piece into vectors ``(n, d)``.

    Args:
        submit: starts encoding a piece and returns a function that waits for its vectors; all pieces are submitted
            first.
        dim: dimensions d of a vector.
        sentences, batch_size, progress: see ``Embedder.encode``.
    """
    size = max(PIECE, batch_size)
    starts = range(0, len(sentences), size)
    results = [submit(sentences[start : start + size]) for start in starts]
    vectors = np.empty((len(sentences), dim), dtype=np.float32)
    with one_warning():
        for start, result in zip(starts, results, strict=True):
            try:
                vectors[start : start + size] = result()
            except SentenceError as error:
                raise SentenceError(start + error.index, error.reason) from None
            if progress:
                progress(min(start + size, len(sentences)), len(sentences))
    return vectors


@contextmanager
def open_pool(embedder: Embedder, processes: int) -> Iterator[EncodingPool]:
    """Start worker processes for ``Embedder.encode``; they end with the ``with`` block.

    They share this process's CPU threads and the embedder's device.

    Args:
        embedder: loaded from a run's folder, which each process loads as well.
        processes: number of processes.

    Raises:
        InputError: if the embedder was created in memory, or ``processes`` is below 1; within the block, if a process
            died.
    """

    if processes < 1:
        raise InputError(f"processes = {processes}: give at least 1")
    run, device = embedder.folder, str(embedder.device)
    threads = max(1, torch.get_num_threads() // processes)
    with in_processes(processes, partial(_load, str(run), device, threads)) as engine:
        yield EncodingPool(engine, run, device, threads)


def encode_piece(
    run: str,
    device: str,
    threads: int,
    choices: list[Choice],
    limit: WordLimit,
    precision: str,
    batch_size: int,
    sentences: Sequence[Sentence],
) -> Piece:
    """Run in a worker: encode a piece."""
    with warnings.catch_warnings(record=True) as given, counted_cuts() as cuts:
        embedder = _load(run, device, threads).with_limit(**vars(limit)).with_precision(precision)
        embedder.choose(iter(choices))
        return embedder.encode(sentences, batch_size), [str(each.message) for each in given], cuts


def result_of(piece: Future[Piece]) -> np.ndarray:
    """Vectors ``(n, d)`` of a piece; what the worker warned of is reported in this process."""
    vectors, given, cuts = piece.result()
    for each in given:
        warn_once(each, stacklevel=6)  # each worker says it; where ``encode`` was called
    tell_cuts(cuts)
    return vectors


@lru_cache(maxsize=1)
def _load(run: str, device: str, threads: int) -> Embedder:
    torch.set_num_threads(threads)
    return Embedder.load(run).to(device)
