"""Requests that wait at the same time are worked on together, by one thread."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, NamedTuple

from structviews.errors import InputError

# Items gives one result each; equal functions may be given the items of several requests at once.
Work = Callable[[Sequence[Any]], Sequence[Any]]
WAITING = 1024
"""Items that may wait; a sentence is one."""
AT_ONCE = 64
"""Items that are worked on together at most, unless a single request has more."""


class Full(Exception):  # noqa: N818 - says what it is
    """So many items wait already that a request cannot be taken."""


class _Job(NamedTuple):
    work: Work
    items: Sequence[Any]
    result: Future[list[Any]]


class Batcher:
    """A queue with one thread, which takes the oldest job together with all others that want the same.

    Args:
        waiting: items that may wait.
        at_once: items of several jobs that are worked on together.
    """

    def __init__(self, waiting: int = WAITING, at_once: int = AT_ONCE):
        self._most_waiting = waiting
        self._at_once = at_once
        self._jobs: deque[_Job] = deque()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="structviews-encoder", daemon=True)
        self._thread.start()

    def submit(self, work: Work, items: Sequence[Any]) -> Future[list[Any]]:
        """What ``work`` gives for the items, in their order, as soon as it is done.

        The future has the error instead that ``work`` raises for these items.

        Raises:
            Full: if too many items wait already, or the batcher is closed.
        """
        job = _Job(work, items, Future())
        with self._changed:
            if self._closed or sum(len(each.items) for each in self._jobs) + len(items) > self._most_waiting:
                raise Full
            self._jobs.append(job)
            self._changed.notify()
        return job.result

    def close(self) -> None:
        """Take no more jobs, drop those that wait, and return when the present one has ended."""
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
        """The oldest job and those that go with it; none when the batcher is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            taken: list[_Job] = []
            left: deque[_Job] = deque()
            room = self._at_once
            for job in self._jobs:
                if not taken or (job.work == taken[0].work and len(job.items) <= room):
                    taken.append(job)
                    room -= len(job.items)
                else:
                    left.append(job)
            self._jobs = left
            return taken


def _finish(jobs: Sequence[_Job]) -> None:
    """Give each job its results; if they cannot be had together, one job after another."""
    try:
        results = iter(jobs[0].work([item for job in jobs for item in job.items]))
    except InputError as error:
        # One job's bad sentence is not the others' error.
        if len(jobs) == 1:
            jobs[0].result.set_exception(error)
        else:
            for job in jobs:
                _finish([job])
    except Exception as error:  # whatever it is, those who wait must hear of it
        for job in jobs:
            job.result.set_exception(error)
    else:
        for job in jobs:
            job.result.set_result([next(results) for _ in job.items])
