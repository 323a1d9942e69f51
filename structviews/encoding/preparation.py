"""Prepare user input for encoding: tokenise and parse what is not yet tokenised or parsed."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.parser import Options, Parser, Tokeniser, Unparsed
from structviews.parsing.specification import load
from structviews.parsing.text import tokenise_all
from structviews.runs.settings_file import Parsed

Sentence = str | Sequence[str] | ParsedSentence
TREEBANK = "treebank"


class SentenceError(InputError):
    """A sentence that cannot be encoded.

    Attributes:
        index: its index in the input, from 0.
        reason: why it cannot be encoded, quoting the sentence where that helps.
    """

    def __init__(self, index: int, reason: str):
        super().__init__(index, reason)  # the arguments that pickle rebuilds it from
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return f"sentence {self.index + 1}: {self.reason}"


class Preparer:
    """Tokenises raw sentences and parses those that lack the required trees.

    Args:
        parsed: description of the training corpus.
        parser: parses sentences that have no trees; by default the parser of the training corpus, loaded on first use.

    Attributes:
        parser_is_given: whether ``parser`` was given.
    """

    def __init__(self, parsed: Parsed, parser: Parser | None = None):
        self.parsed = parsed
        self.parser_is_given = parser is not None
        self._parser = parser

    def prepare(self, sentences: Sequence[Sentence], needs: Iterable[str]) -> list[ParsedSentence]:
        """The sentences with the structures ``needs`` (``tokens``, ``dependency``, ``constituency``).

        Raises:
            SentenceError: if a sentence is empty or cannot be parsed.
            InputError: if ``sentences`` is a single string, or the parser is not installed.
        """
        if isinstance(sentences, str):
            raise InputError(f"{sentences[:40]!r}: give a list of sentences, not one string")
        needs = frozenset(needs)
        ready: list[ParsedSentence] = []
        to_parse = []
        # Elements of a numpy array are numpy strings.
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

    def _tokenise(self, texts: Sequence[str]) -> Sequence[tuple[str, ...] | Unparsed]:
        """Tokenise as the training corpus was; if that came tokenised, by spaCy's rules."""
        if not texts:
            return []

        name = self.parsed.tokeniser.get("name")
        if name != TREEBANK and name == self.parsed.parser.get("name", "").partition("+")[0]:
            parser = self._resolve_parser()
            if isinstance(parser, Tokeniser):
                return parser.tokenise(texts)
        return tokenise_all(texts, self.language)

    @property
    def language(self) -> str:
        language: str = self.parsed.parser.get("language", "en")
        return language

    def _resolve_parser(self) -> Parser:
        if self._parser is None:
            # A treebank has no parser of its own.
            name = self.parsed.parser.get("name", TREEBANK)
            models = Path(self.parsed.models) if self.parsed.models else None
            # On another machine, the models may be in the libraries' default folders.
            options = Options(self.language, models if models and models.is_dir() else None)
            try:
                self._parser = load("builtin" if name == TREEBANK else name, options)
            except (ImportError, InputError) as error:
                raise InputError(
                    f"the run's parser cannot be loaded here ({error}): give parsed sentences, as eval --parsed does"
                ) from None
        warn_if_another(self._parser.describe(), self.parsed.parser)
        return self._parser


def warn_if_another(parser: dict[str, Any], trained_with: dict[str, Any]) -> None:
    """Warn if the parser of the sentences differs from the run's parser in any field that both descriptions have."""
    if any(parser[key] != trained_with[key] for key in parser.keys() & trained_with.keys()):
        this, that = (f"{each.get('name')} {each.get('version', '')}" for each in (parser, trained_with))
        warnings.warn(
            f"these sentences were parsed with {this}, but the run was trained on trees of "
            f"{that if that != this else f'{that} with another model or other settings'}",
            stacklevel=4,
        )


def _without_trees(index: int, words: Sequence[str] | Unparsed) -> ParsedSentence:
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
