"""Stopping a long job by signal."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(Exception):  # noqa: N818 - not an error
    """Training was stopped by a signal; its state is saved.

    Attributes:
        signal: number of the signal.
        step: steps taken so far.
    """

    def __init__(self, signal_number: int, step: int):
        super().__init__(f"stopped at step {step}")
        self.signal = signal_number
        self.step = step


@contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """Record SIGINT and SIGTERM; yields a function that returns the number of the first one received, or 0.

    A second signal ends the process immediately, unless torchrun started it: torchrun forwards signals that the
    terminal has already sent to all processes, and has its own timeout.
    """
    came = [0]
    passed_on = "TORCHELASTIC_RUN_ID" in os.environ
    old: dict[int, Any] = {}

    def note(number: int, _frame: object) -> None:
        if came[0] and not passed_on:
            os._exit(128 + number)
        came[0] = came[0] or number

    # Only the main thread may set signal handlers.
    if threading.current_thread() is threading.main_thread():
        old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came[0]
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
