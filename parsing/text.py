"""Read raw text as documents of sentences, in constant memory, and repair it line by line.

Two layouts are supported. *lines*: one sentence per line, blank lines between documents. *prose*:
running text, one blank line between paragraphs, two or more between documents.

Characters that got into a text by accident are replaced by what was meant, each on its own, so that a sentence is
repaired alike in a corpus and alone. They are those that ftfy repairs character by character, soft hyphens, and
zero-width spaces. Mojibake (``Ã©``), which ftfy guesses from a whole text, is left alone: a guess differs with what
else is in the text, and may be wrong.
"""

import codecs
import hashlib
import io
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unicodedata import decomposition

import pyarrow as pa

from structviews.errors import InputError
from structviews.parsing.parser import Unparsed
from structviews.parsing.tokenising import CLOSING, OPENING, split_sentences
from structviews.runtime.wording import reason

Layout = Literal["lines", "prose"]
# Gives a line, by its number and its text, as it should be.
RepairLine = Callable[[int, str], str]

# Anything longer is not a sentence, but text without line breaks or data.
MAX_CHARACTERS = 10_000
# Part of a paragraph that is split into sentences at a time.
PIECE_CHARACTERS = 50_000
CHUNK_BYTES = 1 << 20
# The layout is guessed from this many lines. It is prose if more than this share of them have a sentence end inside;
# the share is below 0.03 in automatically split text and above 0.5 in text wrapped at 72 columns.
HEAD_LINES = 1000
PROSE_SHARE = 0.1
COMPRESSED = (".zst", ".gz")

# Tabs and form feeds are white space in old texts; any other control character means that the text is damaged.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
# A sentence end and, as group 1, the word before it. The end is followed by white space and a letter, or directly by
# the next word in scripts without spaces.
SENTENCE_END = re.compile(
    rf"(\w*)(?:[。！？][{re.escape(CLOSING)}]*(?=\w)"
    rf"|[.!?…։؟۔।][{re.escape(CLOSING)}]*\s+[{re.escape(OPENING)}]*(?=[^\W\d_]))"
)
# The kinds of repair that depend on the language or on what is around.
FULL_WIDTH, SOFT_HYPHEN, ZERO_WIDTH = "full-width", "soft hyphen", "zero-width"


def _decomposed(characters: Iterable[int]) -> dict[int, str]:
    """What Unicode takes characters apart into, without those that it does not."""
    names = {code: decomposition(chr(code)).split()[1:] for code in characters}
    return {code: "".join(chr(int(name, 16)) for name in found) for code, found in names.items() if found}


# Control characters that no text has stand for bytes of Windows-1252, as in HTML. Five bytes have no meaning there.
C1 = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
# The zero-width joiner and non-joiner stay: they are spelling in Persian and in India's scripts, and make emoji.
TABLES: dict[str, dict[int, str]] = {
    "windows-1252": {code: meant for code, meant in C1.items() if meant},
    "ligature": _decomposed([*map(ord, "ĲĳŉǄǅǆǇǈǉǊǋǌǱǲǳ"), *range(0xFB00, 0xFB07)]),
    FULL_WIDTH: _decomposed([0x3000, *range(0xFF01, 0xFFEF)]),
    SOFT_HYPHEN: {0xAD: ""},
    ZERO_WIDTH: dict.fromkeys([0x200B, 0x2060, *range(0x206A, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFD)], ""),
}
# Where they are no accident: Chinese and Japanese commas are full-width, and a zero-width space separates words in
# scripts without blanks. `xx` may be any language.
INTENDED = {
    FULL_WIDTH: {"ja", "ko", "lzh", "wuu", "xx", "yue", "zh"},
    ZERO_WIDTH: {"km", "lo", "my", "shn", "th", "xx"},
}
SUSPECT = re.compile(f"[{''.join(map(chr, sorted(set().union(*TABLES.values()))))}]")
# Inside a word that was broken over two lines.
BROKEN = re.compile("\u00ad\r?\n")


class RawSentence(NamedTuple):
    """The text of one sentence and its location: ``document`` and ``position`` count from 0, ``line`` from 1."""

    document: int
    position: int
    line: int
    text: str


@dataclass(slots=True)
class Survey:
    """What one pass over a text found: hash, size and lines of the decompressed text, and a guess of its layout.

    ``name`` stands for the file in messages; ``state`` is its ``file_state`` before it was read.
    """

    path: Path
    name: str
    sha256: str
    bytes: int
    lines: int
    guess: Layout
    state: tuple[int, ...]

    def describe(self) -> dict[str, Any]:
        """The file's entry in the manifest."""
        return {"sha256": self.sha256, "bytes": self.bytes}

    def changed(self) -> bool:
        """Whether the content has changed or can no longer be read; read again only if ``file_state`` differs."""
        if file_state(self.path) == self.state:
            return False
        with suppress(InputError):
            again = survey(self.path, self.name)
            if again.sha256 == self.sha256:
                self.state = again.state
                return False
        return True


def survey(path: Path, name: str) -> Survey:
    """Read a text once: hash it, count its lines, check its encoding and guess its layout.

    It is decompressed if its path ends in ``.zst`` or ``.gz``; ``name`` stands for it in messages. Raises InputError if
    it cannot be read, is not UTF-8, is empty or holds only blank lines.
    """
    state = file_state(path)
    if not state or path.is_dir():
        raise InputError(f"{name} {'is a folder' if state else 'does not exist'}: give the path of a text file")
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    size = lines = start = 0
    blank, last = True, b""
    try:
        with open_bytes(path) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                decoder.decode(chunk)
                digest.update(chunk)
                size += len(chunk)
                start = size - len(decoder.getstate()[0])  # of what is not yet decoded
                lines += chunk.count(b"\n")
                blank, last = blank and not chunk.strip(), chunk
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = 1 + lines + error.object.count(b"\n", 0, error.start)
        raise InputError(
            f"{name}:{line}: not UTF-8 at byte {start + error.start} of the text "
            f"(0x{error.object[error.start]:02x}): convert it, for example with iconv -f latin1 -t utf-8"
        ) from None
    except OSError as error:
        raise InputError(f"{name} cannot be read ({reason(error)}): give a complete, readable file") from None
    if blank:
        raise InputError(f"{name} {'holds only blank lines' if size else 'is empty'}: give a text with sentences")
    lines += not last.endswith(b"\n")
    with open_text(path) as text:
        head = [line for _, line in islice(numbered_lines(text), HEAD_LINES) if line.strip()]
    guess: Layout = "prose" if sum(map(ends_inside, head)) > PROSE_SHARE * len(head) else "lines"
    return Survey(path, name, digest.hexdigest(), size, lines, guess, state)


def file_state(path: Path) -> tuple[int, ...]:
    """Inode, size and times of a file, which change when it is modified or replaced; empty if it does not exist."""
    if not path.exists():
        return ()
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def open_bytes(path: Path) -> pa.NativeFile:
    """Open a text as a byte stream, decompressed according to its suffix."""
    return pa.input_stream(str(path), compression="detect" if path.suffix in COMPRESSED else None)


def open_text(path: Path) -> io.TextIOWrapper:
    """Open a text as a character stream; only a line feed ends a line, and a byte-order mark is dropped."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="\n")


def ends_inside(line: str) -> bool:
    """Whether a sentence ends inside a line; initials and titles (J. Smith, Mr. Smith) do not count."""
    for end in SENTENCE_END.finditer(line):
        word = end[1]
        short = len(word) == 1 or (len(word) == 2 and word[1].islower())
        if not line[end.end()].islower() and word != "Mrs" and not (short and word[0].isupper()):
            return True
    return False


def read_sentences(
    path: Path, layout: Layout, *, tokenised: bool, language: str, repairs: "Repairs | None" = None
) -> Iterator[RawSentence]:
    """Yield the sentences of a text in order, not yet tokenised, and repaired unless it is ``tokenised`` already.

    The language is for the repair, which ``repairs`` count, and for the rules that split prose. A text that is not
    UTF-8 is a UnicodeDecodeError; ``survey`` finds it first, with a better message.
    """
    fix: RepairLine = (lambda line, text: text) if tokenised else repairs or Repairs(language)
    document = position = 0
    with open_text(path) as stream:
        found = read_prose(stream, Paragraph(tokenised, language), fix)
        if layout == "lines":  # one that was truncated must not become short enough to be a sentence
            lines = numbered_lines(stream)
            found = ((line, (raw if len(raw) > MAX_CHARACTERS else fix(line, raw)).strip()) for line, raw in lines)
        for line, text in found:
            if text:
                yield RawSentence(document, position, line, text)
                position += 1
            elif position:
                document, position = document + 1, 0


def numbered_lines(stream: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1; very long lines are truncated."""
    for number, text in enumerate(iter(partial(stream.readline, MAX_CHARACTERS + 1), ""), 1):
        yield number, text
        while not text.endswith("\n") and (text := stream.readline(PIECE_CHARACTERS)):
            pass


def read_prose(stream: io.TextIOWrapper, paragraph: "Paragraph", fix: RepairLine) -> Iterator[tuple[int, str]]:
    """Yield the sentences of running text with their lines; an empty one ends a document, see the module docstring."""
    blank_lines = last_line = 0
    line = 1
    for raw in chain(iter(partial(stream.readline, PIECE_CHARACTERS), ""), [""]):  # empty at the end
        text = fix(line, raw)
        # A piece of white space inside a long line is not a blank line.
        if not raw or (not text.strip() and line != last_line):
            blank_lines += 1
            yield from paragraph.take(finished=True)
            if blank_lines > 1:
                yield line, ""
        else:
            blank_lines = 0
            yield from paragraph.add(line, text)
        last_line = line
        line += raw.endswith("\n")


@dataclass
class Paragraph:
    """The part of a paragraph that is not yet split into sentences."""

    tokenised: bool
    language: str
    text: str = ""
    starts: list[tuple[int, int]] = field(default_factory=list)  # (offset in text, line), ascending

    def add(self, line: int, text: str) -> list[tuple[int, str]]:
        """Append a piece; return the sentences that are complete as (line, text)."""
        self.starts.append((len(self.text), line))
        self.text += text
        return self.take(finished=False) if len(self.text) > PIECE_CHARACTERS else []

    def take(self, *, finished: bool) -> list[tuple[int, str]]:
        """Split the text and return its sentences; the last one stays unless the paragraph has ended."""
        spans = split_sentences(self.text, self.tokenised, self.language)
        rest = len(self.text)
        if not finished and spans and rest - spans[-1][0] <= MAX_CHARACTERS:
            rest = spans.pop()[0]
        sentences = [(self._line(start), " ".join(self.text[start:end].split())) for start, end in spans]
        later = [(offset - rest, line) for offset, line in self.starts if offset > rest]
        self.starts = [(0, self._line(rest)), *later] if rest < len(self.text) else []
        self.text = self.text[rest:]
        return sentences

    def _line(self, offset: int) -> int:
        """The source line of the character at ``offset``."""
        return self.starts[bisect_right(self.starts, offset, key=itemgetter(0)) - 1][1]


def unfit(text: str) -> Unparsed | None:
    """The reason why a text cannot be a sentence, or None."""
    if len(text) > MAX_CHARACTERS:
        return Unparsed(f"more than {MAX_CHARACTERS:,} characters")
    if control := CONTROL.search(text):
        return Unparsed(f"control character U+{ord(control.group()):04X}")
    return None


def repair(text: str, language: str) -> tuple[str, list[str]]:
    """A raw text without accidents, and the kinds that it had, in the order of ``TABLES``; for a language's code."""
    if text.isascii() or not SUSPECT.search(text):
        return text, []
    # stanza distinguishes scripts (zh-hans).
    language = language.partition("-")[0]
    kinds = []
    for kind, table in TABLES.items():
        if language not in INTENDED.get(kind, ()):
            better = (BROKEN.sub("", text) if kind == SOFT_HYPHEN else text).translate(table)
            if better != text:
                text = better
                kinds.append(kind)
    return text, kinds


class Repairs:
    """Repairs a text line by line, and counts the lines that needed it, by kind, in ``lines``; see ``repair``."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.lines: Counter[str] = Counter()
        self._last: dict[str, int] = {}  # the last line of each kind

    def __call__(self, line: int, text: str) -> str:
        """A line, or the next piece of it, repaired; ``line`` is its number."""
        text, kinds = repair(text, self.language)
        if kinds:
            self.lines.update(kind for kind in kinds if self._last.get(kind) != line)
            self._last.update(dict.fromkeys(kinds, line))
        return text
