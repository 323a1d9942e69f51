"""Progress lines and bars."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from structviews.runtime.terminal import Terminal

# Called with the number done and the total.
OnProgress = Callable[[int, int], None]


def say(console: Console, text: str) -> None:
    """Print a line without markup or wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def rate_bar(console: Console, what: str, unit: str, size: int = 1) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with rate and remaining time; yields the function that updates it with (done, total).

    The bar appears at the first update. If the console is not a terminal, for example a log file, one line is
    printed at the first update and one at every further tenth.

    Args:
        console: where to show it.
        what: description of the work.
        unit: what is counted.
        size: ``done`` and ``total`` are divided by this for display.
    """
    columns = (TextColumn(what, markup=False), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    bar = Progress(*columns, TimeRemainingColumn(), console=console)
    task = bar.add_task(what, total=None, rate="")
    first: tuple[int, float] | None = None
    tenths = -1
    with ExitStack() as shown:

        def show(done: int, total: int) -> None:
            nonlocal first, tenths
            before, began = first = first or (done, time.perf_counter())
            rate = f"{(done - before) / size / (time.perf_counter() - began):,.0f} {unit}/s" if done > before else ""
            if console.is_terminal or console.is_jupyter:
                if not bar.live.is_started:
                    shown.enter_context(bar)
                bar.update(task, completed=done, total=total, rate=rate)
            elif tenths < (tenths := 10 * done // max(total, 1)):
                so_far = f"{done / size:,.0f} of {total / size:,.0f} {unit}"
                say(console, f"{what}: {', '.join(filter(None, (so_far, rate)))}")

        yield show


@contextmanager
def shown(progress: Callable[[int, int], None] | bool | None) -> Iterator[Callable[[int, int], None] | None]:
    """Resolve a ``progress`` argument: a function as it is, True to a bar on stderr, False and None to None."""
    if progress is True:
        with rate_bar(Terminal(stderr=True), "encoding", "sentences") as bar:
            yield bar
    else:
        yield progress or None
