"""Independent work in threads that each compute alone.

PyTorch divides each product among threads, which wait for the slowest after it. Where other programs need the cores,
that is nearly always, and the rate falls to a third of a fair share; threads of their own keep it.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache, partial
from threading import Barrier
from time import perf_counter, thread_time
from typing import TypeVar

import torch

from structviews.runtime.products import reused

T = TypeVar("T")
R = TypeVar("R")
# A thread that computes for less than this share of the time is waiting for a core, or for other threads, which wait
# for one. So many seconds later we look again.
QUIET, SECONDS = 0.9, 1.0
_busy_until = 0.0


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results of a function that runs PyTorch, in order: one item for each of PyTorch's threads at a time.

    A single item has all of these threads on a quiet machine, and one of them on a busy one. What the function raises
    is raised here; after that, or if the iterator is closed, no further item is begun.
    """
    todo = [(each, Future[R]()) for each in items]
    number = torch.get_num_threads()
    call = partial(_watched, function) if len(todo) == 1 < number else function
    if number == 1 or (len(todo) == 1 and perf_counter() > _busy_until):
        yield from (call(item) for item, _ in todo)
        return
    waiting = deque(todo)

    def work() -> None:
        with reused():
            while waiting:
                try:
                    item, result = waiting.popleft()
                except IndexError:  # another thread was first
                    return
                try:
                    result.set_result(call(item))
                except BaseException as error:
                    result.set_exception(error)

    try:
        for _ in range(min(number, len(todo))):
            _workers(number).submit(copy_context().run, work)
        for _, result in todo:
            yield result.result()
    finally:
        waiting.clear()


def _watched(function: Callable[[T], R], item: T) -> R:
    """Call a function, and note whether it had to wait for a core."""
    global _busy_until  # noqa: PLW0603 - how busy the machine is, is one thing for all of the process
    wall, own = perf_counter(), thread_time()
    try:
        return function(item)
    finally:
        now = perf_counter()
        if thread_time() - own < QUIET * (now - wall):
            _busy_until = now + SECONDS


@lru_cache(maxsize=1)
def _workers(number: int) -> ThreadPoolExecutor:
    """So many threads, for each of which PyTorch has one thread."""
    pool, ready = ThreadPoolExecutor(number, "structviews"), Barrier(number + 1)

    def start() -> None:
        torch.get_num_threads()  # a thread's first call sets the process's number
        torch.set_num_threads(1)
        ready.wait()

    for _ in range(number):
        pool.submit(start)
    ready.wait()
    torch.set_num_threads(number)  # for this thread and those to come
    return pool


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_workers.cache_clear)  # a child has none of its parent's threads
