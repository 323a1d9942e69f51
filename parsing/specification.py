"""Parser specifications as the user writes them: ``NAME[:ARGUMENT]``, or ``DEP+CONST``."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from structviews.errors import InputError
from structviews.parsing.backends import PARSERS
from structviews.parsing.combination import Combination
from structviews.parsing.guard import Guarded
from structviews.parsing.parser import DEFAULTS, KINDS, Options, Parser
from structviews.runtime.machine import check_device


@dataclass(frozen=True)
class Part:
    """One backend of a specification, ``NAME[:ARGUMENT]``.

    Attributes:
        name: name of the backend.
        argument: text after the colon; may be empty.
        factory: creates the backend, if already loaded; sent along to worker processes, where it may be unregistered.
    """

    name: str
    argument: str
    factory: Callable[..., Any] | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    def load(self, options: Options) -> Guarded:
        """Load the backend, wrapped in ``Guarded``."""
        factory = self.factory or PARSERS[self.name]
        return Guarded(factory(self.argument, options), str(self), options.language)


@dataclass(frozen=True)
class Specification:
    """A parser as the user names it, ``PARSER`` or ``DEP+CONST``; it is sent to worker processes.

    Attributes:
        parts: one backend, or one for dependencies and one for constituents.
    """

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, text: str) -> "Specification":
        """Parse a specification.

        Raises:
            InputError: if a backend does not exist, or there are more than two.
        """
        names = [name.partition(":") for name in text.split("+")]
        if len(names) > len(KINDS):
            raise InputError(
                f"{text!r} names {len(names)} parsers: give one, or one for dependencies + one for constituents"
            )
        return cls(tuple(Part(name, argument, PARSERS.if_loaded(name)) for name, _, argument in names))

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))

    def load(self, options: Options) -> Parser:
        """Load the parser.

        Raises:
            InputError: if a backend does not support the argument, language or device, its model cannot be read,
                or it does not give the trees that it is chosen for.
        """
        check_device(options.device)
        if options.models and not options.models.is_dir():
            raise InputError(f"--models {options.models}: no such folder: give the one that holds the parsers' models")
        wanted = [options.wanted] if len(self.parts) == 1 else [frozenset({kind}) for kind in KINDS]
        parsers = [part.load(replace(options, wanted=kinds)) for part, kinds in zip(self.parts, wanted, strict=True)]
        return Combination(*parsers) if len(parsers) > 1 else parsers[0]


def load(specification: str, options: Options = DEFAULTS) -> Parser:
    """Load the parser that a specification names.

    Raises:
        InputError: see :class:`Specification`.
    """
    return Specification.of(specification).load(options)
