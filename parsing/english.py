"""The words of English text by spaCy's rules, without spaCy, which takes a second to import.

The rules are data (``models/english/rules.json``, which ``scripts/tokeniser_rules.py`` writes), and the words are those
of ``spacy.blank("en")``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, TypedDict

from structviews.runtime.documents import read_json

RULES = Path(__file__).parent / "models" / "english" / "rules.json"
# Between words one space is no token; other white space is one.
CHUNK = re.compile(r"\S+|\s+")

# Start and end of a token in its text.
Place = tuple[int, int]


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


class Match(NamedTuple):
    """Consecutive tokens that a special string may have been split into: from ``start`` to before ``end``."""

    start: int
    end: int


class EnglishRules:
    """The rules, applied to texts; see ``structviews.parsing.tokenising.Rules``."""

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

    def places(self, texts: Iterable[str]) -> list[list[Place]]:
        """Start and end of the tokens of each text, in order, those of white space included."""
        return [[(0, len(text))] if self._is_word(text) else self._places(text) for text in texts]

    def _is_word(self, text: str) -> bool:
        return _is_plain(text) and text not in self._special

    def _places(self, text: str) -> list[Place]:
        places: list[Place] = []
        for chunk in CHUNK.finditer(text):
            start, end = chunk.span()
            start += start > 0 and text[start] == " "
            tokens = self._tokens(text[start:end]) if start < end else []
            places += pairwise(accumulate(map(len, tokens), initial=start))
        return self._repaired(text, places)

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
        cuts = [place for found in self._infixes(string) for place in found.span()]
        parts = (string[start:end] for start, end in pairwise([0, *cuts, len(string)]))
        return [part for part in parts if part]

    def _repaired(self, text: str, places: list[Place]) -> list[Place]:
        """The tokens with special strings in place of what they were split into."""
        matches = _without_overlaps(list(self._matches([text[start:end] for start, end in places])))
        for match in reversed(matches):
            (start, _), (_, end) = places[match.start], places[match.end - 1]
            if tokens := self._special.get(text[start:end]):
                places[match.start : match.end] = pairwise(accumulate(map(len, tokens), initial=start))
        return places

    def _matches(self, tokens: Sequence[str]) -> Iterator[Match]:
        for start, token in enumerate(tokens):
            for split in self._split.get(token, ()):
                end = start + len(split)
                if split == tuple(tokens[start:end]):
                    yield Match(start, end)


def _is_plain(string: str) -> bool:
    """Whether no pattern can match inside a string: each needs something other than the letters a to z."""
    return string.isascii() and string.isalpha()


def _found(match: re.Match[str] | None) -> str:
    return match[0] if match else ""


def _without_overlaps(matches: list[Match]) -> list[Match]:
    """The matches that meet no longer one, nor an earlier one as long; those that are left out block others too."""
    taken: set[int] = set()
    kept = []
    for match in sorted(matches, key=lambda match: (match.start - match.end, match.start)):
        if match.start not in taken and match.end - 1 not in taken:
            kept.append(match)
        taken.update(range(match.start, match.end))
    return sorted(kept)
