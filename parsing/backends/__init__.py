"""Parser backends: what a parser is, the registry of those that are known, and how they are named."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from structviews.errors import InputError
from structviews.sentence import ParsedSentence

if TYPE_CHECKING:
    from .guard import Guarded

KINDS = DEPENDENCY, CONSTITUENCY = "dependency", "constituency"
# Padded tokens in a batch, unless a backend says how many it takes.
BATCH_TOKENS = 4096
LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)?")


@dataclass(frozen=True)
class Unparsed:
    """A sentence that a backend could not parse."""

    reason: str


@dataclass(frozen=True)
class Options:
    """What every backend is made with.

    Attributes:
        language: ISO 639 code, with a script where stanza distinguishes them (``zh-hans``).
        models: folder with the libraries' models; where each library keeps its own if None.
        device: a PyTorch device; chosen by the backend if empty.
        wanted: the kinds of trees that will be used; a backend may leave out another.

    Raises:
        InputError: if the language is no such code.
    """

    language: str = "en"
    models: Path | None = None
    device: str = ""
    wanted: frozenset[str] = frozenset(KINDS)

    def __post_init__(self) -> None:
        if not LANGUAGE.fullmatch(self.language):
            raise InputError(f"--lang {self.language}: give a code such as en, de or zh-hans")


DEFAULTS = Options()


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

    def tokenise(self, texts: Sequence[str]) -> Sequence[tuple[str, ...] | Unparsed]:
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
class Part:
    """One backend of a specification, ``NAME[:ARGUMENT]``.

    Attributes:
        name: the backend's.
        argument: what follows the colon; may be empty.
        target: ``module:factory``.
    """

    name: str
    argument: str
    target: str

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    def load(self, options: Options) -> "Guarded":
        """The backend, guarded."""
        from .guard import Guarded  # noqa: PLC0415 - needs this module

        module, _, factory = self.target.partition(":")
        return Guarded(getattr(import_module(module), factory)(self.argument, options), str(self), options.language)


@dataclass(frozen=True)
class Specification:
    """A parser as a user names it, ``PARSER`` or ``DEP+CONST``, found in the registry; it is sent to worker processes.

    Attributes:
        parts: one backend, or one for dependencies and one for constituents.
    """

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, text: str) -> "Specification":
        """Read a specification.

        Raises:
            InputError: if there is no such backend, or there are more than two.
        """
        names = [name.partition(":") for name in text.split("+")]
        if len(names) > len(KINDS):
            raise InputError(
                f"{text!r} names {len(names)} parsers: give one, or one of dependencies + one of constituents"
            )
        return cls(tuple(Part(name, argument, target(name)) for name, _, argument in names))

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))

    def load(self, options: Options) -> Parser:
        """The parser, ready to parse.

        Raises:
            InputError: if a backend knows no such argument, language or device, its model cannot be read, or it
                does not give the trees that it is named for.
        """
        from .combination import Combination  # noqa: PLC0415 - needs this module

        check_device(options.device)
        if options.models and not options.models.is_dir():
            raise InputError(f"--models {options.models}: no such folder: name the one that holds the parsers' models")
        wanted = [options.wanted] if len(self.parts) == 1 else [frozenset({kind}) for kind in KINDS]
        parsers = [part.load(replace(options, wanted=kinds)) for part, kinds in zip(self.parts, wanted, strict=True)]
        return Combination(*parsers) if len(parsers) > 1 else parsers[0]


def load(specification: str, options: Options = DEFAULTS) -> Parser:
    """The parser that a specification names, ready to parse.

    Raises:
        InputError: see :class:`Specification`.
    """
    return Specification.of(specification).load(options)


def check_device(device: str) -> None:
    """Raise InputError if PyTorch cannot calculate on a device; the empty one leaves the choice to the backend."""
    if not device:
        return
    import torch  # noqa: PLC0415 - slow to import

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"--device {device}: {reason[:120]}: give cpu, or a device that is there") from None


def refuse_argument(name: str, argument: str) -> None:
    """Raise InputError if there is an argument, for backends that take none."""
    if argument:
        raise InputError(f"--parser {name}:{argument}: {name} takes no argument: leave out :{argument}")


register("benepar", "structviews.parsing.backends.benepar:BeneparParser")
register("builtin", "structviews.parsing.backends.builtin:load")
register("spacy", "structviews.parsing.backends.spacy:SpacyParser")
register("stanza", "structviews.parsing.backends.stanza:StanzaParser")
register("trivial", "structviews.parsing.backends.trivial:load")
