"""Wrapper around every backend: limits the size of its batches and checks its results."""

import sys
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, cast

from structviews.corpus.sentence import InvalidSentence, ParsedSentence, check_tokens
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, Parser, Tokeniser, Unparsed
from structviews.runtime.processes import reporting

Tokens = Sequence[str]
Call = Callable[[Sequence[Any]], Sequence[Any]]
# Approximate characters per word, to estimate the number of tokens in untokenised text.
CHARACTERS = 6
# PyTorch's messages on a GPU, on a CPU, and from cuBLAS.
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")


@dataclass(frozen=True)
class Fault(Unparsed):
    """A sentence that a backend failed on: its result was invalid, or memory ran out."""


class Guarded:
    """A backend with batches of limited size, whose results are checked.

    If a batch fails as a whole (memory runs out, results are missing, a tree is invalid), it is halved until
    the failing sentences are alone; these become a ``Fault``. No state is kept between batches, so that the
    same list gives the same batches.

    Args:
        parser: the backend.
        name: its specification, as it appears in the manifest and in the reasons of faults.
        language: the language that it was loaded for.
    """

    def __init__(self, parser: Parser, name: str, language: str) -> None:
        self.parser = parser
        self.name = name
        self.language = language
        self.kinds = parser.kinds
        self.batch_tokens = parser.batch_tokens
        self.tokenise = self._tokenise if isinstance(parser, Tokeniser) else None

    def describe(self) -> dict[str, Any]:
        """The backend's own description, with the name and language that load it again."""
        return {**self.parser.describe(), "name": self.name, "language": self.language}

    def parse(self, sentences: Sequence[Tokens]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences in order; where there are no trees, the result is the reason."""
        parsed: list[Any] = [unfit(tokens) for tokens in sentences]
        fit = [i for i, reason in enumerate(parsed) if reason is None]
        answers = self._in_batches(self.parser.parse, [sentences[i] for i in fit], self.batch_tokens)
        for i, answer in zip(fit, answers, strict=True):
            parsed[i] = self._checked(sentences[i], answer)
        return parsed

    def _tokenise(self, texts: Sequence[str]) -> list[tuple[str, ...] | Unparsed]:
        parser = cast(Tokeniser, self.parser)
        with reporting(0):  # only parsing counts
            words = self._in_batches(parser.tokenise, texts, CHARACTERS * self.batch_tokens)
        return [each if isinstance(each, Unparsed) else unfit(each) or tuple(each) for each in words]

    def _in_batches(self, call: Call, items: Sequence[Sized], most: int) -> list[Any]:
        """The result of ``call`` for each item; ``most`` as in :func:`batches`."""
        answers: list[Any] = [None] * len(items)
        for batch in batches([len(item) for item in items], most):
            with reporting(len(batch)):
                found = self._halving(call, [items[i] for i in batch])
            for i, answer in zip(batch, found, strict=True):
                answers[i] = answer
        return answers

    def _halving(self, call: Call, items: Sequence[Any]) -> list[Any]:
        answers = self._attempt(call, items)
        if not isinstance(answers, Fault):
            return list(answers)
        if len(items) == 1:
            return [answers]
        middle = len(items) // 2
        return self._halving(call, items[:middle]) + self._halving(call, items[middle:])

    def _attempt(self, call: Call, items: Sequence[Any]) -> Sequence[Any] | Fault:
        try:
            answers = call(items)
        except InvalidSentence as error:
            return Fault(f"{self.name} returned no valid tree: {error}")
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        else:
            if len(answers) == len(items):
                return list(answers)
            return Fault(f"{self.name} returned {len(answers)} sentences for {len(items)}")
        # The tensors held by the error's traceback are only freed here, after the handler.
        release_memory()
        return Fault(f"{self.name} ran out of memory")

    def _checked(self, tokens: Tokens, answer: ParsedSentence | Unparsed) -> ParsedSentence | Unparsed:
        if isinstance(answer, Unparsed):
            return answer
        if not isinstance(answer, ParsedSentence):
            return Fault(f"{self.name} returned {type(answer).__name__} instead of a sentence")
        if answer.tokens != tuple(tokens):
            return Fault(f"{self.name} returned different tokens")
        missing = self.kinds - trees_of(answer)
        return Fault(f"{self.name} returned no {' and no '.join(sorted(missing))} tree") if missing else answer


def unfit(tokens: Tokens) -> Unparsed | None:
    """The reason why tokens are not a sentence, or None."""
    try:
        check_tokens(tokens)
    except InvalidSentence as error:
        return Unparsed(str(error))
    return None


def trees_of(sentence: ParsedSentence) -> frozenset[str]:
    """The kinds of trees that a sentence has."""
    there = {DEPENDENCY: sentence.has_dependencies, CONSTITUENCY: sentence.has_constituents}
    return frozenset(kind for kind, has in there.items() if has)


def batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Group sentences of similar length into batches, shortest first.

    Args:
        lengths: length of each sentence.
        most: maximum number of tokens in a batch, padding included; a longer sentence gets its own batch.

    Yields:
        Indices into ``lengths``.
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > most:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of Python, NumPy or PyTorch means that memory ran out."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY)


def release_memory() -> None:
    """Release the GPU memory that PyTorch caches."""
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()
