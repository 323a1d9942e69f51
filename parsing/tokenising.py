"""Split raw text into sentences, and sentences into words.

Words are those of the language's rules: our own for English, and spaCy's for others. The English rules are spaCy's as
data (``models/english/rules.json``, which ``scripts/tokeniser_rules.py`` writes). They give the words of
``spacy.blank("en")`` without spaCy, which takes a second to import.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Protocol, TypedDict

from structviews.errors import InputError
from structviews.runtime.documents import read_json

RULES = Path(__file__).parent / "models" / "english" / "rules.json"
ENGLISH = "en"
# Cache size, in whitespace-separated strings: tens of megabytes.
REMEMBERED_PIECES = 1 << 17
# The time of the rules grows with the square of a row of marks and of a string without white space. A drawn line of
# so many marks is a word, and so is such a string, if most of it is ASCII: some scripts have no white space.
LEAST_MARKS = 200
MARKS, STRINGS = re.compile(rf"[^\w\s]{{{LEAST_MARKS},}}"), re.compile(r"\S{2000,}")
# Between words one space is no token; other white space is one.
CHUNK = re.compile(r"\S+|\s+")
# The mark that closes a quotation in one language may open it in another: „so“, “so”, »so«, «so».
CLOSING = "'\")]’”“»«›‹"
OPENING = "'\"([‘“„‚«»‹›¿¡"
# What ends a sentence in any script; the list is that of spaCy's sentencizer (MIT licence, models/english/LICENSE).
ENDS = frozenset(
    "!.?։؟۔܀܁܂߹।॥၊။።፧፨᙮᜵᜶᠃᠉᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼᱾᱿‼‽⁇⁈⁉⸮⸼꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖﹗！．？𐩖𐩗𑁇𑁈𑂾𑂿𑃀𑃁𑅁𑅂𑅃𑇅𑇆𑇍𑇞𑇟𑈸𑈹𑈻𑈼𑊩"
    "𑑋𑑌𑗂𑗃𑗉𑗊𑗋𑗌𑗍𑗎𑗏𑗐𑗑𑗒𑗓𑗔𑗕𑗖𑗗𑙁𑙂𑜼𑜽𑜾𑩂𑩃𑪛𑪜𑱁𑱂𖩮𖩯𖫵𖬷𖬸𖭄𛲟𝪈｡。"
)

# Start and end of a token in its text.
Span = tuple[int, int]


class Rules(Protocol):
    """The tokeniser of a language.

    Attributes:
        name, version: what manifests and runs say of it.
        by_string: whether strings between white space do not influence one another.
    """

    name: str
    version: str
    by_string: bool

    def spans(self, texts: Iterable[str]) -> list[list[Span]]:
        """Start and end of the tokens of each text, in order; some may be white space."""
        ...


class RulesFile(TypedDict):
    """The content of ``rules.json``.

    Attributes:
        source: where the rules are from.
        version: the version of spaCy that they are from.
        prefix, suffix: what is cut off a string's start and end, as often as it is there.
        infix: what the rest is cut at.
        url: a rest that is one token, whatever is in it.
        special: strings with tokens of their own.
        split: the tokens that other rules make of some of these strings; where such tokens are found, those of the
            string replace them.
    """

    source: str
    version: str
    prefix: str
    suffix: str
    infix: str
    url: str
    special: dict[str, list[str]]
    split: dict[str, list[str]]


class EnglishRules:
    """spaCy's rules for English, applied to texts; see ``Rules``."""

    name = "English rules of spaCy"
    by_string = True

    def __init__(self) -> None:
        rules: RulesFile = read_json(RULES, RulesFile, "install structviews again")
        self.version = rules["version"]
        self._special = rules["special"]
        self._prefix = re.compile(rules["prefix"]).search
        self._suffix = re.compile(rules["suffix"]).search
        self._infixes = re.compile(rules["infix"]).finditer
        self._url_pattern = rules["url"]
        self._split: dict[str, set[tuple[str, ...]]] = {}
        for first, *others in rules["split"].values():
            self._split.setdefault(first, set()).add((first, *others))

    @cached_property
    def _url(self) -> re.Pattern[str]:
        return re.compile(self._url_pattern)

    def spans(self, texts: Iterable[str]) -> list[list[Span]]:
        """See ``Rules``; white space is included."""
        return [
            [(0, len(text))] if _is_plain(text) and text not in self._special else self._spans(text) for text in texts
        ]

    def _spans(self, text: str) -> list[Span]:
        spans: list[Span] = []
        for found in CHUNK.finditer(text):
            start, end = found.span()
            start += start > 0 and text[start] == " "
            tokens = self._tokens(text[start:end]) if start < end else []
            spans += pairwise(accumulate(map(len, tokens), initial=start))
        # Special strings in place of what they were split into.
        for first, after in reversed(_without_overlaps(self._matches([text[start:end] for start, end in spans]))):
            (start, _), (_, end) = spans[first], spans[after - 1]
            if special := self._special.get(text[start:end]):
                spans[first:after] = pairwise(accumulate(map(len, special), initial=start))
        return spans

    def _tokens(self, string: str) -> list[str]:
        """The tokens of a string without white space, or of white space only."""
        before: list[str] = []
        after: list[str] = []
        while string and string not in self._special and not _is_plain(string):
            prefix, suffix = _found(self._prefix(string)), ""
            rest = string[len(prefix) :]
            if not (prefix and rest in self._special):
                suffix = _found(self._suffix(rest))
                if suffix and string[: -len(suffix)] in self._special:
                    prefix = ""
            if not prefix and not suffix:
                break
            before += [prefix] * bool(prefix)
            after += [suffix] * bool(suffix)
            string = string[len(prefix) : len(string) - len(suffix)]
        return [*before, *self._inner(string), *reversed(after)]

    def _inner(self, string: str) -> Sequence[str]:
        """The tokens of a string without prefixes and suffixes."""
        if string in self._special:
            return self._special[string]
        if not string or _is_plain(string) or self._url.match(string):
            return [string] * bool(string)
        cuts = [cut for found in self._infixes(string) for cut in found.span()]
        pieces = (string[start:end] for start, end in pairwise([0, *cuts, len(string)]))
        return [piece for piece in pieces if piece]

    def _matches(self, tokens: Sequence[str]) -> Iterator[Span]:
        """Consecutive tokens that a special string may have been split into."""
        for start, token in enumerate(tokens):
            for split in self._split.get(token, ()):
                end = start + len(split)
                if split == tuple(tokens[start:end]):
                    yield start, end


def _is_plain(string: str) -> bool:
    """Whether no pattern can match inside a string: each needs something other than the letters a to z."""
    return string.isascii() and string.isalpha()


def _found(match: re.Match[str] | None) -> str:
    return match[0] if match else ""


def _without_overlaps(matches: Iterable[Span]) -> list[Span]:
    """The matches that meet no longer one, nor an earlier one as long; those that are left out block others too."""
    taken: set[int] = set()
    chosen = []
    for start, end in sorted(matches, key=lambda match: (match[0] - match[1], match[0])):
        if start not in taken and end - 1 not in taken:
            chosen.append((start, end))
        taken.update(range(start, end))
    return sorted(chosen)


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

    def spans(self, texts: Iterable[str]) -> list[list[Span]]:
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


def tokenise(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Tokenise one sentence with the rules for its language."""
    return tokenise_all([text], language)[0]


def tokenise_all(texts: Iterable[str], language: str) -> list[tuple[str, ...]]:
    """Tokenise many sentences; see :func:`tokenise`.

    Most tokenisers treat each whitespace-separated string independently; others need whole sentences.
    """
    if not rules(language).by_string:
        return _words_of(texts, language)
    pieces = [text.split() for text in texts]
    words = words_of_pieces(set(chain.from_iterable(pieces)), language)
    return [tuple(chain.from_iterable(map(words.__getitem__, each))) for each in pieces]


def _words_of(texts: Iterable[str], language: str) -> list[tuple[str, ...]]:
    texts = list(texts)
    spans = rules(language).spans(map(as_words, texts))
    words = ([text[start:end] for start, end in each] for text, each in zip(texts, spans, strict=True))
    return [tuple(word for word in each if not word.isspace()) for each in words]


def as_words(text: str) -> str:
    """The text with a word of the same length in place of what is only a word; see ``MARKS``."""
    if len(text) < LEAST_MARKS:
        return text
    text = MARKS.sub(lambda found: "x" * len(found[0]), text)
    return STRINGS.sub(lambda found: "x" * len(found[0]) if _is_ascii(found[0]) else found[0], text)


def _is_ascii(text: str) -> bool:
    return 2 * len(text.encode("ascii", "ignore")) > len(text)


def words_of_pieces(pieces: Set[str], language: str) -> Mapping[str, tuple[str, ...]]:
    """The tokens of strings without white space; the mapping also holds strings seen earlier."""
    remembered = remembered_pieces(language)
    if len(remembered) > REMEMBERED_PIECES:
        remembered.clear()
    # Not the difference of sets, which goes through all remembered ones, for a single sentence too.
    new = [piece for piece in pieces if piece not in remembered]
    remembered.update(zip(new, _words_of(new, language), strict=True))
    return remembered


@cache
def remembered_pieces(language: str) -> dict[str, tuple[str, ...]]:
    """The cache of tokenised strings, one per language."""
    return {}


def split_sentences(text: str, tokenised: bool, language: str) -> list[Span]:
    """Sentences of a text as (start, end) offsets, without surrounding white space.

    Applies spaCy's sentence rules and two of our own for dialogue: an opening quotation mark or bracket
    belongs to the sentence that follows it, and a lower-case word after a closing one continues the
    sentence (``"Why?" she said.``).
    """
    words = _words_with_spans(text, tokenised, language)
    begins = []
    for i, word in enumerate(words):
        goes_on = i > 0 and word.text[0].islower() and words[i - 1].text in CLOSING
        if i == 0 or (word.starts_sentence and not goes_on):
            first = i
            # An opening mark is attached to the next word and not to the previous one.
            while first > 1 and words[first - 1].text in OPENING:
                if words[first - 1].end != words[first].start or words[first - 2].end == words[first - 1].start:
                    break
                first -= 1
            begins.append(first)
    ends = [*begins[1:], len(words)][: len(begins)]
    return [(words[begin].start, words[end - 1].end) for begin, end in zip(begins, ends, strict=True) if begin < end]


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a text with its offsets; ``starts_sentence`` if spaCy's rules start a sentence there."""

    text: str
    start: int
    end: int
    starts_sentence: bool


def _words_with_spans(text: str, tokenised: bool, language: str) -> list[Word]:
    """The tokens of a text; text that is already tokenised is split at white space."""
    read = text if tokenised else as_words(text)
    spans = [found.span() for found in re.finditer(r"\S+", text)] if tokenised else rules(language).spans([read])[0]
    words = []
    begins = False
    for (start, end), starts in zip(spans, sentence_starts([read[start:end] for start, end in spans]), strict=True):
        begins |= starts
        # A sentence may start with white space.
        if not text[start:end].isspace():
            words.append(Word(text[start:end], start, end, begins))
            begins = False
    return words


def sentence_starts(tokens: Sequence[str]) -> Iterator[bool]:
    """Whether each token starts a sentence by spaCy's rules: the first, and one after an end and its marks."""
    ended = False
    for i, token in enumerate(tokens):
        ends = token in ENDS
        starts = ended and not ends and not all(unicodedata.category(character)[0] == "P" for character in token)
        ended = ends or (ended and not starts)
        yield starts or i == 0
