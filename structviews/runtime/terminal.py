"""What is written for people on the terminal: text that is shown, never obeyed; tables; how far a job is."""

import re
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from threading import Lock
from typing import Any

from rich import box, table
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from structviews.runtime.wording import duration

# Control characters but tab and newline, controls of the writing direction, and halves of surrogate pairs.
UNSHOWN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""A text with escapes such as ``\x1b`` and ``\u202e`` for what a terminal would obey instead of showing."""
    return UNSHOWN.sub(lambda found: ascii(found[0])[1:-1], text)


class Terminal(Console):
    """A console that shows text as it is: nothing in a name or a sentence is an escape, markup or an emoji's name.

    What users see goes through one, also where it goes to a file. Control sequences of rich itself, as for a bar that
    moves, are kept.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into text; rich would drop some of its control characters."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render to segments, of which only rich's own may control the terminal."""
        for each in super().render(renderable, options):
            yield each if each.control else each._replace(text=visible(each.text))


NARROW = 8  # characters that a cell is folded to before the cells of columns with ``no_wrap`` are, too


class Table(table.Table):
    """A table that loses its frame where the terminal is too narrow for it, and whose long cells are then folded.

    Columns with ``no_wrap``, as of numbers, are folded last.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def natural_width(whole: Table) -> int:
            return table.Table.__rich_measure__(whole, console, console.options.update_width(10_000)).maximum

        fitted = self._with(self.columns)
        if natural_width(fitted) > options.max_width:
            fitted.box, fitted.pad_edge, fitted.padding = box.SIMPLE_HEAD, False, (0, 1, 0, 0)
        rigid = [column for column in fitted.columns if column.no_wrap]
        flexible = len(fitted.columns) - len(rigid)
        if natural_width(fitted._with(rigid)) + (NARROW + 2) * flexible > options.max_width:
            for column in fitted.columns:
                column.no_wrap = False
        yield from table.Table.__rich_console__(fitted, console, options)

    def _with(self, columns: Iterable[table.Column]) -> "Table":
        """A copy with some of the columns, which fold what does not fit."""
        found = copy(self)
        found.columns = [copy(column) for column in columns]
        for column in found.columns:
            column.overflow = "fold"
        return found


def number_table(labels: Iterable[str], numbers: Iterable[str], **options: Any) -> Table:
    """A table with columns of text, then of numbers."""
    return Table(*labels, *(table.Column(name, justify="right", no_wrap=True) for name in numbers), **options)


OnProgress = Callable[[int, int], None]  # called with the number done and the total
LONGEST, SHORTEST = 40, 8  # characters of the part that moves
TOO_SHORT = 0.1  # seconds, for a rate that means something


def say(console: Console, text: str) -> None:
    """Print a line without markup; only a terminal's lines are broken, between words."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


class Bar(AbstractContextManager["Bar"]):
    """How far one job is, with its rate and the time left; called with the number done and the total.

    It appears when it is first called, or given a stage, and stands still when its ``with`` block ends. Its methods may
    be called from several threads. If the console is not a terminal, a line is printed at the first call, at every
    further tenth and, unless ``steady``, for every later stage. For display, numbers of a ``unit`` are divided by its
    ``size``, or ``percent`` is shown. If the job is ``steady``, that is, all units take about the same time, so are a
    rate and the time left.
    """

    def __init__(
        self, console: Console, job: str, unit: str, size: int = 1, *, percent: bool = True, steady: bool = True
    ) -> None:
        self._console, self._job, self._unit, self._size = console, job, unit, size
        self._percent, self._steady = percent, steady
        self._began = time.perf_counter()
        self._first: tuple[int, float] | None = None
        self._done = self._total = 0
        self._note = self._rate = ""
        self._tenths = -1
        self._lock = Lock()
        self._spinner = Spinner("dots")
        self._live = Live(console=console, get_renderable=lambda: self, refresh_per_second=10)

    def __call__(self, done: int, total: int, *, note: str | None = None, rate: str | None = None) -> None:
        """Show that ``done`` of ``total`` are done, with a note, in parts with two spaces between them, and a rate.

        None is the last note, or the rate of ``done``.
        """
        now = time.perf_counter()
        with self._lock:
            if not self._first:
                self._first, self._note = (done, now), ""
            before, began = self._first
            self._done, self._total = done, total
            self._note = self._note if note is None else note
            if rate is not None:
                self._rate = rate
            elif done > before and self._steady and now - began > TOO_SHORT:
                speed = (done - before) / self._size / (now - began)
                self._rate = f"{speed:,.0f} {self._unit}/s"
            if not self._moves() and self._tenths < (tenths := 10 * done // max(total, 1)):
                self._tenths = tenths
                parts = self._count(), *self._note.split("  "), self._rate, self._time(now)
                say(self._console, f"{self._job}: {', '.join(filter(None, parts))}")

    def stage(self, doing: str) -> None:
        """Show what is being done, until the next call."""
        with self._lock:
            if doing != self._note:
                self._note = doing
                if not self._moves() and not self._steady and self._first:
                    say(self._console, f"{self._job}: {doing}")

    def _moves(self) -> bool:
        """Whether the console is one where a line can move; if so, this one does from now on."""
        can = (self._console.is_terminal and not self._console.is_dumb_terminal) or self._console.is_jupyter
        if can and not self._live.is_started:
            self._live.start()
        return can

    def __exit__(self, *_: object) -> None:
        """Leave the line as it is; remove it if nothing was counted."""
        self._live.transient = not self._first
        self._live.stop()

    def _count(self) -> str:
        return f"{self._done / self._size:,.0f} of {self._total / self._size:,.0f} {self._unit}"

    def _time(self, now: float) -> str:
        before, began = self._first or (0, self._began)
        if self._done >= self._total:
            return f"in {duration(now - self._began)}"
        if not self._steady:
            return f"{duration(now - self._began)} so far"
        if self._done == before:
            return ""
        return f"{duration((self._total - self._done) * (now - began) / (self._done - before))} left"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One line if it fits; else the note and the rate go below, and a long description above."""
        now = time.perf_counter()
        if not self._first:
            self._spinner.update(text=Text(f"{self._job}: {self._note}"))
            yield self._spinner.render(now)
            return

        def width_left() -> int:
            return options.max_width - cell_len("  ".join(filter(None, [*before, *after]))) - 1

        share = f"{100 * self._done // max(self._total, 1)} %" if self._percent else self._count()
        rest = [*self._note.split("  "), self._rate]
        before, after, below = [self._job], [share, *rest, self._time(now)], []
        if width_left() < SHORTEST:
            after, below = [share, self._time(now)], list(filter(None, rest))
        if width_left() < SHORTEST:
            yield Text(self._job, overflow="fold")
            before = []
        bar_width = min(max(width_left(), 1), LONGEST)
        bar = ProgressBar(total=max(self._total, 1), completed=self._done, width=bar_width)
        line = table.Table.grid(padding=(0, 1))
        line.add_row(*map(Text, before), bar, Text("  ".join(filter(None, after))))
        yield line
        if below:
            yield Columns([Text(part, overflow="fold") for part in below], padding=(0, 2))


def shown(progress: OnProgress | bool | None) -> AbstractContextManager[OnProgress | None]:
    """Resolve a ``progress`` argument: a function as it is, True to a bar on stderr, False and None to None."""
    return Bar(Terminal(stderr=True), "encoding", "sentences") if progress is True else nullcontext(progress or None)
