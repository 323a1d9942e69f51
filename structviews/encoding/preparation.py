"""Prepare user input for encoding: tokenise and parse what is not yet tokenised or parsed."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from structviews.corpus.relations import OVER_DEPENDENCIES, has_relations
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.word_limit import CUT, DEFAULT_LIMIT, WordLimit, tell_cuts, warn, warn_once
from structviews.errors import InputError
from structviews.parsing.backends import BUNDLED, HEADS, TREEBANK, for_text
from structviews.parsing.parser import Options, Parser, Tokeniser, Unparsed
from structviews.parsing.specification import load
from structviews.parsing.text import repair
from structviews.parsing.tokenising import tokenise_all
from structviews.runs.settings_file import Parsed
from structviews.runtime.wording import counted
from structviews.words.vocabulary import Vocabulary

Sentence = str | Sequence[str] | ParsedSentence
EMPTY = "."
"""What a sentence without words is encoded as, as in SentEval's example encoders."""
# Another language is told by the share of distinct words that are not among the run's most frequent ones, in the first
# sentences of a call. In Latin letters it takes a few words. Of 51,457 English sentences of tasks and treebanks, 129
# get the warning, many of them Spanish or Portuguese; of 1,233 Afrikaans ones, 98 %.
FREQUENT, FEWEST, SENTENCES, CHARACTERS = 20_000, 8, 30, 500
# The limit on a text's characters, at least that of ``parse``: a tokeniser's time may grow with their square.
MIN_CHARACTERS, CHARACTERS_PER_WORD = 10_000, 20
WORD = re.compile(r"[^\W\d_]{2,}")
LATIN = re.compile(r"[A-Za-zªºÀ-ɏḀ-ỿ]")


class SentenceError(InputError):
    """A sentence that cannot be encoded: its index in the input, from 0, and the reason, which may quote it."""

    def __init__(self, index: int, reason: str):
        super().__init__(index, reason)  # the arguments that pickle rebuilds it from
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return f"sentences[{self.index}]: {self.reason}"


class Preparer:
    """Tokenises raw sentences and parses those that lack the required trees.

    ``parsed`` describes the training corpus, whose parser, loaded on first use, is the default. The run's
    ``vocabulary``, by descending frequency, tells other languages apart; None to tell none.
    """

    def __init__(self, parsed: Parsed, parser: Parser | None = None, vocabulary: Vocabulary | None = None):
        self.parsed = parsed
        self.vocabulary = vocabulary
        self.language: str = parsed.parser.get("language", "en")
        self.parser_is_given = parser is not None
        self._parser = parser

    def prepare(
        self, sentences: Iterable[Sentence], needs: Iterable[str], limit: WordLimit = DEFAULT_LIMIT
    ) -> list[ParsedSentence]:
        """The sentences with the structures ``needs`` (``tokens``, ``dependency``, ``constituency``).

        Raises SentenceError if one is not a sentence, is longer than the limit, or cannot be parsed; InputError if
        ``sentences`` are not sentences at all, or the parser is not installed.
        """
        needs, inputs = frozenset(needs), listed(sentences)
        cut: set[int] = set()  # indices of the sentences that were cut
        for i, each in enumerate(inputs):
            if isinstance(each, str):
                inputs[i] = limited(i, repair(each, self.language)[0], limit, cut)
        if remark := self.language_remark(inputs):
            warn_once(remark)
        texts = [each for each in inputs if isinstance(each, str)]
        # As the training corpus was; if that came tokenised, by its language's rules.
        name = self.parsed.tokeniser.get("name")
        is_parsers = name != TREEBANK and name == self.parsed.parser.get("name", "").partition("+")[0]
        parser = self._resolve_parser() if texts and is_parsers else None
        tokenised = parser.tokenise(texts) if isinstance(parser, Tokeniser) else tokenise_all(texts, self.language)
        found_words = iter(tokenised)
        ready: list[ParsedSentence] = []
        for i, each in enumerate(inputs):
            words = next(found_words) if isinstance(each, str) else each
            if isinstance(words, Unparsed):
                raise SentenceError(i, words.reason)
            try:
                sentence = words if isinstance(words, ParsedSentence) else ParsedSentence(tuple(words) or (EMPTY,))
            except ValueError as error:
                raise SentenceError(i, str(error)) from None
            if len(sentence.tokens) > limit.max_tokens:
                has_trees = sentence.has_dependencies or sentence.has_constituents
                note_cut(i, counted(len(sentence.tokens), "word"), f"{limit.max_tokens:,}", limit, cut, has_trees)
                first = slice(limit.max_tokens)
                sentence = replace(sentence, tokens=sentence.tokens[first], tags=sentence.tags[first])
            ready.append(sentence)
        if cut:
            tell_cuts(Counter({limit.max_tokens: len(cut)}))
        to_parse = [
            i
            for i, sentence in enumerate(ready)
            if (needs & OVER_DEPENDENCIES and not sentence.has_dependencies)
            or ("constituency" in needs and not sentence.has_constituents)
        ]
        if to_parse:
            found = self._resolve_parser().parse([ready[i].tokens for i in to_parse])
            for i, parse in zip(to_parse, found, strict=True):
                if not isinstance(parse, ParsedSentence):
                    raise SentenceError(i, f"{' '.join(ready[i].tokens)[:60]!r}: not parsed: {parse.reason}")
                ready[i] = parse
        bare = [i for i, each in enumerate(ready) if not has_relations(each.relations)] if "labelled" in needs else []
        if bare:
            reason = "its dependency tree has no relations of Universal Dependencies, which a view reads (word 1 has "
            relation = short(ready[bare[0]].relations[0])
            raise SentenceError(bare[0], f"{reason}{relation}): give them, or the words alone")
        return ready

    def __getstate__(self) -> dict[str, Any]:
        # A parser that was not given is loaded again on first use, so that a copy is the same before and after it.
        return self.__dict__ | {"_parser": self._parser if self.parser_is_given else None}

    def language_remark(self, sentences: Iterable[Sentence]) -> str | None:
        """A line on text that seems to be in another language than the run's, and what to do; else None.

        Parsed sentences are passed over: whoever parsed them knew their language.
        """
        if self.vocabulary is None or len(self.vocabulary) <= FREQUENT:
            return None
        own = (each for each in sentences if not isinstance(each, ParsedSentence))
        texts = (each if isinstance(each, str) else " ".join(each) for each in islice(own, SENTENCES))
        found = (WORD.findall(text[:CHARACTERS]) for text in texts)
        words = list(dict.fromkeys(word for line in found for word in line))
        ranks = np.stack([self.vocabulary.ids(words), self.vocabulary.ids(map(str.lower, words))])
        rare = ~((ranks > 0) & (ranks <= FREQUENT)).any(axis=0)
        letters = "".join(words)
        is_enough = len(words) >= FEWEST or 2 * len(LATIN.findall(letters)) < len(letters)
        if not is_enough or 2 * rare.sum() <= len(words):
            return None
        return (
            f"most words of this text are rare or unknown to the run, which was trained on language {self.language!r}: "
            "if it is in another one, its vectors say little: train a run on that language, parsed with --lang CODE "
            "--parser stanza (in Python, structviews.parsing.sources.open_source with "
            "structviews.parsing.parser.Options)"
        )

    def _resolve_parser(self) -> Parser:
        if self._parser is None:
            name = for_text(self.parsed.parser.get("name", TREEBANK))
            models = Path(self.parsed.models) if self.parsed.models else None
            # On another machine, the models may be in the libraries' default folders.
            options = Options(self.language, models if models and models.is_dir() else None)
            try:
                self._parser = load(name, options)
            except (ImportError, InputError) as error:
                raise InputError(
                    f"the run's parser cannot be loaded here ({error}): give parsed sentences, as eval --parsed does"
                ) from None
        warn_if_another(self._parser.describe(), self.parsed.parser)
        return self._parser


def warn_if_another(parser: Mapping[str, Any], trained_with: Mapping[str, Any]) -> None:
    """Warn if the parser of the sentences differs from the run's parser in any field that both descriptions have.

    Other weights of the bundled parser are no other parser: runs keep their scores when it improves (docs/log.md).
    """
    common = parser.keys() & trained_with.keys()
    if trained_with.get("name") in (BUNDLED, f"{BUNDLED}+{HEADS}"):
        common -= {"model"}
    if any(parser[key] != trained_with[key] for key in common):
        this, that = (f"{each.get('name')} {each.get('version', '')}" for each in (parser, trained_with))
        warn(
            f"these sentences were parsed with {this}, but the run was trained on trees of "
            f"{that if that != this else f'{that} with another model or other settings'}"
        )


def listed(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Sentences from any iterable as a list.

    Raises SentenceError for the first that is not one; InputError for a string, a table, or what holds no sentences.
    """
    if isinstance(sentences, str):
        raise InputError(f"{sentences[:40]!r}: give a list of sentences, not one string")
    shape = getattr(sentences, "shape", (0,))
    if len(shape) != 1:
        raise InputError(f"sentences of shape {tuple(shape)}: give a list, or one column of a table, by its name")
    if isinstance(sentences, bytes | bytearray | Mapping) or not isinstance(sentences, Iterable):
        raise InputError(f"{short(sentences)}: give a list of sentences")
    found: list[Sentence] = []
    for index, value in enumerate(sentences):
        each: Any = value
        if isinstance(each, ParsedSentence):
            text = " ".join(each.tokens)
        elif isinstance(each, str):
            each = text = str(each)  # elements of a numpy array are numpy strings
        elif isinstance(each, bytes | bytearray) or not (
            isinstance(each, Sequence) or (isinstance(each, np.ndarray) and each.ndim == 1)
        ):
            raise SentenceError(index, f"{short(each)} is not a sentence: give a text, a list of words or a parsed one")
        else:
            for number, word in enumerate(each, 1):
                if not isinstance(word, str):
                    raise SentenceError(index, f"word {number} is {short(word)}: a word must be text")
            each, text = tuple(map(str, each)), " ".join(each)
        try:
            text.encode()
        except UnicodeEncodeError as error:  # which no file or word list can hold
            half = f"U+{ord(text[error.start]):04X}"
            raise SentenceError(index, f"{text[:60]!r}: half a character, {half}: read the text as UTF-8") from None
        found.append(each)
    return found


def short(value: Any) -> str:
    """A value in one short line, for messages."""
    return " ".join(repr(value).split())[:60]


def too_long(size: str, most: str) -> str:
    """Why a sentence of this size is refused, and what can be done."""
    remedy = "split it, raise max_tokens (--max-tokens), or have it cut with overlong = cut (--overlong cut)"
    return f"{size}, but the limit is {most}: {remedy}"


def limited(index: int, text: str, limit: WordLimit, cut: set[int]) -> str:
    """A text that can be tokenised in bounded time; see ``note_cut``.

    A text has no fewer words than pieces between white space.
    """
    most = limit.max_tokens
    characters = max(MIN_CHARACTERS, CHARACTERS_PER_WORD * most)
    pieces = text.split(maxsplit=most)
    if len(pieces) > most:
        note_cut(index, counted(len(text.split()), "word"), f"{most:,}", limit, cut)
        text = " ".join(pieces[:most])
    if len(text) > characters:
        size = counted(len(text), "character")
        note_cut(index, size, f"{characters:,} for max_tokens = {most}", limit, cut)
        text = text[:characters]
    return text if pieces else EMPTY


def note_cut(index: int, size: str, most: str, limit: WordLimit, cut: set[int], has_trees: bool = False) -> None:
    """Note that a sentence is cut; raise SentenceError if that is not wanted, or it has trees."""
    if limit.overlong != CUT:
        raise SentenceError(index, too_long(size, most))
    if has_trees:
        remedy = "a tree cannot be cut: give the words alone, or raise max_tokens (--max-tokens)"
        raise SentenceError(index, f"{size} with trees, but the limit is {most}: {remedy}")
    cut.add(index)
