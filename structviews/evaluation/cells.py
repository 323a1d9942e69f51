"""What stands in a table of scores."""

from dataclasses import dataclass

MISSING = "-"
# Marks of a figure: the best of its column, and one within the interval of the best.
BEST, TIE = "best", "tie"


@dataclass(frozen=True)
class Figure:
    """One score, in the units of the table.

    Attributes:
        value: the score; of several runs their mean.
        text: how it is written.
        interval: 95 % interval over the test examples, where there is one.
        mark: ``BEST``, ``TIE`` or nothing.
    """

    value: float
    text: str
    interval: tuple[float, float] | None = None
    mark: str = ""


@dataclass(frozen=True)
class Cell:
    """What stands in one row for one task: no figure, one, or two as in MRPC; and what follows them."""

    figures: tuple[Figure, ...] = ()
    suffix: str = ""

    def __str__(self) -> str:
        """As plain text."""
        return "/".join(figure.text for figure in self.figures) + self.suffix if self.figures else MISSING
