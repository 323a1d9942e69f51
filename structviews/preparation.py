"""Sentences as a user gives them, made ready for encoders: tokenised and parsed where they are not."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structviews.config import Parsed
from structviews.errors import InputError
from structviews.sentence import ParsedSentence

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser, Unparsed

Sentence = str | Sequence[str] | ParsedSentence
TREEBANK = "treebank"


class SentenceError(InputError):
    """A sentence that cannot be encoded.

    Attributes:
        index: its place among those that were given, from 0.
        reason: why not, with the sentence where that helps.
    """

    def __init__(self, index: int, reason: str):
        super().__init__(index, reason)  # what a process that passes it on makes it of again
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return f"sentence {self.index + 1}: {self.reason}"


class Preparer:
    """Tokenises what is raw, parses what has no trees that are needed.

    Args:
        parsed: what the encoders were trained on.
        parser: gives trees to sentences that come without; by default the one that parsed the
            training corpus, loaded when first needed.

    Attributes:
        parser_is_given: whether there was one.
    """

    def __init__(self, parsed: Parsed, parser: "Parser | None" = None):
        self.parsed = parsed
        self.parser_is_given = parser is not None
        self._parser = parser

    def prepare(self, sentences: Sequence[Sentence], needs: Iterable[str]) -> list[ParsedSentence]:
        """The sentences with the structures ``needs`` (``tokens``, ``dependency``, ``constituency``).

        Raises:
            SentenceError: for a sentence that is empty or cannot be parsed.
            InputError: if it is one string, or the parser is not there.
        """
        if isinstance(sentences, str):
            raise InputError(f"{sentences[:40]!r}: give a list of sentences, not one string")
        needs = frozenset(needs)
        ready: list[ParsedSentence] = []
        to_parse = []
        # Those of a numpy array are of a class of numpy's own.
        raw = [str(sentence) for sentence in sentences if isinstance(sentence, str)]
        found_words = iter(self._tokenise(raw))
        for i, sentence in enumerate(sentences):
            words = next(found_words) if isinstance(sentence, str) else sentence
            parsed = words if isinstance(words, ParsedSentence) else _without_trees(i, words)
            if not _has_trees(parsed, needs):
                to_parse.append(i)
            ready.append(parsed)
        if to_parse:
            found = self._resolve_parser().parse([ready[i].tokens for i in to_parse])
            for i, parse in zip(to_parse, found, strict=True):
                if not isinstance(parse, ParsedSentence):
                    raise SentenceError(i, f"{' '.join(ready[i].tokens)[:60]!r}: not parsed: {parse.reason}")
                ready[i] = parse
        return ready

    def _tokenise(self, texts: Sequence[str]) -> "Sequence[tuple[str, ...] | Unparsed]":
        """The words of texts as those of the training corpus were found; if they were given, by spaCy's rules."""
        if not texts:
            return []
        from structviews.parsing.backends import Tokeniser  # noqa: PLC0415 - the offline stage loads when it is used
        from structviews.parsing.text import tokenise_all  # noqa: PLC0415

        name = self.parsed.tokeniser.get("name")
        if name != TREEBANK and name == self.parsed.parser.get("name", "").partition("+")[0]:
            parser = self._resolve_parser()
            if isinstance(parser, Tokeniser):
                return parser.tokenise(texts)
        return tokenise_all(texts, self.language)

    @property
    def language(self) -> str:
        return self.parsed.parser.get("language", "en")

    def _resolve_parser(self) -> "Parser":
        if self._parser is None:
            from structviews.parsing.backends import Options, load  # noqa: PLC0415

            # Gold trees parse nothing new.
            name = self.parsed.parser.get("name", TREEBANK)
            models = Path(self.parsed.models) if self.parsed.models else None
            # On another machine the libraries may have the models in their own folders.
            options = Options(self.language, models if models and models.is_dir() else None)
            try:
                self._parser = load("builtin" if name == TREEBANK else name, options)
            except (ImportError, InputError) as error:
                raise InputError(
                    f"the run's parser cannot be loaded here ({error}): give it parsed sentences, as eval --parsed does"
                ) from None
        warn_if_another(self._parser.describe(), self.parsed.parser)
        return self._parser


def warn_if_another(parser: dict[str, Any], trained_with: dict[str, Any]) -> None:
    """Warn where the descriptions of the parser of some sentences and of a run's parser differ in what both say."""
    if any(parser[key] != trained_with[key] for key in parser.keys() & trained_with.keys()):
        import warnings  # noqa: PLC0415

        this, that = (f"{each.get('name')} {each.get('version', '')}" for each in (parser, trained_with))
        warnings.warn(
            f"these sentences are parsed with {this}, but the run was trained on trees of "
            f"{that if that != this else f'{that} with another model or other settings'}",
            stacklevel=4,
        )


def _without_trees(index: int, words: "Sequence[str] | Unparsed") -> ParsedSentence:
    if not isinstance(words, Iterable):
        raise SentenceError(index, words.reason)
    try:
        return ParsedSentence(tuple(words))
    except ValueError as error:
        raise SentenceError(index, str(error)) from None


def _has_trees(sentence: ParsedSentence, needs: frozenset[str]) -> bool:
    return ("dependency" not in needs or sentence.has_dependencies) and (
        "constituency" not in needs or sentence.has_constituents
    )
