"""Sentences encoded by several processes, each of which has the run to itself.

with embedder.processes(4) as pool:
    vectors = embedder.encode(sentences, pool=pool)
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from structviews.embedder import Choice, Embedder, Progress
from structviews.errors import InputError
from structviews.preparation import Sentence, SentenceError

if TYPE_CHECKING:
    from structviews.parsing.engines import Engine

# Sentences that are parsed and encoded together. A parser's choice between two trees that it finds almost equally good
# may depend on the sentences beside; so pieces are cut by the sentences alone, not by the number of processes.
PIECE = 512


class EncodingPool:
    """Processes that load a run; see ``open_pool``."""

    def __init__(self, engine: "Engine", run: Path, device: str, threads: int):
        self._engine = engine
        self._run = run
        self._device = device
        self._threads = threads

    def encode(
        self, embedder: Embedder, sentences: Sequence[Sentence], batch_size: int = 256, progress: Progress | None = None
    ) -> np.ndarray:
        """Vectors ``(n, d)``, the same for any number of processes.

        They are those of ``Embedder.encode`` for each piece of 512 sentences, to rounding.

        Args:
            embedder: of the run that the pool was opened for, with any representation but a transductive one.
            sentences, batch_size, progress: see ``Embedder.encode``.

        Raises:
            InputError: if it is of another run or transductive, and what ``Embedder.encode`` raises.
        """
        if embedder.run != self._run:
            raise InputError(f"{embedder.run}: the pool is of another run, {self._run}: open one for this run")
        if any(representation.transductive for representation, _ in embedder.choices):
            raise InputError("transductive = true: a component of all sentences wants one process: leave the pool out")
        if embedder.preparer.parser_is_given:
            sentences = embedder.prepare(sentences)
        how = str(self._run), self._device, self._threads, embedder.choices, batch_size
        under_way: list[Future[tuple[np.ndarray, list[str]]]] = []

        def submit(piece: Sequence[Sentence]) -> Callable[[], np.ndarray]:
            under_way.append(self._engine.submit(encode_piece, *how, piece))
            return partial(result_of, under_way[-1])

        try:
            return in_pieces(submit, embedder.dim, sentences, batch_size, progress)
        finally:
            for piece in under_way:
                piece.cancel()


def in_pieces(
    submit: Callable[[Sequence[Sentence]], Callable[[], np.ndarray]],
    dim: int,
    sentences: Sequence[Sentence],
    batch_size: int,
    progress: Progress | None = None,
) -> np.ndarray:
    """Vectors ``(n, d)`` of sentences that are encoded a piece at a time.

    Args:
        submit: takes a piece, and gives what gives its vectors; called for all before any vectors are asked for.
        dim: length d of a vector.
        sentences, batch_size, progress: see ``Embedder.encode``.
    """
    size = max(PIECE, batch_size)
    starts = range(0, len(sentences), size)
    results = [submit(sentences[start : start + size]) for start in starts]
    vectors = np.empty((len(sentences), dim), dtype=np.float32)
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
    """Processes for ``Embedder.encode``, which end with the block.

    They share the cores that this process computes with, and the device of the embedder.

    Args:
        embedder: loaded from its folder, from where each process loads it too.
        processes: how many.

    Raises:
        InputError: if it was made in memory, or ``processes`` is below 1; in the block, if a process died.
    """
    from structviews.parsing.engines import in_processes  # noqa: PLC0415 - the offline stage loads when it is used

    if processes < 1:
        raise InputError(f"processes = {processes}: give at least 1")
    run, device = embedder.folder, str(embedder.device)
    threads = max(1, torch.get_num_threads() // processes)
    with in_processes(processes, partial(_load, str(run), device, threads)) as engine:
        yield EncodingPool(engine, run, device, threads)


def encode_piece(
    run: str, device: str, threads: int, choices: list[Choice], batch_size: int, sentences: Sequence[Sentence]
) -> tuple[np.ndarray, list[str]]:
    """What a process does: vectors ``(n, d)`` of some sentences, and the warnings that it would give."""
    with warnings.catch_warnings(record=True) as given:
        embedder = _load(run, device, threads)
        embedder.choose(iter(choices))
        return embedder.encode(sentences, batch_size), [str(each.message) for each in given]


def result_of(piece: Future[tuple[np.ndarray, list[str]]]) -> np.ndarray:
    """The vectors ``(n, d)`` of a piece; its warnings are given here, where they are shown as all others are."""
    vectors, given = piece.result()
    for each in given:
        warnings.warn(each, stacklevel=2)
    return vectors


@lru_cache(maxsize=1)
def _load(run: str, device: str, threads: int) -> Embedder:
    torch.set_num_threads(threads)
    return Embedder.load(run).to(device)
