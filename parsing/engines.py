"""Engines that parse shards: in this process, in processes on this machine, or on a Ray cluster.

An engine only calls functions and returns their results to this process, which alone reads the source
and writes the corpus. So workers need no shared file system, and the result does not depend on the engine.
What a function reports on the way is not passed on by Ray.
"""

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Literal

from structviews.errors import InputError
from structviews.parsing.sources import Work
from structviews.runtime.processes import Engine, OnReport, here, ignore, in_processes, interrupts_held
from structviews.runtime.wording import reason

EngineName = Literal["local", "ray"]

# After this many retries, the shard itself is assumed to kill its workers, not a failing machine.
RETRIES = 5
# Space for the shards in progress; by default Ray takes a third of the machine's memory.
OBJECT_STORE_BYTES = 256 << 20


def open_engine(
    name: EngineName, work: Work, *, workers: int | None, address: str | None
) -> AbstractContextManager[Engine]:
    """Open the engine for some work; its workers stop at the end of the ``with`` block.

    One worker is this process. By default there is one, or as many as the cluster can run; and Ray is started on this
    machine. Raises InputError if the arguments are incompatible, Ray is not there, or, in the block, a worker died.
    """
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: give at least 1")
    if name == "ray":
        if not work.factories:
            raise InputError("--engine ray: treebank files already have trees and need no parsing: leave it out")
        return on_ray(work, workers, address)
    if address is not None:
        raise InputError(f"--address {address} is the address of a Ray cluster: add --engine ray")
    # Reading alone is not worth distributing, and a single worker would only start later than this process.
    processes = (workers or 1) if work.factories else 1
    return here() if processes == 1 else in_processes(processes, work.describe)


@contextmanager
def on_ray(work: Work, workers: int | None, address: str | None) -> Iterator[Engine]:
    """Run calls as tasks on a Ray cluster; if a worker or node dies, another one takes over its task."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # unless the user wants them
    # Turning clusters off is the only way to make Ray listen on the loopback interface alone.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = str(int(address is not None))
    try:
        import ray  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise InputError("--engine ray needs Ray: pip install 'structviews[ray]'") from None
    gpus = int(work.options.device.startswith("cuda"))
    needs = {"CPU": 1, "GPU": gpus}
    with ray_cluster(ray, address, workers or 1):
        # Worker processes keep their model from shard to shard; by default Ray ends a process after each
        # task that uses a GPU.
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES, max_calls=0)(call)

        def slots() -> int:
            have = ray.cluster_resources()
            return min(int(have.get(kind, 0) // amount) for kind, amount in needs.items() if amount)

        def capacity() -> int:
            # One extra task waits for a worker, so that an autoscaling cluster grows.
            return slots() + 1 if address is None or workers is None else workers

        def submit(function: Callable[..., Any], /, *arguments: Any, on_report: OnReport = ignore) -> Future[Any]:
            return remote.remote(gpus, function, *arguments).future()

        if not slots():
            missing = "GPU" if gpus else "CPU"
            raise InputError(f"no machine in the Ray cluster has a {missing} for a worker: add one with ray start")
        try:
            yield Engine(submit, capacity)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise InputError(
                f"Ray gave up on a shard ({reason(error)}): fix this and run the same command again to resume"
            ) from None


def call(gpus: int, function: Callable[..., Any], /, *arguments: Any) -> Any:
    """Run a function as a Ray task, which only sees the GPUs that it asked for."""
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return function(*arguments)


@contextmanager
def ray_cluster(ray: Any, address: str | None, workers: int) -> Iterator[None]:
    """Connect to a cluster, or start a private one on this machine alone."""
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    with TemporaryDirectory(prefix="structviews-", ignore_cleanup_errors=True) as folder:
        private = {"address": "local", "num_cpus": workers, "include_dashboard": False, "_temp_dir": folder}
        private["object_store_memory"] = OBJECT_STORE_BYTES
        try:
            with interrupts_held():
                ray.init(**(private if address is None else {"address": address}), **quiet)
        except Exception as error:  # Ray's errors have no common base class
            where = "Ray could not be started" if address is None else f"--address {address}: no usable Ray cluster"
            raise InputError(f"{where} ({reason(error)})") from None
        try:
            yield
        finally:
            ray.shutdown()
