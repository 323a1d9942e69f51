"""Function calls in worker processes on this machine."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from structviews.errors import InputError


@dataclass(frozen=True)
class Engine:
    """Runs function calls, possibly in other processes.

    Attributes:
        submit: takes a module-level function and its arguments and returns the future of its result.
        room: returns how many calls to keep pending, so that all workers are busy and memory is bounded.
    """

    submit: Callable[..., Future[Any]]
    room: Callable[[], int]


@contextmanager
def here() -> Iterator[Engine]:
    """Call functions immediately, in this process."""

    def submit(function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    yield Engine(submit, lambda: 1)


@contextmanager
def in_processes(workers: int, load: Callable[[], Any]) -> Iterator[Engine]:
    """Call functions in worker processes that end with the block, or when this process dies.

    Args:
        workers: number of processes.
        load: called first by each worker, so that all load their resources at the same time.

    Raises:
        InputError: if a worker process dies.
    """
    # Only the parent holds the write end of the pipe: when it closes, every worker exits.
    alive, life = get_context("spawn").Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker, (alive, load))
    try:
        with interrupts_held():
            # The pool starts a process at each submission that finds none idle, so these calls start them all.
            for _ in range(workers):
                pool.submit(os.getpid)
        yield Engine(pool.submit, lambda: 2 * workers)
    except BrokenProcessPool:
        raise InputError(
            "a worker process died, possibly out of memory: run the same command with fewer --workers to resume"
        ) from None
    finally:
        life.close()
        pool.shutdown(cancel_futures=True)
        alive.close()


def start_worker(alive: Connection, load: Callable[[], Any]) -> None:
    """Initialise a worker process: make it exit with its parent, and call ``load``."""

    def follow() -> None:
        alive.poll(None)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    with suppress(Exception):  # the first call fails with the same error and reports it
        load()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Block SIGINT; processes started meanwhile inherit the mask, and the parent stops them on Ctrl-C."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
