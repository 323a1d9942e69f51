"""Signals that ask a long job to stop."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(Exception):  # noqa: N818 - not an error
    """Training was asked to stop; its state is saved.

    Attributes:
        signal: number of the signal that asked.
        step: steps taken so far.
    """

    def __init__(self, signal_number: int, step: int):
        super().__init__(f"stopped at step {step}")
        self.signal = signal_number
        self.step = step


@contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """Turn SIGINT and SIGTERM into a question: the number of the one that came, or 0.

    Asked twice, a process ends at once, unless torchrun started it: that passes on what the terminal
    has sent to all already, and has a patience of its own.
    """
    came = [0]
    passed_on = "TORCHELASTIC_RUN_ID" in os.environ
    old: dict[int, Any] = {}

    def note(number: int, _frame: object) -> None:
        if came[0] and not passed_on:
            os._exit(128 + number)
        came[0] = came[0] or number

    # In another thread signals are not ours to take.
    if threading.current_thread() is threading.main_thread():
        old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came[0]
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
