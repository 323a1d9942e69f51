"""The backends that the contract test goes over; each new one joins by a case here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from structviews.parsing.backends import DEFAULTS, Options
from structviews.parsing.backends.trivial import SHAPES


@dataclass(frozen=True)
class Case:
    """A parser under test.

    Attributes:
        specification: what loads it.
        make: makes its models in a new folder, and gives the options to load it with.
        needs: package without which it is skipped.
    """

    specification: str
    make: Callable[[Path], Options] = lambda folder: DEFAULTS
    needs: str = "structviews"


CASES = [Case("builtin"), *(Case(f"trivial:{shape}") for shape in SHAPES)]
