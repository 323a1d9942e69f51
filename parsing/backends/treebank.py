"""Trees from files: CoNLL-U dependencies, bracketed constituents, or both over the same tokens."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from structviews.errors import InputError
from structviews.sentence import InvalidSentence, ParsedSentence

from ..binarise import BinaryTree, binarise, strip
from . import Unparsed

# Penn Treebank escapes; they also occur inside a token (friend-LRB-s-RRB-).
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
ESCAPE = re.compile("|".join(ESCAPES))
CONLLU_COLUMNS = 10
# A multiword token (3-4), whose words have lines of their own, or an empty node (5.1).
NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")


class TreebankSentence(NamedTuple):
    """A sentence with its place: ``document`` and ``position`` count from 0, ``line`` from 1."""

    document: int
    position: int
    line: int
    sentence: ParsedSentence | Unparsed


class _Dependencies(NamedTuple):
    line: int
    document: str
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


class _Constituents(NamedTuple):
    line: int
    tree: BinaryTree


def read_treebank(paths: Sequence[Path]) -> Iterator[TreebankSentence]:
    """Sentences of one ``.conllu`` and/or one bracketed file (one tree a line), in file order.

    A document starts at ``# newdoc``, or where the part of ``sent_id`` before its last hyphen
    changes. A sentence whose annotation is no tree comes as ``Unparsed`` with the reason.

    Raises:
        InputError: for a malformed line, or where the two files differ in tokens or length.
    """
    conllu = [p for p in paths if p.suffix == ".conllu"]
    brackets = [p for p in paths if p.suffix != ".conllu"]
    if not paths or len(conllu) > 1 or len(brackets) > 1:
        raise InputError(
            f"a treebank is one .conllu file, one bracketed file, or one of each; given: {', '.join(map(str, paths))}"
        )
    pairs: Iterator[tuple[_Dependencies | None, _Constituents | None]]
    if conllu and brackets:
        pairs = _aligned(conllu[0], brackets[0])
    elif conllu:
        pairs = ((d, None) for d in _read_conllu(conllu[0]))
    else:
        pairs = ((None, c) for c in _read_brackets(brackets[0]))
    document, position, name = -1, 0, None
    for dependencies, constituents in pairs:
        here = dependencies.document if dependencies else ""
        if document < 0 or here != name:
            document, position, name = document + 1, 0, here
        line = next(part.line for part in (dependencies, constituents) if part)
        yield TreebankSentence(document, position, line, _sentence(dependencies, constituents))
        position += 1


def _sentence(dependencies: _Dependencies | None, constituents: _Constituents | None) -> ParsedSentence | Unparsed:
    fields: dict = {}
    if constituents:
        fields |= constituents.tree._asdict()
    if dependencies:
        # Where both name tags, CoNLL-U's are the gold ones.
        fields |= {k: v for k, v in dependencies._asdict().items() if k not in ("line", "document")}
    try:
        return ParsedSentence(**fields)
    except InvalidSentence as error:
        return Unparsed(str(error))


def _aligned(conllu: Path, brackets: Path) -> Iterator[tuple[_Dependencies | None, _Constituents | None]]:
    for dependencies, constituents in zip_longest(_read_conllu(conllu), _read_brackets(brackets)):
        if dependencies is None or constituents is None:
            longer = f"{conllu}:{dependencies.line}" if dependencies else f"{brackets}:{constituents.line}"
            raise InputError(f"{longer}: this sentence has no partner: {conllu} and {brackets} must be parallel")
        ours, theirs = dependencies.tokens, constituents.tree.tokens
        if ours != theirs:
            shorter = min(len(ours), len(theirs))
            i = next((i for i in range(shorter) if ours[i] != theirs[i]), shorter)
            raise InputError(
                f"{brackets}:{constituents.line}: token {i + 1} is {_at(theirs, i)}, "
                f"but {_at(ours, i)} at {conllu}:{dependencies.line}: both files must have the same tokens"
            )
        yield dependencies, constituents


def _at(tokens: Sequence[str], i: int) -> str:
    return repr(tokens[i]) if i < len(tokens) else "missing"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    yield number, raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise InputError(f"{path}:{number}: not UTF-8 at byte {error.start} of the line") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _read_conllu(path: Path) -> Iterator[_Dependencies]:
    document = ""
    newdocs = False
    rows: list[tuple[str, str, int, str]] = []
    start = 0
    for number, line in chain(_lines(path), [(0, "")]):
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            if key.strip().startswith("newdoc"):
                document, newdocs = value.strip() or f"line {number}", True
            elif key.strip() == "sent_id" and not newdocs:
                document = value.strip().rpartition("-")[0]
        elif line.strip():
            start = start or number
            row = _conllu_row(path, number, line, len(rows) + 1)
            if row:
                rows.append(row)
        elif rows:
            tokens, tags, heads, relations = zip(*rows, strict=True)
            tags = () if all(tag == "_" for tag in tags) else tags
            yield _Dependencies(start, document, tokens, tags, heads, relations)
            rows, start = [], 0


def _conllu_row(path: Path, number: int, line: str, expected: int) -> tuple[str, str, int, str] | None:
    columns = line.split("\t")
    if len(columns) != CONLLU_COLUMNS:
        raise InputError(f"{path}:{number}: {len(columns)} columns where CoNLL-U has {CONLLU_COLUMNS}, tab-separated")
    index, form, _, _, tag, _, head, relation = columns[:8]
    if NO_WORD.fullmatch(index):
        return None
    if index != str(expected):
        raise InputError(f"{path}:{number}: word {index!r} where {expected} is due: number a sentence's words from 1")
    if not head.isdecimal():
        raise InputError(f"{path}:{number}: head {head!r} is not a number: a dependency tree needs one for each word")
    # A form may hold a space (a number written 1 000); a token of ours may not.
    return re.sub(r"\s", "\u2423", form), tag, int(head), relation


def _read_brackets(path: Path) -> Iterator[_Constituents]:
    from nltk.tree import Tree  # noqa: PLC0415 - only where trees are read

    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            tree = binarise(strip(Tree.fromstring(line)))
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{path}:{number}: not one bracketed tree: {reason}") from None
        tokens = tuple(ESCAPE.sub(lambda m: ESCAPES[m.group()], token) for token in tree.tokens)
        yield _Constituents(number, tree._replace(tokens=tokens))
