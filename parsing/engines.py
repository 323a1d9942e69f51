"""Where shards are parsed: in this process, in processes of this machine, or on a Ray cluster.

An engine only calls functions; what they return comes back to this process, which alone reads the
source and writes the corpus. So workers need no file system in common with it, and the result does
not depend on the engine.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from typing import Any, Literal

from structviews.errors import InputError

from .sources import TakeTrees, Work

EngineName = Literal["local", "ray"]

# A shard whose workers died this many times more kills them, rather than their machines failing.
RETRIES = 5
# Room for the shards under way; Ray would take a third of the machine's memory.
OBJECT_STORE_BYTES = 256 << 20


@dataclass(frozen=True)
class Engine:
    """Calls functions elsewhere.

    Attributes:
        submit: takes a function of a module and its arguments, and gives the future of its result.
        room: how many calls to have under way, so that all workers are busy and memory is bounded.
    """

    submit: Callable[..., Future[Any]]
    room: Callable[[], int]


def open_engine(
    name: EngineName, work: Work, *, workers: int | None, address: str | None
) -> AbstractContextManager[Engine]:
    """The engine for some work; its workers end with the ``with`` block.

    Args:
        name: what runs the workers.
        work: what they will do.
        workers: how many there are: by default one, or as many as a cluster has room for.
        address: the Ray cluster to connect to; by default Ray is started on this machine.

    Raises:
        InputError: if the arguments do not go together, Ray is not installed or not there; in the
            block, if a worker died.
    """
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: give a number from 1")
    if name == "ray":
        if isinstance(work, TakeTrees):
            raise InputError("--engine ray: treebank files have their trees, and nothing is parsed: leave it out")
        return on_ray(work, workers, address)
    if address is not None:
        raise InputError(f"--address {address} is the address of a Ray cluster: add --engine ray")
    # Work that is only reading is not worth sending anywhere.
    return here() if isinstance(work, TakeTrees) else in_processes(workers or 1, work.describe)


@contextmanager
def here() -> Iterator[Engine]:
    """Call at once, in this process."""

    def submit(function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    yield Engine(submit, lambda: 1)


@contextmanager
def in_processes(workers: int, load: Callable[[], Any]) -> Iterator[Engine]:
    """Call in processes of this machine, which end when the block is left, and when this process dies.

    Args:
        workers: how many.
        load: what each calls first, so that all load at the same time what they work with.
    """
    # The parent holds the only writing end: its end tells every worker to go.
    alive, life = get_context("spawn").Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker, (alive, load))
    try:
        with interrupts_held():
            # A process starts at each submission that finds none idle: these start them all.
            for _ in range(workers):
                pool.submit(os.getpid)
        yield Engine(pool.submit, lambda: 2 * workers)
    except BrokenProcessPool:
        raise InputError(
            "a worker process died, perhaps for want of memory: give the same command with fewer --workers to go on"
        ) from None
    finally:
        life.close()
        pool.shutdown(cancel_futures=True)
        alive.close()


def start_worker(alive: Connection, load: Callable[[], Any]) -> None:
    """Give a worker process no life beyond its parent's, and load what it works with."""

    def follow() -> None:
        alive.poll(None)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    with suppress(Exception):  # the first call fails at the same, and says so
        load()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back; processes started meanwhile never see it, since the parent ends them."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


@contextmanager
def on_ray(work: Work, workers: int | None, address: str | None) -> Iterator[Engine]:
    """Call in tasks of a Ray cluster; those whose worker or node dies are given to another."""
    ray = import_ray(alone=address is None)
    needs = {"CPU": 1, "GPU": work.gpus}
    with ray_cluster(ray, address, workers or 1):
        # A worker process keeps its model from shard to shard; by default Ray ends one after each
        # task that uses a GPU.
        remote = ray.remote(num_cpus=1, num_gpus=work.gpus, max_retries=RETRIES, max_calls=0)(call)

        def slots() -> int:
            have = ray.cluster_resources()
            return min(int(have.get(kind, 0) // amount) for kind, amount in needs.items() if amount)

        def room() -> int:
            # One more waits for a worker, and lets a cluster that grows with demand grow.
            return slots() + 1 if address is None or workers is None else workers

        def submit(function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
            return remote.remote(work.gpus, function, *arguments).future()

        if not slots():
            missing = "GPU" if work.gpus else "CPU"
            raise InputError(f"no machine of the Ray cluster has a {missing} for a worker: add one with ray start")
        try:
            yield Engine(submit, room)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise InputError(
                f"Ray gave up a shard ({first_line(error)}): mend that and give the same command to go on"
            ) from None


def call(gpus: int, function: Callable[..., Any], /, *arguments: Any) -> Any:
    """The one kind of task that there is; it sees no GPU but those that it asked for."""
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return function(*arguments)


def import_ray(*, alone: bool) -> Any:
    """The ray module, set to stay on this machine or not, and to send no statistics unless the user wants that."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Its way not to be a cluster, and the only one to have it listen on the loopback interface.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = str(int(not alone))
    try:
        import ray  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise InputError("--engine ray needs Ray: pip install 'structviews[ray]'") from None
    return ray


@contextmanager
def ray_cluster(ray: Any, address: str | None, workers: int) -> Iterator[None]:
    """Connect to a cluster, or start one of this machine alone that nobody else sees."""
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    with TemporaryDirectory(prefix="structviews-", ignore_cleanup_errors=True) as folder:
        private = {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_temp_dir": folder,
        }
        try:
            with interrupts_held():
                ray.init(**(private if address is None else {"address": address}), **quiet)
        except Exception as error:  # Ray raises all kinds, of no common class
            where = "Ray does not start" if address is None else f"--address {address}: no Ray cluster to work on"
            raise InputError(f"{where} ({first_line(error)})") from None
        try:
            yield
        finally:
            ray.shutdown()


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
