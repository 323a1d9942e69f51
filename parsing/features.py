"""Encode words as rows of integers: a learnt form, hashed affixes and a shape."""

import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

PAD, UNKNOWN = 0, 1
SPECIALS = 2
# Penn Treebank and SentEval spellings -> the characters in other English text.
PLAIN = {
    "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
    "``": '"', "''": '"', "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "`": "'",
}  # fmt: skip
APOSTROPHES = str.maketrans("\u2018\u2019", "''")
DIGIT, RUN = re.compile(r"\d"), re.compile(r"(.)\1+")
PREFIXES = (1, 3)
SUFFIXES = (2, 3, 4)
# Cache size in words: tens of megabytes.
REMEMBERED_WORDS = 1 << 17


class Classes(dict[int, str]):
    """The class of every character, by its code, as ``str.translate`` asks for it; found once for each."""

    def __missing__(self, code: int) -> str:
        c = chr(code).translate(APOSTROPHES)
        self[code] = "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c
        return self[code]


CLASSES = Classes()


def normalise(word: str) -> str:
    """The form to look up: lower case, plain quotes and brackets, digits as ``0``."""
    lowered = word.lower()
    lowered = PLAIN.get(lowered, lowered).translate(APOSTROPHES)
    return DIGIT.sub("0", lowered)


def shape(word: str) -> str:
    """``Word-9s`` -> ``Xx-dx``: character classes, runs shortened to one."""
    return RUN.sub(r"\1", word.translate(CLASSES))


class Featuriser:
    """Integer features of words, cached for recent distinct words.

    A row is ``[form, prefix 1, prefix 3, suffix 2, suffix 3, suffix 4, shape]``; ``form`` indexes
    the learnt words, every other column its own hash table of ``buckets`` rows.

    Args:
        words: the learnt lower-case forms; their ids follow those of padding and unknown.
        buckets: size of each hash table.
    """

    n_hashed = len(PREFIXES) + len(SUFFIXES) + 1

    def __init__(self, words: Sequence[str], buckets: int):
        self.words = list(words)
        self.buckets = buckets
        self._ids = {word: i for i, word in enumerate(self.words, SPECIALS)}
        self._rows: dict[str, tuple[int, ...]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.words, self.buckets)  # pickled without the words seen so far

    def row(self, word: str) -> tuple[int, ...]:
        """Features of one word, length ``1 + n_hashed``."""
        row = self._rows.get(word)
        if row is None:
            if len(self._rows) >= REMEMBERED_WORDS:
                self._rows.clear()
            row = self._rows[word] = self._compute(word)
        return row

    def __call__(self, words: Iterable[str]) -> np.ndarray:
        """Features of words, shape ``(n, 1 + n_hashed)``, int32."""
        rows = chain.from_iterable(map(self.row, words))
        return np.fromiter(rows, np.int32).reshape(-1, 1 + self.n_hashed)

    def _compute(self, word: str) -> tuple[int, ...]:
        form = normalise(word)
        pieces = [f"p{form[:k]}" for k in PREFIXES] + [f"s{form[-k:]}" for k in SUFFIXES] + [f"x{shape(word)}"]
        # A lone surrogate, from a broken source, is hashed like any other character.
        hashes = (zlib.crc32(piece.encode("utf-8", "surrogatepass")) for piece in pieces)
        return (self._ids.get(form, UNKNOWN), *(value % self.buckets for value in hashes))
