"""Read trees from files: CoNLL-U dependencies, bracketed constituents, or both over the same tokens."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from structviews.corpus.sentence import InvalidSentence, ParsedSentence
from structviews.errors import InputError
from structviews.parsing.binarise import BinaryTree, binarise, read_tree, strip
from structviews.parsing.parser import Unparsed

# Penn Treebank escapes; they also occur inside a token (friend-LRB-s-RRB-).
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
ESCAPE = re.compile("|".join(ESCAPES))
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


class TreebankSentence(NamedTuple):
    """A sentence with its location: ``document`` and ``position`` count from 0, ``line`` from 1.

    ``conllu`` and ``ptb`` are its part of the text of the files, without the comments on locations. The parts of all
    sentences are the whole text.
    """

    document: int
    position: int
    line: int
    sentence: ParsedSentence | Unparsed
    conllu: str = ""
    ptb: str = ""


class Location(NamedTuple):
    """Where a sentence is; see ``TreebankSentence``."""

    document: int
    position: int
    line: int


class _Dependencies(NamedTuple):
    line: int
    document: str
    location: Location | None
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    text: str = ""


NO_FIELD = ("line", "document", "location", "text")


class _Skipped(NamedTuple):
    line: int
    document: str
    location: Location
    reason: str
    text: str = ""


class _Constituents(NamedTuple):
    line: int
    tree: BinaryTree
    text: str = ""


class Documents:
    """The document that a sentence is in, by the comments before it.

    Attributes:
        name: since the last ``# newdoc``; without any, the part of ``sent_id`` before its last hyphen.
    """

    def __init__(self) -> None:
        self.name = ""
        self._by_newdoc = False

    def read(self, number: int, line: str) -> None:
        """Read a comment in line ``number``."""
        key, value = comment(line)
        if key.startswith("newdoc"):
            self.name, self._by_newdoc = value or f"line {number}", True
        elif key == "sent_id" and not self._by_newdoc:
            self.name = value.rpartition("-")[0]


class Numbering:
    """Numbers the documents, and the sentences in each.

    Attributes:
        here: place of the last sentence.
    """

    def __init__(self) -> None:
        self.here = Location(-1, -1, 0)
        self._name: str | None = None

    def follow(self, line: int, name: str | None, stated: Location | None = None) -> Location:
        """The place of the next sentence, in ``line`` and in the document ``name``, unless that is stated."""
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


def derived_files(conllu: Path) -> list[str]:
    """Which of the files beside one another, ``conllu`` and ``ptb``, ``structviews corpus export`` made from trees."""
    _, first = next(_lines(conllu), (1, ""))
    key, value = comment(first)
    return value.split() if key == DERIVED else []


def read_treebank(paths: Sequence[Path]) -> Iterator[TreebankSentence]:
    """Yield the sentences of one ``.conllu`` and/or one bracketed file (one tree per line), in file order.

    A document starts at ``# newdoc``, or where the part of ``sent_id`` before its last hyphen changes;
    locations written by ``structviews corpus export`` take precedence. A sentence whose annotation is not
    a tree becomes ``Unparsed`` with the reason.

    Raises:
        InputError: if a line is malformed, or the two files differ in tokens or length.
    """
    conllu = [path for path in paths if is_conllu(path)]
    brackets = [path for path in paths if not is_conllu(path)]
    if not paths or len(conllu) > 1 or len(brackets) > 1:
        raise InputError(
            f"a treebank is one .conllu file, one bracketed file, or one of each; given: {', '.join(map(str, paths))}"
        )
    pairs: Iterator[tuple[_Dependencies | _Skipped | None, _Constituents | None]]
    if conllu and brackets:
        pairs = _aligned(conllu[0], brackets[0])
    elif conllu:
        pairs = ((d, None) for d in _read_conllu(conllu[0], with_heads=True))
    else:
        pairs = ((None, c) for c in _read_brackets(brackets[0]))
    numbering = Numbering()
    for words, constituents in pairs:
        line = next(each.line for each in (words, constituents) if each)
        if words and words.location and words.location[:2] <= numbering.here[:2]:
            raise InputError(
                f"{conllu[0]}:{line}: the location in the comment does not follow that of the previous sentence: "
                f"join corpora with `structviews corpus merge`, or remove the {PLACE} and {SKIPPED} comments"
            )
        here = numbering.follow(line, words.document if words else None, words.location if words else None)
        tree = Unparsed(words.reason) if isinstance(words, _Skipped) else _sentence(words, constituents)
        yield TreebankSentence(*here, tree, words.text if words else "", constituents.text if constituents else "")


def _sentence(dependencies: _Dependencies | None, constituents: _Constituents | None) -> ParsedSentence | Unparsed:
    fields: dict[str, Any] = {}
    if constituents:
        fields |= constituents.tree._asdict()
    if dependencies:
        # If both files have tags, those in CoNLL-U are the gold ones.
        fields |= {k: v for k, v in dependencies._asdict().items() if k not in NO_FIELD}
    try:
        return ParsedSentence(**fields)
    except InvalidSentence as error:
        return Unparsed(str(error))


def _aligned(conllu: Path, brackets: Path) -> Iterator[tuple[_Dependencies | _Skipped, _Constituents | None]]:
    trees = _read_brackets(brackets)
    for words in _read_conllu(conllu, with_heads=False):
        if isinstance(words, _Skipped):
            yield words, None
            continue
        constituents = next(trees, None)
        if constituents is None:
            raise _alone(f"{conllu}:{words.line}", conllu, brackets)
        # Escape sequences in the text itself are treated as escapes in both files.
        tokens, leaves = tuple(map(_unescaped, words.tokens)), constituents.tree.tokens
        if tokens != leaves:
            shorter = min(len(tokens), len(leaves))
            i = next((i for i in range(shorter) if tokens[i] != leaves[i]), shorter)
            raise InputError(
                f"{brackets}:{constituents.line}: token {i + 1} is {_at(leaves, i)}, "
                f"but {_at(tokens, i)} at {conllu}:{words.line}: both files must have the same tokens"
            )
        yield words, constituents
    for constituents in trees:
        raise _alone(f"{brackets}:{constituents.line}", conllu, brackets)


def _alone(where: str, conllu: Path, brackets: Path) -> InputError:
    return InputError(f"{where}: this sentence has no counterpart: {conllu} and {brackets} must be parallel")


def _unescaped(token: str) -> str:
    return ESCAPE.sub(lambda match: ESCAPES[match.group()], token)


def _at(tokens: Sequence[str], i: int) -> str:
    return repr(tokens[i]) if i < len(tokens) else "missing"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers from 1 and their line ends."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    yield number, raw.decode("utf-8")
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


def _read_conllu(path: Path, *, with_heads: bool) -> Iterator[_Dependencies | _Skipped]:
    documents = Documents()
    for block in _blocks(path):
        items = list(_items(path, block, documents, with_heads=with_heads))
        text = "".join(line for _, line in block if not line.startswith("#") or comment(line)[0] not in OURS)
        for item in items:
            yield item._replace(text=text) if isinstance(item, _Dependencies) else item


def _items(
    path: Path, block: Sequence[tuple[int, str]], documents: Documents, *, with_heads: bool
) -> Iterator[_Dependencies | _Skipped]:
    """The sentence of a block, and those that were skipped according to its comments."""
    location, start = None, 0
    rows: list[tuple[str, str, int | None, str]] = []
    for number, line in chain(block, [(0, "")]):
        if line.startswith("#"):
            documents.read(number, line)
            key, value = comment(line)
            if key == PLACE:
                location, _ = _location(path, number, value)
            elif key == SKIPPED:
                yield _Skipped(number, documents.name, *_location(path, number, value))
        elif line.strip():
            start = start or number
            row = _conllu_row(path, number, line.rstrip("\r\n"), len(rows) + 1, with_heads=with_heads)
            if row:
                rows.append(row)
        elif rows:
            yield _Dependencies(start, documents.name, location, *_columns(path, start, rows))
            rows, start, location = [], 0, None


def _location(path: Path, number: int, value: str) -> tuple[Location, str]:
    """Parse our comment: document, position and line, and the reason for a skipped sentence."""
    found = NUMBERS.fullmatch(value)
    if not found:
        raise InputError(
            f"{path}:{number}: {value[:LONGEST]!r} is not a location (document, position, line): remove the comment"
        )
    return Location(*map(int, found.groups()[:3])), found[4] or ""


def _columns(path: Path, start: int, rows: Sequence[tuple[str, str, int | None, str]]) -> tuple[Any, Any, Any, Any]:
    """Tokens, tags, heads and relations of a sentence; tags or heads are empty if every word lacks them."""
    tokens, tags, heads, relations = zip(*rows, strict=True)
    tags = () if all(tag == "_" for tag in tags) else tags
    if all(head is None for head in heads):
        return tokens, tags, (), ()
    if None in heads:
        raise InputError(f"{path}:{start}: word {heads.index(None) + 1} has no head: give one to all words or to none")
    return tokens, tags, heads, relations


def _conllu_row(
    path: Path, number: int, line: str, expected: int, *, with_heads: bool
) -> tuple[str, str, int | None, str] | None:
    columns = line.split("\t")
    if len(columns) != CONLLU_COLUMNS:
        raise InputError(
            f"{path}:{number}: {len(columns)} columns, but CoNLL-U has {CONLLU_COLUMNS}, separated by tabs"
        )
    index, form, _, _, tag, _, head, relation = columns[:8]
    if NO_WORD.fullmatch(index):
        return None
    if index != str(expected):
        raise InputError(
            f"{path}:{number}: word id {index[:LONGEST]!r}, expected {expected}: number each sentence's words from 1"
        )
    if not HEAD.fullmatch(head) and (with_heads or head != "_"):
        raise InputError(f"{path}:{number}: head {head[:LONGEST]!r} is not a number of a word: give each word a head")
    # A CoNLL-U form may contain a space (the number 1 000); our tokens may not.
    return re.sub(r"\s", "\u2423", form), tag, None if head == "_" else int(head), relation


def _read_brackets(path: Path) -> Iterator[_Constituents]:
    last, blank = None, ""
    for number, line in _lines(path):
        if not line.strip():
            blank += line
            continue
        try:
            tree = binarise(strip(read_tree(line)))
        except (ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{path}:{number}: not one bracketed tree: {reason}") from None
        if last:
            yield last
        last, blank = _Constituents(number, tree._replace(tokens=tuple(map(_unescaped, tree.tokens))), blank + line), ""
    if last:
        yield last._replace(text=last.text + blank)
