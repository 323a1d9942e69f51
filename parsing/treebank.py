"""Read trees from files: CoNLL-U dependencies, bracketed constituents, or both over the same tokens."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from structviews.corpus.sentence import InvalidSentence, ParsedSentence
from structviews.errors import InputError
from structviews.parsing.binarise import binarise, read_tree, strip
from structviews.parsing.parser import Unparsed
from structviews.runtime.wording import reason

# Penn Treebank escapes; they also occur inside a token (friend-LRB-s-RRB-).
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
ESCAPE = re.compile("|".join(ESCAPES))
# In place of white space.
SPACE = "\u2423"
CONLLU_COLUMNS = 10
# Characters of a wrong value that an error shows.
LONGEST = 40
# Comments by `structviews corpus export`: the location in the source of the next sentence, or of a skipped one with
# the reason; and in the first line, which of the files (`conllu ptb`) are made from the trees alone.
PLACE = "structviews:place"
SKIPPED = "structviews:skipped"
DERIVED = "structviews:made"
OURS = (PLACE, SKIPPED, DERIVED)
NUMBERS = re.compile(r"([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,18})(?: (.+))?")  # as many digits as a corpus holds
HEAD = re.compile(r"[0-9]{1,9}")
# A multiword token (3-4), whose words follow on their own lines, or an empty node (5.1).
NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")


class Location(NamedTuple):
    """Where a sentence is: ``document`` and ``position`` count from 0, ``line`` from 1."""

    document: int
    position: int
    line: int


class TreebankSentence(NamedTuple):
    """A sentence, where it is (see ``Location``), and its part of the text of the files.

    The parts ``conllu`` and ``ptb`` lack the comments on locations; those of all sentences are the whole text.
    """

    document: int
    position: int
    line: int
    sentence: ParsedSentence | Unparsed
    conllu: str = ""
    ptb: str = ""


class _Annotation(NamedTuple):
    """What one of the files has of a sentence: fields of a ParsedSentence, or why it was skipped."""

    line: int
    fields: dict[str, Any]
    text: str = ""
    document: str | None = None
    location: Location | None = None
    skipped: Unparsed | None = None


class Documents:
    """Which document a sentence is in, ``name``: since the last ``# newdoc``, or ``sent_id`` up to its last hyphen."""

    def __init__(self) -> None:
        self.name = ""
        self._by_newdoc = False

    def read(self, number: int, line: str) -> None:
        key, value = comment(line)
        if key.startswith("newdoc"):
            self.name, self._by_newdoc = value or f"line {number}", True
        elif key == "sent_id" and not self._by_newdoc:
            self.name = value.rpartition("-")[0]


class Numbering:
    """Numbers the documents, and the sentences in each; ``here`` is the location of the last one."""

    def __init__(self) -> None:
        self.here = Location(-1, -1, 0)
        self._name: str | None = None

    def follow(self, line: int, name: str | None, stated: Location | None = None) -> Location:
        """The location of the next sentence, in ``line`` and in the document ``name``, unless it is stated."""
        if stated:
            self.here = stated
        elif self.here.document < 0 or (name is not None and name != self._name):
            self.here = Location(self.here.document + 1, 0, line)
        else:
            self.here = Location(self.here.document, self.here.position + 1, line)
        self._name = name
        return self.here


def comment(line: str) -> tuple[str, str]:
    """Key and value of a comment, without white space around them; the value may be empty."""
    key, _, value = line[1:].partition("=")
    return key.strip(), value.strip()


def is_conllu(path: Path) -> bool:
    """Whether a treebank file is in CoNLL-U; otherwise it has bracketed trees."""
    return path.suffix == ".conllu"


def check_files(paths: Sequence[Path]) -> None:
    """Raise InputError unless these are one ``.conllu`` file, one bracketed file, or one of each."""
    if not paths or len(paths) > len({is_conllu(path) for path in paths}):
        raise InputError(
            f"a treebank is one .conllu file, one bracketed file, or one of each; given: {', '.join(map(str, paths))}"
        )


def derived_files(conllu: Path) -> list[str]:
    """Which of the files beside one another, ``conllu`` and ``ptb``, ``structviews corpus export`` made from trees."""
    _, first = next(_lines(conllu), (1, ""))
    key, value = comment(first)
    return value.split() if key == DERIVED else []


def read_treebank(paths: Sequence[Path]) -> Iterator[TreebankSentence]:
    """Yield the sentences of one ``.conllu`` and/or one bracketed file, in file order.

    A document starts at ``# newdoc``, or where the part of ``sent_id`` before its last hyphen changes; locations
    written by ``structviews corpus export`` take precedence. A sentence whose annotation is not a tree becomes
    ``Unparsed`` with the reason. Raises InputError if a line is malformed, or the two files differ in tokens or length.
    """
    check_files(paths)
    conllu = [path for path in paths if is_conllu(path)]
    brackets = [path for path in paths if not is_conllu(path)]
    pairs: Iterator[tuple[_Annotation | None, _Annotation | None]]
    if conllu and brackets:
        pairs = _aligned(conllu[0], brackets[0])
    elif conllu:
        pairs = ((words, None) for words in _read_conllu(conllu[0], with_heads=True))
    else:
        pairs = ((None, constituents) for constituents in _read_brackets(brackets[0]))
    numbering = Numbering()
    for pair in pairs:
        words, constituents = (each or _Annotation(0, {}) for each in pair)
        line = words.line or constituents.line
        if words.location and words.location[:2] <= numbering.here[:2]:
            raise InputError(
                f"{conllu[0]}:{line}: the location in the comment does not follow that of the previous sentence: "
                f"join corpora with `structviews corpus merge`, or remove the {PLACE} and {SKIPPED} comments"
            )
        try:
            # If both files have tags, those in CoNLL-U are the gold ones.
            tree = words.skipped or ParsedSentence(**(constituents.fields | words.fields))
        except InvalidSentence as error:
            tree = Unparsed(str(error))
        here = numbering.follow(line, words.document, words.location)
        yield TreebankSentence(*here, tree, words.text, constituents.text)


def _aligned(conllu: Path, brackets: Path) -> Iterator[tuple[_Annotation, _Annotation | None]]:
    trees = _read_brackets(brackets)
    for words in _read_conllu(conllu, with_heads=False):
        if words.skipped:
            yield words, None
            continue
        constituents = next(trees, None)
        if constituents is None:
            raise _alone(f"{conllu}:{words.line}", conllu, brackets)
        # Escape sequences in the text itself are treated as escapes in both files.
        tokens, leaves = map(unescaped, words.fields["tokens"]), constituents.fields["tokens"]
        for i, (token, leaf) in enumerate(zip_longest(tokens, leaves), 1):
            if token != leaf:
                ours, theirs = ("missing" if each is None else repr(each) for each in (leaf, token))
                raise InputError(
                    f"{brackets}:{constituents.line}: token {i} is {ours}, but {theirs} at {conllu}:{words.line}: "
                    f"both files must have the same tokens"
                )
        yield words, constituents
    for constituents in trees:
        raise _alone(f"{brackets}:{constituents.line}", conllu, brackets)


def _alone(where: str, conllu: Path, brackets: Path) -> InputError:
    return InputError(f"{where}: this sentence has no counterpart: {conllu} and {brackets} must be parallel")


def unescaped(token: str) -> str:
    """A token with brackets in place of their escapes."""
    return ESCAPE.sub(lambda match: ESCAPES[match.group()], token)


def as_token(word: str) -> str:
    """Turn a word into one of our tokens, which have no white space, unlike the number 1 000."""
    return re.sub(r"\s", SPACE, word)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers from 1 and their line ends, without a byte-order mark."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{path}:{number}: not UTF-8 at byte {error.start} of the line") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yield all lines of a file, sentence by sentence: each with what precedes it, the last also with what follows."""
    whole: list[tuple[int, str]] = []
    lines: list[tuple[int, str]] = []
    inside = False
    for number, line in _lines(path):
        if not line.strip():
            lines.append((number, line))
            if inside:
                whole, lines, inside = lines, [], False
            continue
        if not inside and (not line.startswith("#") or comment(line)[0] == SKIPPED):
            if whole:
                yield whole
            whole, inside = [], True
        lines.append((number, line))
    yield whole + lines


def _read_conllu(path: Path, *, with_heads: bool) -> Iterator[_Annotation]:
    """The sentences of a file, and those that were skipped according to our comments."""
    documents = Documents()
    for block in _blocks(path):
        text = "".join(line for _, line in block if not line.startswith("#") or comment(line)[0] not in OURS)
        location, start = None, 0
        rows: list[tuple[str, str, int | None, str]] = []
        for number, line in chain(block, [(0, "")]):
            if line.startswith("#"):
                documents.read(number, line)
                key, value = comment(line)
                if key == PLACE:
                    location, _ = _location(path, number, value)
                elif key == SKIPPED:
                    place, why = _location(path, number, value)
                    yield _Annotation(number, {}, "", documents.name, place, Unparsed(why))
            elif line.strip():
                start = start or number
                row = _conllu_row(f"{path}:{number}", line.rstrip("\r\n"), len(rows) + 1, with_heads=with_heads)
                if row:
                    rows.append(row)
            elif rows:
                yield _Annotation(start, _fields(path, start, rows), text, documents.name, location)
                rows, start, location = [], 0, None


def _location(path: Path, number: int, value: str) -> tuple[Location, str]:
    """Parse our comment: document, position and line, and the reason for a skipped sentence."""
    found = NUMBERS.fullmatch(value)
    if not found:
        raise InputError(
            f"{path}:{number}: {value[:LONGEST]!r} is not a location (document, position, line): remove the comment"
        )
    return Location(*map(int, found.groups()[:3])), found[4] or ""


def _fields(path: Path, start: int, rows: Sequence[tuple[str, str, int | None, str]]) -> dict[str, Any]:
    """The fields of a sentence; tags or heads are empty if every word lacks them."""
    tokens, tags, heads, relations = zip(*rows, strict=True)
    fields = {"tokens": tokens, "tags": () if all(tag == "_" for tag in tags) else tags}
    if all(head is None for head in heads):
        return {**fields, "heads": (), "relations": ()}
    if None in heads:
        raise InputError(f"{path}:{start}: word {heads.index(None) + 1} has no head: give one to all words or to none")
    return {**fields, "heads": heads, "relations": relations}


def _conllu_row(where: str, line: str, expected: int, *, with_heads: bool) -> tuple[str, str, int | None, str] | None:
    columns = line.split("\t")
    if len(columns) != CONLLU_COLUMNS:
        raise InputError(f"{where}: {len(columns)} columns, but CoNLL-U has {CONLLU_COLUMNS}, separated by tabs")
    index, form, _, _, tag, _, head, relation = columns[:8]
    if NO_WORD.fullmatch(index):
        return None
    if index != str(expected):
        raise InputError(
            f"{where}: word id {index[:LONGEST]!r}, expected {expected}: number each sentence's words from 1"
        )
    if not HEAD.fullmatch(head) and (with_heads or head != "_"):
        raise InputError(f"{where}: head {head[:LONGEST]!r} is not a number of a word: give each word a head")
    return as_token(form), tag, None if head == "_" else int(head), relation


def _bracketed(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line where each tree starts, and its text with the blank lines before it; 0 for those at the end."""
    start, depth, text = 0, 0, ""
    for number, line in _lines(path):
        start = start or (number if line.strip() else 0)
        depth += line.count("(") - line.count(")")
        text += line
        if start and depth <= 0:
            yield start, text
            start, depth, text = 0, 0, ""
    if text:
        yield start, text


def _read_brackets(path: Path) -> Iterator[_Annotation]:
    last = None
    for start, text in _bracketed(path):
        if not start:
            last = last and last._replace(text=last.text + text)
            continue
        try:
            tree = binarise(strip(read_tree(text.lstrip("\r\n"))))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{start}: not one bracketed tree: {reason(error)}") from None
        if last:
            yield last
        tree = tree._replace(tokens=tuple(map(unescaped, tree.tokens)))
        last = _Annotation(start, tree._asdict(), text)
    if last:
        yield last
