"""Parser backends: what a parser is, and the registry of those that are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from structviews.errors import InputError
from structviews.sentence import ParsedSentence


@dataclass(frozen=True)
class Unparsed:
    """A sentence that a backend could not parse."""

    reason: str


class Parser(Protocol):
    """Gives sentences their trees."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences given as tokens, which are never re-tokenised; the result has their order.

        The same list gives the same trees.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Name, version, settings and model hash, as the manifest records them."""
        ...


# name -> "module:Class"; imported when it is asked for, since most backends need an extra.
_backends: dict[str, str] = {}


def register(name: str, target: str) -> None:
    """Add a backend: ``target`` is ``module:Class``, and the class is called without arguments.

    Raises:
        ValueError: if the name is taken.
    """
    if name in _backends:
        raise ValueError(f"parser {name!r} is registered already, as {_backends[name]}")
    _backends[name] = target


def known() -> list[str]:
    """The names of the backends."""
    return sorted(_backends)


def target(name: str) -> str:
    """Where the backend ``name`` is, as ``module:Class``.

    Raises:
        InputError: if there is no such backend; it lists those that there are.
    """
    if name not in _backends:
        raise InputError(f"no parser {name!r}: choose one of {', '.join(known())}")
    return _backends[name]


def load_target(target: str) -> Parser:
    """The parser at ``module:Class``, ready to parse."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)()


def load(name: str) -> Parser:
    """The parser ``name``, ready to parse.

    Raises:
        InputError: if there is no such backend, or its model cannot be read.
    """
    return load_target(target(name))


register("builtin", "structviews.parsing.backends.builtin:BuiltinParser")
