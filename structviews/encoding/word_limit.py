"""The longest sentence that a run encodes, what is done with longer ones, and warnings of encoding."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from structviews.runtime.wording import counted
from structviews.settings import Settings, setting

# Sentences encoded together unless a caller says otherwise: what repeats among them is computed once.
BATCH_SIZE = 1024
CUT, RAISE = "cut", "raise"


@dataclass(frozen=True)
class WordLimit(Settings):
    """The longest sentence that is encoded; the time and memory of a parser grow with the square of its words."""

    max_tokens: int = setting(500, "Encode sentences of at most this many words.", least=1)
    overlong: str = setting(
        RAISE, "What to do with longer sentences: raise an error, or cut them with a warning.", choices=(RAISE, CUT)
    )

    def __str__(self) -> str:
        """What the limit does to vectors; empty if it cuts nothing."""
        return f"cut to {counted(self.max_tokens, 'word')}" if self.overlong == CUT else ""


DEFAULT_LIMIT = WordLimit()
# How many sentences were cut to how many words, where this is counted.
_counting: ContextVar[Counter[int] | None] = ContextVar("_counting", default=None)


@contextmanager
def counted_cuts() -> Iterator[Counter[int]]:
    """Count the sentences that are cut within the block, by the number of words that they are cut to."""
    counts: Counter[int] = Counter()
    before = _counting.set(counts)
    try:
        yield counts
    finally:
        _counting.reset(before)


@contextmanager
def one_warning() -> Iterator[None]:
    """Warn once, at the end of the block, of all sentences that are cut within it."""
    with counted_cuts() as counts:
        yield
    tell_cuts(counts)


def tell_cuts(counts: Counter[int]) -> None:
    """Report sentences that were cut: to the block that counts them, or else as a warning."""
    if (counting := _counting.get()) is not None:
        counting.update(counts)
        return
    for words, count in counts.items():
        were = "was" if count == 1 else "were"
        warn(f"{counted(count, 'sentence')} {were} cut to the first {counted(words, 'word')} (max_tokens)")


# Packages that are not the user's: PyTorch calls modules, and what is decorated for inference.
INSIDE = ("structviews", "torch")
_warned: set[str] = set()


def warn(line: str) -> None:
    """Warn at the line of the user's code that called the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(line, stacklevel=level)


def warn_once(line: str) -> None:
    """Warn, unless the process has said the same."""
    if line not in _warned:
        _warned.add(line)
        warn(line)
