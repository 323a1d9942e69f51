"""Cells of score tables."""

from dataclasses import dataclass

MISSING = "-"
# Marks: the best of its column, and within the interval of the best.
BEST, TIE = "best", "tie"


@dataclass(frozen=True)
class Figure:
    """One score, in the units of the table.

    Attributes:
        value: the score, or the mean over several runs.
        text: the score as printed.
        interval: 95 % interval over the test examples, if known.
        mark: ``BEST``, ``TIE`` or empty.
    """

    value: float
    text: str
    interval: tuple[float, float] | None = None
    mark: str = ""


@dataclass(frozen=True)
class Cell:
    """One table cell: no figure, one, or two as for MRPC, followed by a suffix."""

    figures: tuple[Figure, ...] = ()
    suffix: str = ""

    def __str__(self) -> str:
        """As plain text."""
        return "/".join(figure.text for figure in self.figures) + self.suffix if self.figures else MISSING
