"""The backends that the contract test goes over; each new one joins by a case here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tiny_parsers

from structviews.parsing.backends.trivial import SHAPES
from structviews.parsing.parser import DEFAULTS, Options


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


def tiny(kind: str, specification: str) -> Case:
    """A parser of another library with a tiny model."""

    def make(folder: Path) -> Options:
        tiny_parsers.make(kind, folder)
        return Options(models=folder, device="cpu")

    return Case(specification, make, tiny_parsers.LIBRARIES[kind])


CASES = [
    Case("builtin"),
    *(Case(f"trivial:{shape}") for shape in SHAPES),
    *(tiny(kind, specification) for kind, specification in tiny_parsers.SPECIFICATIONS.items()),
]
