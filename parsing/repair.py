"""Characters that got into a raw text by accident, and what was meant.

Each is replaced on its own, whatever stands around it, so that a sentence is repaired alike in a corpus and alone. They
are those that ftfy repairs character by character, soft hyphens, and zero-width spaces. Mojibake (``Ã©``), which ftfy
guesses from a whole text, is left alone: a guess differs with what else is in the text, and may be wrong.
"""

import re
from collections import Counter
from collections.abc import Iterable
from unicodedata import decomposition

FULL_WIDTH, SOFT_HYPHEN, ZERO_WIDTH = "full-width", "soft hyphen", "zero-width"


def parts(characters: Iterable[int]) -> dict[int, str]:
    """What Unicode takes characters apart into, without those that it does not."""
    names = {code: decomposition(chr(code)).split()[1:] for code in characters}
    return {code: "".join(chr(int(name, 16)) for name in found) for code, found in names.items() if found}


# Control characters that no text has stand for bytes of Windows-1252, as in HTML. Five bytes have no meaning there.
C1 = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
# The zero-width joiner and non-joiner stay: they are spelling in Persian and in India's scripts, and make emoji.
TABLES: dict[str, dict[int, str]] = {
    "windows-1252": {code: meant for code, meant in C1.items() if meant},
    "ligature": parts([*map(ord, "ĲĳŉǄǅǆǇǈǉǊǋǌǱǲǳ"), *range(0xFB00, 0xFB07)]),
    FULL_WIDTH: parts([0x3000, *range(0xFF01, 0xFFEF)]),
    SOFT_HYPHEN: {0xAD: ""},
    ZERO_WIDTH: dict.fromkeys([0x200B, 0x2060, *range(0x206A, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFD)], ""),
}
# Where they are no accident: Chinese and Japanese commas are full-width, and a zero-width space separates words in
# scripts without blanks. `xx` may be any language.
MEANT = {
    FULL_WIDTH: {"ja", "ko", "lzh", "wuu", "xx", "yue", "zh"},
    ZERO_WIDTH: {"km", "lo", "my", "shn", "th", "xx"},
}
SUSPECT = re.compile(f"[{''.join(map(chr, sorted(set().union(*TABLES.values()))))}]")
# Inside a word that was broken over two lines.
BROKEN = re.compile("\u00ad\r?\n")


def repair(text: str, language: str) -> tuple[str, list[str]]:
    """A raw text without accidents, and the kinds that it had, in the order of ``TABLES``.

    Args:
        text: the text.
        language: its language, by a code such as ``en`` or ``zh-hans``.
    """
    if text.isascii() or not SUSPECT.search(text):
        return text, []
    # stanza distinguishes scripts (zh-hans).
    language = language.partition("-")[0]
    kinds = []
    for kind, table in TABLES.items():
        if language not in MEANT.get(kind, ()):
            better = (BROKEN.sub("", text) if kind == SOFT_HYPHEN else text).translate(table)
            if better != text:
                text = better
                kinds.append(kind)
    return text, kinds


class Repairs:
    """Repairs a text line by line, and counts the lines that needed it.

    Args:
        language: see ``repair``.

    Attributes:
        lines: number of lines by kind.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self.lines: Counter[str] = Counter()
        self._last = 0
        self._found: set[str] = set()

    def __call__(self, line: int, text: str) -> str:
        """A line, or the next piece of it, repaired; ``line`` is its number."""
        text, kinds = repair(text, self.language)
        if kinds:
            before = self._found if line == self._last else set()
            self.lines.update(set(kinds) - before)
            self._last, self._found = line, before | set(kinds)
        return text
