"""Parser backends: what a parser is, the registry of those that are known, and how they are named."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from structviews.errors import InputError
from structviews.sentence import ParsedSentence

DEPENDENCY, CONSTITUENCY = "dependency", "constituency"
# Padded tokens in a batch, unless a backend says how many it takes.
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Unparsed:
    """A sentence that a backend could not parse."""

    reason: str


@dataclass(frozen=True)
class Options:
    """What every backend is made with.

    Attributes:
        language: ISO 639-1 code, as stanza and spaCy have it.
        models: folder with the libraries' models; where each library keeps its own if None.
        device: a PyTorch device; chosen by the backend if empty.
    """

    language: str = "en"
    models: Path | None = None
    device: str = ""


class Parser(Protocol):
    """Gives sentences their trees. A backend that is derived from it has its defaults.

    A backend need not sort or pad with care for memory, nor check its own answers: all that come from the
    registry are guarded (``guard.Guarded``). ``parse`` is given batches of sentences of similar length.

    Attributes:
        kinds: ``dependency``, ``constituency`` or both: the trees that each sentence gets.
        batch_tokens: most tokens that ``parse`` is given at once, the number of sentences times the length of
            the longest; a longer sentence comes alone.
    """

    kinds: frozenset[str]
    batch_tokens: int = BATCH_TOKENS

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences given as tokens, which are never re-tokenised; the result has their order.

        The same list gives the same trees.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Name in the registry, ``version``, ``settings`` and ``model`` (a hash), as the manifest records them.

        JSON, without paths, device or times: equal descriptions give equal trees. The registry adds argument and
        language.
        """
        ...


@runtime_checkable
class Tokeniser(Protocol):
    """A parser that finds the words of a text as its training data have them."""

    def tokenise(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The words of each text, which is one sentence; no word is empty or holds white space."""
        ...


# name -> "module:factory"; imported when it is asked for, since most backends need an extra.
_backends: dict[str, str] = {}


def register(name: str, target: str) -> None:
    """Add a backend: ``target`` is ``module:factory``, called as ``factory(argument, options) -> Parser``.

    ``argument`` is what follows the colon of a specification ``NAME[:ARGUMENT]``, or empty. The factory raises
    InputError for an argument, a language or a model that it cannot use.

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
    """Where the backend ``name`` is, as ``module:factory``.

    Raises:
        InputError: if there is no such backend; it lists those that there are.
    """
    if name not in _backends:
        raise InputError(f"no parser {name!r}: choose one of {', '.join(known())}")
    return _backends[name]


@dataclass(frozen=True)
class Specification:
    """A parser as a user names it, ``NAME[:ARGUMENT]``, and where it is; a worker process can load it.

    Attributes:
        name: the backend's.
        argument: what follows the colon; may be empty.
        target: ``module:factory``.
    """

    name: str
    argument: str
    target: str

    @classmethod
    def of(cls, text: str) -> "Specification":
        """Read ``NAME[:ARGUMENT]``.

        Raises:
            InputError: if there is no such backend.
        """
        name, _, argument = text.partition(":")
        return cls(name, argument, target(name))

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    def load(self, options: Options) -> Parser:
        """The parser, ready to parse.

        Raises:
            InputError: if it knows no such argument or language, or its model cannot be read.
        """
        module, _, factory = self.target.partition(":")
        return getattr(import_module(module), factory)(self.argument, options)


def load(specification: str, options: Options | None = None) -> Parser:
    """The parser that a specification names, ready to parse.

    Raises:
        InputError: if there is no such backend, or it cannot be loaded with its argument and the options.
    """
    return Specification.of(specification).load(options or Options())


def refuse_argument(name: str, argument: str) -> None:
    """Raise InputError if there is an argument, for backends that take none."""
    if argument:
        raise InputError(f"--parser {name}:{argument}: {name} takes no argument: leave out :{argument}")


register("builtin", "structviews.parsing.backends.builtin:load")
