"""The interface of parsers, and the options that they are created with."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError

T = TypeVar("T")
R = TypeVar("R")
KINDS = DEPENDENCY, CONSTITUENCY = "dependency", "constituency"
# In the messages of PyTorch on a GPU, on a CPU, and of cuBLAS.
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)?")


@dataclass(frozen=True)
class Unparsed:
    """A sentence that a backend could not parse."""

    reason: str


@dataclass(frozen=True)
class Fault(Unparsed):
    """A sentence that a backend failed on: its result was invalid, or memory ran out."""


@dataclass(frozen=True)
class Options:
    """The options that every backend is created with; raises InputError if the language is not a valid code."""

    language: str = "en"  # ISO 639 code, with a script where stanza distinguishes scripts (zh-hans)
    models: Path | None = None  # folder with the libraries' models; each library's own folder if None
    device: str = ""  # a PyTorch device; chosen by the backend if empty
    wanted: frozenset[str] = frozenset(KINDS)  # the trees that will be used; a backend may leave out the others
    confidence: bool = False  # whether sentences get ``ParsedSentence.confidence``

    def __post_init__(self) -> None:
        if not LANGUAGE.fullmatch(self.language):
            raise InputError(f"--lang {self.language}: give a code such as en, de or zh-hans")


DEFAULTS = Options()


class Parser(Protocol):
    """Parses sentences. Backends that subclass it inherit its defaults.

    A backend need not sort or pad sentences to save memory, nor check its own results: every backend from the
    registry is wrapped in ``specification.Guarded``, which calls ``parse`` with batches of sentences of similar length.
    """

    kinds: frozenset[str]  # the trees that each sentence gets: ``dependency``, ``constituency`` or both
    # The most tokens per call of ``parse``: sentences times length of the longest; a longer sentence comes alone.
    batch_tokens: int = 4096

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse tokenised sentences, which are never re-tokenised, and return the results in order.

        The same list must give the same trees. A backend that takes many sentences at a time may call
        ``structviews.runtime.processes.report`` with the number of those that it has parsed since its last report.
        """

    def describe(self) -> dict[str, Any]:
        """``name`` in the registry, ``version``, ``settings`` and ``model`` (a hash), for the manifest.

        JSON without paths, device or times: equal descriptions mean equal trees. ``Guarded`` adds name and language.
        """


@runtime_checkable
class Tokeniser(Protocol):
    """A parser that can also tokenise text, as in its training data."""

    def tokenise(self, texts: Sequence[str]) -> Sequence[tuple[str, ...] | Unparsed]:
        """Tokenise texts of one sentence each; no token may be empty or contain white space."""


def of_fit(function: Callable[[list[T]], Iterable[R]], items: Sequence[T | Unparsed]) -> list[R | Unparsed]:
    """What a function makes of those items that are not ``Unparsed``, in order; the others stay in their places."""
    made = iter(function([each for each in items if not isinstance(each, Unparsed)]))
    return [each if isinstance(each, Unparsed) else next(made) for each in items]


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of Python, NumPy or PyTorch means that memory ran out."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY)


def batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Group sentences of similar length into batches, shortest first; yields indices into their ``lengths``.

    A batch has at most ``most`` tokens, padding included; a longer sentence gets its own batch.
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > most:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
