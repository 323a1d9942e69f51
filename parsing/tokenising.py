"""Split raw text into words by the rules of its language: our own for English, and spaCy's for others."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import chain
from typing import Protocol

from structviews.errors import InputError
from structviews.parsing.english import EnglishRules, Place

# Cache size, in whitespace-separated strings: tens of megabytes.
REMEMBERED_PIECES = 1 << 17
# The time of the rules grows with the square of a row of marks and of a string without white space. A drawn line of
# so many marks is a word, and so is such a string, if most of it is ASCII: some scripts have no white space.
LEAST_MARKS = 200
MARKS, STRINGS = re.compile(rf"[^\w\s]{{{LEAST_MARKS},}}"), re.compile(r"\S{2000,}")
ENGLISH = "en"


class Rules(Protocol):
    """The tokeniser of a language.

    Attributes:
        name, version: what manifests and runs say of it.
        by_string: whether strings between white space do not influence one another.
    """

    name: str
    version: str
    by_string: bool

    def places(self, texts: Iterable[str]) -> list[list[Place]]:
        """Start and end of the tokens of each text, in order; some may be white space."""
        ...


class SpacyRules:
    """spaCy's rules for a language, without a model; see ``Rules``.

    Raises:
        InputError: if spaCy is not installed or has no rules for it, or they need a package that is not installed.
    """

    def __init__(self, language: str) -> None:
        try:
            import spacy  # noqa: PLC0415 - slow to import, and not needed for English
            from spacy.tokenizer import Tokenizer  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise InputError(
                f"--lang {language}: spaCy splits this language into words, but {error.name} is not installed: "
                "pip install 'structviews[spacy]', or give tokenised text with --tokenised"
            ) from None
        try:
            # stanza distinguishes scripts (zh-hans), spaCy does not.
            self._nlp = spacy.blank(language.partition("-")[0])
        except ImportError as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"--lang {language}: spaCy has no tokeniser for this language ({reason[:200]}): give tokenised text "
                "with --tokenised, or choose a --parser that has a tokeniser"
            ) from None
        self.name = f"spacy.blank({self._nlp.lang!r})"
        self.version = spacy.__version__
        self.by_string = isinstance(self._nlp.tokenizer, Tokenizer)

    def places(self, texts: Iterable[str]) -> list[list[Place]]:
        """See ``Rules``."""
        # Outside a memory zone spaCy keeps every word that it has seen; inside one it does not cache tokenised strings.
        with self._nlp.memory_zone():
            return [[(t.idx, t.idx + len(t)) for t in self._nlp.make_doc(text)] for text in texts]


@cache
def rules(language: str) -> Rules:
    """The rules for a language.

    Raises:
        InputError: if there are none here.
    """
    return EnglishRules() if language.partition("-")[0] == ENGLISH else SpacyRules(language)


def describe_rules(language: str) -> dict[str, str]:
    """Name and version of a language's rules, for the manifest."""
    return {"name": rules(language).name, "version": rules(language).version}


def tokenise(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Tokenise one sentence with the rules for its language."""
    return tokenise_all([text], language)[0]


def tokenise_all(texts: Iterable[str], language: str) -> list[tuple[str, ...]]:
    """Tokenise many sentences; see :func:`tokenise`.

    Most tokenisers treat each whitespace-separated string independently; others need whole sentences.
    """
    if not rules(language).by_string:
        return words_of(texts, language)
    pieces = [text.split() for text in texts]
    words = words_of_pieces(set(chain.from_iterable(pieces)), language)
    return [tuple(chain.from_iterable(map(words.__getitem__, each))) for each in pieces]


def words_of(texts: Iterable[str], language: str) -> list[tuple[str, ...]]:
    """Tokenise texts with the language's tokeniser."""
    texts = list(texts)
    places = rules(language).places(map(as_words, texts))
    return [_words(text, each) for text, each in zip(texts, places, strict=True)]


def places_in(text: str, language: str) -> tuple[str, list[Place]]:
    """A text as its language's rules read it (see ``as_words``), and start and end of its tokens."""
    read = as_words(text)
    return read, rules(language).places([read])[0]


def as_words(text: str) -> str:
    """The text with a word of the same length in place of what is only a word; see ``MARKS``."""
    if len(text) < LEAST_MARKS:
        return text
    text = MARKS.sub(lambda found: "x" * len(found[0]), text)
    return STRINGS.sub(lambda found: "x" * len(found[0]) if _is_ascii(found[0]) else found[0], text)


def _is_ascii(text: str) -> bool:
    return 2 * len(text.encode("ascii", "ignore")) > len(text)


def _words(text: str, places: Sequence[Place]) -> tuple[str, ...]:
    words = (text[start:end] for start, end in places)
    return tuple(word for word in words if not word.isspace())


def words_of_pieces(pieces: Set[str], language: str) -> Mapping[str, tuple[str, ...]]:
    """The tokens of strings without white space; the mapping also holds strings seen earlier."""
    known = remembered_pieces(language)
    if len(known) > REMEMBERED_PIECES:
        known.clear()
    # Not the difference of sets, which goes through all known ones, for a single sentence too.
    new = [piece for piece in pieces if piece not in known]
    known.update(zip(new, words_of(new, language), strict=True))
    return known


@cache
def remembered_pieces(language: str) -> dict[str, tuple[str, ...]]:
    """The cache of tokenised strings, one per language."""
    return {}


def between_spaces(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """Split tokenised sentences at white space."""
    return [tuple(text.split()) for text in texts]
