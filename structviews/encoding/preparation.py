"""Prepare user input for encoding: tokenise and parse what is not yet tokenised or parsed."""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.text_language import remark, warn_once
from structviews.encoding.word_limit import CUT, DEFAULT_LIMIT, WordLimit, tell_cuts
from structviews.errors import InputError
from structviews.parsing.parser import Options, Parser, Tokeniser, Unparsed
from structviews.parsing.specification import load
from structviews.parsing.text import repair
from structviews.parsing.tokenising import tokenise_all
from structviews.runs.settings_file import Parsed
from structviews.runtime.wording import counted

Sentence = str | Sequence[str] | ParsedSentence
TREEBANK = "treebank"
EMPTY = "."
"""What a sentence without words is encoded as, as in SentEval's example encoders."""


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
        any_language: whether the run may be of other languages than its corpus, so that none is remarked on.

    Attributes:
        parser_is_given: whether ``parser`` was given.
    """

    def __init__(self, parsed: Parsed, parser: Parser | None = None, any_language: bool = False):
        self.parsed = parsed
        self.any_language = any_language
        self.parser_is_given = parser is not None
        self._parser = parser

    def prepare(
        self, sentences: Iterable[Sentence], needs: Iterable[str], limit: WordLimit = DEFAULT_LIMIT
    ) -> list[ParsedSentence]:
        """The sentences with the structures ``needs`` (``tokens``, ``dependency``, ``constituency``).

        Raises:
            SentenceError: if one is not a sentence, is longer than the limit, or cannot be parsed.
            InputError: if ``sentences`` are not sentences at all, or the parser is not installed.
        """
        needs = frozenset(needs)
        shortened = Shortened(limit)
        repaired = [repair(each, self.language)[0] if isinstance(each, str) else each for each in listed(sentences)]
        given = [shortened.text(i, each) if isinstance(each, str) else each for i, each in enumerate(repaired)]
        warn_once(self.language_remark(given), stacklevel=7)  # where ``encode`` was called
        found_words = iter(self._tokenise([each for each in given if isinstance(each, str)]))
        ready: list[ParsedSentence] = []
        for i, sentence in enumerate(given):
            words = next(found_words) if isinstance(sentence, str) else sentence
            ready.append(shortened.sentence(i, words if isinstance(words, ParsedSentence) else without_trees(i, words)))
        shortened.tell()
        to_parse = [i for i, sentence in enumerate(ready) if not _has_trees(sentence, needs)]
        if to_parse:
            found = self._resolve_parser().parse([ready[i].tokens for i in to_parse])
            for i, parse in zip(to_parse, found, strict=True):
                if not isinstance(parse, ParsedSentence):
                    raise SentenceError(i, f"{' '.join(ready[i].tokens)[:60]!r}: not parsed: {parse.reason}")
                ready[i] = parse
        return ready

    def __getstate__(self) -> dict[str, Any]:
        # A parser that was not given is loaded again on first use, so that a copy is the same before and after it.
        return self.__dict__ | {"_parser": self._parser if self.parser_is_given else None}

    def _tokenise(self, texts: Sequence[str]) -> Sequence[tuple[str, ...] | Unparsed]:
        """Tokenise as the training corpus was; if that came tokenised, by its language's rules."""
        if not texts:
            return []

        name = self.parsed.tokeniser.get("name")
        if name != TREEBANK and name == self.parsed.parser.get("name", "").partition("+")[0]:
            parser = self._resolve_parser()
            if isinstance(parser, Tokeniser):
                return parser.tokenise(texts)
        return tokenise_all(texts, self.language)

    def language_remark(self, sentences: Iterable[Sentence]) -> str | None:
        """A line on text that is not in the run's language, and what to do; None if nothing shows that.

        Parsed sentences are passed over: whoever parsed them knew their language.
        """
        language = self.parsed.parser.get("language")
        if self.any_language or language is None:
            return None
        texts = (each for each in sentences if not isinstance(each, ParsedSentence))
        return remark((each if isinstance(each, str) else " ".join(each) for each in texts), language)

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


def listed(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Sentences from any iterable as a list, each checked to be one.

    Raises:
        SentenceError: for the first that is not a sentence.
        InputError: if they are a single string, a table, or nothing that holds sentences.
    """
    if isinstance(sentences, str):
        raise InputError(f"{sentences[:40]!r}: give a list of sentences, not one string")
    shape = getattr(sentences, "shape", (0,))
    if len(shape) != 1:
        raise InputError(f"sentences of shape {tuple(shape)}: give a list, or one column of a table, by its name")
    if isinstance(sentences, bytes | bytearray | Mapping) or not isinstance(sentences, Iterable):
        raise InputError(f"{short(sentences)}: give a list of sentences")
    return [sentence_of(i, each) for i, each in enumerate(sentences)]


def sentence_of(index: int, given: Any) -> Sentence:
    """A sentence, if it is one: a text, a parsed sentence, or a sequence of words.

    Raises:
        SentenceError: if it is none.
    """
    if isinstance(given, ParsedSentence):
        check_characters(index, " ".join(given.tokens))
        return given
    if isinstance(given, str):
        check_characters(index, given)
        return str(given)  # elements of a numpy array are numpy strings
    is_row = isinstance(given, Sequence) or (isinstance(given, np.ndarray) and given.ndim == 1)
    if isinstance(given, bytes | bytearray) or not is_row:
        raise SentenceError(index, f"{short(given)} is not a sentence: give a text, a list of words or a parsed one")
    for place, word in enumerate(given, 1):
        if not isinstance(word, str):
            raise SentenceError(index, f"word {place} is {short(word)}: a word must be text")
    check_characters(index, " ".join(given))
    return tuple(map(str, given))


def check_characters(index: int, text: str) -> None:
    """Raise SentenceError for half a character (a lone surrogate), which no file or word list can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise SentenceError(index, f"{text[:60]!r}: half a character, {half}: read the text as UTF-8") from None


def short(value: Any) -> str:
    """A value in one short line, for messages."""
    return " ".join(repr(value).split())[:60]


def too_long(size: str, most: str) -> str:
    """Why a sentence of this size is refused, and what can be done."""
    remedy = "split it, raise max_tokens (--max-tokens), or have it cut with overlong = cut (--overlong cut)"
    return f"{size}, but the limit is {most}: {remedy}"


class Shortened:
    """Holds sentences to a limit, in a call of ``Preparer.prepare``.

    Args:
        limit: the limit.

    Attributes:
        cut: indices of the sentences that were cut.
    """

    def __init__(self, limit: WordLimit):
        self.limit = limit
        self.cut: set[int] = set()

    def text(self, index: int, text: str) -> str:
        """A text that can be tokenised in bounded time: a text has no fewer words than pieces between white space.

        Raises:
            SentenceError: if it is too long.
        """
        most, characters = self.limit.max_tokens, self.limit.characters
        pieces = text.split(maxsplit=most)
        if len(pieces) > most:
            self._over(index, counted(len(text.split()), "word"), f"{most:,}")
            text = " ".join(pieces[:most])
        if len(text) > characters:
            self._over(index, counted(len(text), "character"), f"{characters:,} for max_tokens = {most}")
            text = text[:characters]
        return text if pieces else EMPTY

    def sentence(self, index: int, sentence: ParsedSentence) -> ParsedSentence:
        """A sentence with at most as many words as allowed.

        Raises:
            SentenceError: if it is too long, or too long and its trees forbid to cut it.
        """
        most = self.limit.max_tokens
        if len(sentence.tokens) <= most:
            return sentence
        whole = sentence.has_dependencies or sentence.has_constituents
        self._over(index, counted(len(sentence.tokens), "word"), f"{most:,}", whole)
        return replace(sentence, tokens=sentence.tokens[:most], tags=sentence.tags[:most])

    def _over(self, index: int, size: str, most: str, whole: bool = False) -> None:
        """Note that a sentence is cut; raise SentenceError if that is not wanted, or it is ``whole`` with its trees."""
        if self.limit.overlong != CUT:
            raise SentenceError(index, too_long(size, most))
        if whole:
            remedy = "a tree cannot be cut: give the words alone, or raise max_tokens (--max-tokens)"
            raise SentenceError(index, f"{size} with trees, but the limit is {most}: {remedy}")
        self.cut.add(index)

    def tell(self) -> None:
        """Report how many sentences were cut."""
        tell_cuts(Counter({self.limit.max_tokens: len(self.cut)} if self.cut else {}))


def without_trees(index: int, words: Sequence[str] | Unparsed) -> ParsedSentence:
    """A sentence of words alone; of a full stop if there are none.

    Raises:
        SentenceError: if the words are not a sentence.
    """
    if isinstance(words, Unparsed):
        raise SentenceError(index, words.reason)
    try:
        return ParsedSentence(tuple(words) or (EMPTY,))
    except ValueError as error:
        raise SentenceError(index, str(error)) from None


def _has_trees(sentence: ParsedSentence, needs: frozenset[str]) -> bool:
    return ("dependency" not in needs or sentence.has_dependencies) and (
        "constituency" not in needs or sentence.has_constituents
    )
