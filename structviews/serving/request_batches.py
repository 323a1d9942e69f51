"""Dynamic batching: one thread processes pending requests together."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, NamedTuple

from structviews.errors import InputError

# Returns one result per item; items of several requests with equal functions may be passed in one call.
Work = Callable[[Sequence[Any]], Sequence[Any]]
# The most pending items, such as sentences, and items of a batch, unless a single request has more.
WAITING, AT_ONCE = 1024, 64


class Full(Exception):  # noqa: N818 - the name says enough
    """The queue is full."""


class _Job(NamedTuple):
    work: Work
    items: Sequence[Any]
    result: Future[list[Any]]


class Batcher:
    """A job queue with one worker thread, which runs the oldest job together with all jobs of the same function."""

    def __init__(self, waiting: int = WAITING, at_once: int = AT_ONCE):
        self._most_waiting = waiting
        self._at_once = at_once
        self._jobs: deque[_Job] = deque()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="structviews-encoder", daemon=True)
        self._thread.start()

    def submit(self, work: Work, items: Sequence[Any]) -> Future[list[Any]]:
        """Queue a job; the future holds the results of ``work``, in the order of the items, or the error it raised.

        Raises Full if too many items are pending, or the batcher is closed.
        """
        job = _Job(work, items, Future())
        with self._changed:
            if self._closed or sum(len(each.items) for each in self._jobs) + len(items) > self._most_waiting:
                raise Full
            self._jobs.append(job)
            self._changed.notify()
        return job.result

    def close(self) -> None:
        """Accept no more jobs, drop the pending ones, and return when the running one has finished."""
        with self._changed:
            self._closed = True
            for job in self._jobs:
                job.result.cancel()
            self._jobs.clear()
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while jobs := self._next():
            running = [job for job in jobs if job.result.set_running_or_notify_cancel()]
            if running:
                _finish(running)

    def _next(self) -> list[_Job]:
        """The next batch: the oldest job and those that fit with it; empty once the batcher is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            taken: list[_Job] = []
            left: deque[_Job] = deque()
            capacity = self._at_once
            for job in self._jobs:
                if not taken or (job.work == taken[0].work and len(job.items) <= capacity):
                    taken.append(job)
                    capacity -= len(job.items)
                else:
                    left.append(job)
            self._jobs = left
            return taken


def _finish(jobs: Sequence[_Job]) -> None:
    """Run jobs as one batch; if it fails, run them one by one."""
    try:
        results = iter(jobs[0].work([item for job in jobs for item in job.items]))
    except InputError as error:
        # A bad sentence must fail its own job only.
        if len(jobs) == 1:
            jobs[0].result.set_exception(error)
        else:
            for job in jobs:
                _finish([job])
    except Exception as error:  # never leave a client waiting
        for job in jobs:
            job.result.set_exception(error)
    else:
        for job in jobs:
            job.result.set_result([next(results) for _ in job.items])
