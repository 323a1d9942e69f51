"""The backends that the contract test goes over; each new one joins by a case here."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import tiny_parsers

from structviews.parsing.backends.trivial import SHAPES
from structviews.parsing.parser import DEFAULTS, Options


class Case(NamedTuple):
    """A parser under test: what loads it, what makes its models in a new folder and gives the options to load it with,
    and the package without which it is skipped."""

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
