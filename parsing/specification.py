"""Parsers as the user writes them, ``NAME[:ARGUMENT]``, ``DEP+CONST`` or ``DEP+heads``: loaded, guarded, and combined.

Every backend is wrapped in ``Guarded``, which limits the size of its batches and checks its results.
"""

import sys
from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from structviews.corpus.sentence import InvalidSentence, ParsedSentence, check_tokens
from structviews.errors import InputError
from structviews.parsing.backends import BUNDLED, HEADS, PARSERS
from structviews.parsing.binarise import headed
from structviews.parsing.parser import (
    CONSTITUENCY,
    DEFAULTS,
    DEPENDENCY,
    KINDS,
    Fault,
    Options,
    Parser,
    Tokeniser,
    Unparsed,
    batches,
    is_out_of_memory,
    of_fit,
)
from structviews.runtime.machine import check_device
from structviews.runtime.processes import reporting

Tokens = Sequence[str]
Call = Callable[[Sequence[Any]], Sequence[Any]]
# Approximate characters per word, to estimate the number of tokens in untokenised text.
CHARACTERS = 6


class Guarded:
    """A backend with batches of limited size, whose results are checked.

    If a batch fails as a whole (memory runs out, results are missing, a tree is invalid), it is halved until
    the failing sentences are alone; these become a ``Fault``. The same list gives the same batches. Its ``name`` is its
    specification, as it appears in the manifest and in the reasons of faults.
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
        parse = partial(self._in_batches, self.parser.parse, most=self.batch_tokens)
        answers = of_fit(parse, [unfit(tokens) or tokens for tokens in sentences])
        for i, (tokens, answer) in enumerate(zip(sentences, answers, strict=True)):
            if isinstance(answer, Unparsed):
                continue
            if not isinstance(answer, ParsedSentence):
                answers[i] = Fault(f"{self.name} returned {type(answer).__name__} instead of a sentence")
            elif answer.tokens != tuple(tokens):
                answers[i] = Fault(f"{self.name} returned different tokens")
            else:
                there = {DEPENDENCY: answer.has_dependencies, CONSTITUENCY: answer.has_constituents}
                if missing := sorted(kind for kind in self.kinds if not there[kind]):
                    answers[i] = Fault(f"{self.name} returned no {' and no '.join(missing)} tree")
        return answers

    def _tokenise(self, texts: Sequence[str]) -> list[tuple[str, ...] | Unparsed]:
        parser = cast(Tokeniser, self.parser)
        with reporting(0):  # only parsing counts
            words = self._in_batches(parser.tokenise, texts, CHARACTERS * self.batch_tokens)
        return [each if isinstance(each, Unparsed) else unfit(each) or tuple(each) for each in words]

    def _in_batches(self, call: Call, items: Sequence[Sized], most: int) -> list[Any]:
        """The result of ``call`` for each item, in batches of padded size ``most``; failing ones are halved."""
        answers: list[Any] = [None] * len(items)
        for batch in batches([len(item) for item in items], most):
            with reporting(len(batch)):
                pending = [batch]
                while pending:
                    part = pending.pop()
                    found = self._attempt(call, [items[i] for i in part])
                    if not isinstance(found, Fault):
                        for i, answer in zip(part, found, strict=True):
                            answers[i] = answer
                    elif len(part) == 1:
                        answers[part[0]] = found
                    else:
                        middle = len(part) // 2
                        pending += [part[middle:], part[:middle]]
        return answers

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
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()
        return Fault(f"{self.name} ran out of memory")


def unfit(tokens: Tokens) -> Unparsed | None:
    """The reason why tokens are not a sentence, or None."""
    try:
        check_tokens(tokens)
    except InvalidSentence as error:
        return Unparsed(str(error))
    return None


class Combination:
    """Dependencies and tags from one backend, constituents from another.

    The second gets the first one's tokens, and only the sentences that the first could parse. All other results of
    either are dropped. Raises InputError if one of them does not give its kind of tree.
    """

    kinds = frozenset(KINDS)

    def __init__(self, dependency: Guarded, constituency: Guarded) -> None:
        for parser, kind in ((dependency, DEPENDENCY), (constituency, CONSTITUENCY)):
            check_gives(kind, parser, parser.name, f"{dependency.name}+{constituency.name}")
        self.dependency = dependency
        self.constituency = constituency
        self.batch_tokens = min(dependency.batch_tokens, constituency.batch_tokens)
        self.tokenise = dependency.tokenise

    def describe(self) -> dict[str, Any]:
        """Both descriptions, with the name and language that load the combination again."""
        both = {DEPENDENCY: self.dependency.describe(), CONSTITUENCY: self.constituency.describe()}
        name = f"{self.dependency.name}+{self.constituency.name}"
        return {"name": name, "language": self.dependency.language, **both}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences in order; if a backend fails on one, the result is the reason of the first that does."""
        with reporting(len(sentences), share=0.5):
            first = self.dependency.parse(sentences)
        with reporting(len(sentences), share=0.5):
            return with_constituents(first, self.constituency)


def check_gives(kind: str, parser: Parser, name: str, combination: str) -> None:
    """Raise InputError if a parser does not give the kind of tree that it is combined for."""
    if kind not in parser.kinds:
        raise InputError(
            f"--parser {combination}: {name} gives no {kind} trees: "
            "the first gives dependencies, the second constituents"
        )


def with_constituents(
    sentences: Sequence[ParsedSentence | Unparsed], parser: Parser
) -> list[ParsedSentence | Unparsed]:
    """The sentences with constituents from another parser; if it fails on one, the result is the reason."""
    found = of_fit(lambda fit: parser.parse([each.tokens for each in fit]), sentences)
    for i, (one, other) in enumerate(zip(sentences, found, strict=True)):
        if isinstance(one, ParsedSentence) and isinstance(other, ParsedSentence):
            sure = one.confidence[:2] + other.confidence[2:]
            found[i] = replace(one, left=other.left, right=other.right, labels=other.labels, confidence=sure)
    return found


class Headed:
    """Dependencies and tags from a backend, constituents made from the dependencies, see ``binarise.headed``.

    Raises InputError if the backend gives no dependencies.
    """

    kinds = frozenset(KINDS)

    def __init__(self, parser: Guarded) -> None:
        self.parser = parser
        self.name = f"{parser.name}+{HEADS}"
        if DEPENDENCY not in parser.kinds:
            raise InputError(f"--parser {self.name}: {parser.name} gives no {DEPENDENCY} trees: leave out +{HEADS}")
        self.batch_tokens = parser.batch_tokens
        self.tokenise = parser.tokenise

    def describe(self) -> dict[str, Any]:
        """The backend's description, with the name that loads both again."""
        return {**self.parser.describe(), "name": self.name}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences in order; where there are no trees, the result is the reason."""
        return of_fit(partial(map, headed), self.parser.parse(sentences))


# Name, argument and factory of each backend.
Factories = tuple[tuple[str, str, Callable[..., Any] | None], ...]


def factories(specification: str) -> Factories:
    """The backends of a specification, without the factory of one that is not yet loaded.

    Sent along to worker processes, where what a script has registered is not. Raises InputError if a backend does not
    exist, there are more than two, or constituents would come from two sources.
    """
    names = specification.removesuffix(f"+{HEADS}").split("+")
    if HEADS in names:
        raise InputError(f"--parser {specification}: {HEADS} comes after one parser of dependencies: give DEP+{HEADS}")
    if len(names) > len(KINDS):
        raise InputError(
            f"{specification!r} names {len(names)} parsers: give one, or one for dependencies + one for constituents"
        )
    if len(names) > 1 and specification.endswith(f"+{HEADS}"):
        raise InputError(f"--parser {specification}: constituents come from {names[1]}: leave out +{HEADS}")
    found = []
    for name in names:
        backend, _, argument = name.partition(":")
        if Path(name).is_dir() and backend not in PARSERS:  # that of a parser that was trained
            backend, argument = BUNDLED, name
        found.append((backend, argument, PARSERS.if_loaded(backend)))
    return tuple(found)


def load(specification: str, options: Options = DEFAULTS, known: Factories | None = None) -> Parser:
    """Load the parser that a specification names: ``NAME[:ARGUMENT]``, two of them joined by a plus, or one ``+heads``.

    ``known`` are the ``factories`` of the specification, if they were looked up already. Raises InputError if a backend
    does not exist or does not support the argument, language or device, its model cannot be read, or it does not give
    the trees that it is chosen for.
    """
    known = known or factories(specification)
    if options.device:
        check_device(options.device)
    if options.models and not options.models.is_dir():
        raise InputError(f"--models {options.models}: no such folder: give the one that holds the parsers' models")
    adds_heads = specification.endswith(f"+{HEADS}")
    wanted = [frozenset({kind}) for kind in KINDS] if adds_heads or len(known) > 1 else [options.wanted]
    parsers = []
    for (backend, argument, factory), kinds in zip(known, wanted, strict=False):
        name = f"{backend}:{argument}" if argument else backend
        parser = (factory or PARSERS[backend])(argument, replace(options, wanted=kinds))
        if options.confidence and not getattr(parser, "confidence", False):
            raise InputError(f"--confidence: {name} does not say how sure it is: leave it out, or choose builtin")
        parsers.append(Guarded(parser, name, options.language))
    return Headed(*parsers) if adds_heads else Combination(*parsers) if len(parsers) > 1 else parsers[0]
