"""What ``noticing`` measures, as tables for the terminal."""

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from structviews.evaluation.perturbing.altered import Sample
from structviews.evaluation.perturbing.noticing import Row
from structviews.evaluation.perturbing.perturbations import KINDS
from structviews.evaluation.scores.intervals import Proportion
from structviews.runtime.terminal import Table

NOTES = (
    "+ keeps the meaning, - changes it: the cosine distance of an altered sentence to its original, as a percentage of "
    "the mean distance to the other originals of its kind: 0 = not noticed, 100 = as far as another sentence",
    "A nearer than B: the percentage of sentences with both forms whose form A is nearer to the original; "
    "equally near counts as half",
    "with the 95 % interval of a bootstrap over documents",
)
NOTES_OF_TWO = (
    "A - B with the 95 % interval of a paired bootstrap over documents, and its two-sided p, at least 0.001; "
    "Holm: p corrected for all rows, bold below 0.05",
    "the intervals are for these two trained models; they do not include the variance between training seeds",
)


def as_rich(rows: Sequence[Row], two: bool) -> Table:
    """The table: of one run with a column for each view, of two with a row for each view."""
    return _table_of_two(rows) if two else _table_of_one(rows)


def _table_of_one(rows: Sequence[Row]) -> Table:
    views = list(dict.fromkeys(row.view for row in rows))
    table = Table("perturbation", show_lines=True)
    for name in ("n", *views):
        table.add_column(name, justify="right", no_wrap=True)
    for what, group in groupby(rows, lambda row: row.what):
        cells = [row.found[0] for row in group]
        table.add_row(_named(what), f"{cells[0].count:,}", *(_folded(cell) for cell in cells))
    return table


def _table_of_two(rows: Sequence[Row]) -> Table:
    table = Table("perturbation")
    for name in ("n", "view", "A", "B", "A - B", "95 % interval", "p", "Holm"):
        table.add_column(name, justify="left" if name == "view" else "right", no_wrap=True)
    for what, group in groupby(rows, lambda row: row.what):
        for place, row in enumerate(group):
            count = next(iter(row.found.values())).count
            head = (_named(what), f"{count:,}") if not place else ("", "")
            values = [f"{100 * row.found[k].value:.1f}" if k in row.found else "-" for k in (0, 1)]
            table.add_row(*head, row.view, *values, *_tested(row))
        table.add_section()
    return table


def _tested(row: Row) -> tuple[str | Text, ...]:
    """The cells of a row's difference; empty if only one run has the view."""
    each, adjusted = row.difference, row.adjusted
    if each is None or adjusted is None:
        return ("",) * 4
    ends = f"[{100 * each.low:+.1f}, {100 * each.high:+.1f}]"
    difference = f"{100 * (each.first - each.second):+.1f}"
    return difference, ends, f"{each.p:.3f}", Text(f"{adjusted:.3f}", style="bold" if adjusted < 0.05 else "")


def _named(what: str) -> str:
    """A kind with the sign of what it does to the meaning; a contrast as it is."""
    return f"{'+' if KINDS[what].keeps else '-'} {what}" if what in KINDS else what


def _folded(value: Proportion) -> str:
    """A value over its interval."""
    number, _, interval = str(value).partition(" ")
    return f"{number}\n{interval}"


def examples(sample: Sample, most: int) -> list[str]:
    """Lines that show a kind and its first sentences, each with its altered form."""
    lines = [_named(sample.name)]
    for original, *altered in list(zip(sample.originals, *sample.altered, strict=True))[:most]:
        lines += [f"  {' '.join(original)}", *(f"  -> {' '.join(words)}" for words in altered)]
    return lines
