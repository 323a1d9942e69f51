"""Tables on the terminal, of which nothing is cut."""

from collections.abc import Iterable
from copy import copy

from rich import box, table
from rich.console import Console, ConsoleOptions, RenderResult

# Characters that a cell is folded to before the cells of columns with ``no_wrap`` are, too.
NARROW = 8


class Table(table.Table):
    """A table that loses its frame where the terminal is too narrow for it, and whose long cells are then folded.

    Columns with ``no_wrap``, as of numbers, are folded last.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from table.Table.__rich_console__(self._fitted(console, options.max_width), console, options)

    def _fitted(self, console: Console, width: int) -> table.Table:
        fitted = self._with(self.columns)
        if natural_width(fitted, console) > width:
            fitted.box, fitted.pad_edge, fitted.padding = box.SIMPLE_HEAD, False, (0, 1, 0, 0)
        rigid = [column for column in fitted.columns if column.no_wrap]
        flexible = len(fitted.columns) - len(rigid)
        if natural_width(fitted._with(rigid), console) + (NARROW + 2) * flexible > width:
            for column in fitted.columns:
                column.no_wrap = False
        return fitted

    def _with(self, columns: Iterable[table.Column]) -> "Table":
        """A copy with some of the columns, which fold what does not fit."""
        found = copy(self)
        found.columns = [copy(column) for column in columns]
        for column in found.columns:
            column.overflow = "fold"
        return found


def natural_width(whole: Table, console: Console) -> int:
    """Characters that a table takes where there is room for all."""
    return table.Table.__rich_measure__(whole, console, console.options.update_width(10_000)).maximum
