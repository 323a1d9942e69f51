"""Sentences as a user gives them, made ready for encoders: tokenised and parsed where they are not."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from structviews.config import Parsed
from structviews.errors import InputError
from structviews.sentence import ParsedSentence

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser

Sentence = str | Sequence[str] | ParsedSentence


class Preparer:
    """Tokenises what is raw, parses what has no trees that are needed.

    Args:
        parsed: what the encoders were trained on.
        parser: gives trees to sentences that come without; by default the one that parsed the
            training corpus, loaded when first needed.
    """

    def __init__(self, parsed: Parsed, parser: "Parser | None" = None):
        self.parsed = parsed
        self._parser = parser

    def prepare(self, sentences: Sequence[Sentence], needs: Iterable[str]) -> list[ParsedSentence]:
        """The sentences with the structures ``needs`` (``tokens``, ``dependency``, ``constituency``).

        Raises:
            InputError: for a sentence that is empty or cannot be parsed.
        """
        if isinstance(sentences, str):
            raise InputError(f"{sentences[:40]!r}: give a list of sentences, not one string")
        needs = frozenset(needs)
        ready: list[ParsedSentence] = []
        to_parse = []
        for i, sentence in enumerate(sentences):
            parsed = sentence if isinstance(sentence, ParsedSentence) else _tokens(i, sentence)
            if not _has_trees(parsed, needs):
                to_parse.append(i)
            ready.append(parsed)
        if to_parse:
            found = self._resolve_parser().parse([ready[i].tokens for i in to_parse])
            for i, parse in zip(to_parse, found, strict=True):
                if not isinstance(parse, ParsedSentence):
                    raise InputError(
                        f"sentence {i + 1}, {' '.join(ready[i].tokens)[:60]!r}: not parsed: {parse.reason}"
                    )
                ready[i] = parse
        return ready

    def _resolve_parser(self) -> "Parser":
        if self._parser is None:
            from structviews.parsing.backends import load  # noqa: PLC0415

            # Gold trees parse nothing new.
            name = self.parsed.parser.get("name", "treebank")
            try:
                self._parser = load("builtin" if name == "treebank" else name)
            except (ImportError, InputError) as error:
                raise InputError(
                    f"the run reads trees, and its parser cannot be loaded here ({error}): give it parsed sentences, "
                    "as eval --parsed does"
                ) from None
        warn_if_another(self._parser.describe(), self.parsed.parser)
        return self._parser


def warn_if_another(parser: dict[str, Any], trained_with: dict[str, Any]) -> None:
    """Warn where the descriptions of the parser of some sentences and of a run's parser differ."""
    if parser != trained_with:
        import warnings  # noqa: PLC0415

        warnings.warn(
            f"these sentences are parsed with {parser.get('name')} {parser.get('version', '')}, but the run was "
            f"trained on trees of {trained_with.get('name')} {trained_with.get('version', '')}",
            stacklevel=4,
        )


def _tokens(index: int, sentence: str | Sequence[str]) -> ParsedSentence:
    if isinstance(sentence, str):
        from structviews.parsing.text import tokenise  # noqa: PLC0415 - the offline stage loads when it is used

        sentence = tokenise(sentence)
    try:
        return ParsedSentence(tuple(sentence))
    except ValueError as error:
        raise InputError(f"sentence {index + 1}: {error}") from None


def _has_trees(sentence: ParsedSentence, needs: frozenset[str]) -> bool:
    return ("dependency" not in needs or sentence.has_dependencies) and (
        "constituency" not in needs or sentence.has_constituents
    )
