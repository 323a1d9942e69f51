"""Export a parsed corpus to treebank files, which ``parse --parser treebank`` reads back into the same shards.

CoNLL-U has no field for a sentence's position and line in the source, or for skipped sentences, so these are
written as our own comments (see ``treebank.py``).
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from structviews.corpus.format import Row, Skipped, rows_of, skipped_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.binarise import CHAIN
from structviews.parsing.treebank import ESCAPES, PLACE, SKIPPED
from structviews.runtime.files import write_output
from structviews.runtime.locks import clear

ESCAPED = {character: escape for escape, character in ESCAPES.items()}
BRACKET = re.compile("|".join(map(re.escape, ESCAPED)))
# Characters that would end a name early, in brackets and in a CoNLL-U column.
NO_LABEL = re.compile(r"[\s()]")
NO_COLUMN = re.compile(r"[\t\r\n]")
# Tag of words that have none.
UNTAGGED = "X"


def export(corpus: ParsedCorpus, out: Path, progress: Callable[[int, int], None]) -> list[Path]:
    """Write ``OUT.conllu`` with words, locations and dependency trees, and ``OUT.ptb`` with constituency trees.

    Without dependency trees the first file has no heads; without constituency trees there is no second file.

    Args:
        corpus: the corpus.
        out: path of the files, without a suffix.
        progress: called with the number of finished shards and their total, over all files.

    Returns:
        The files.

    Raises:
        InputError: if a file already exists, the corpus has no trees, or a name in it cannot be written.
    """
    if not corpus.has_dependencies and not corpus.has_constituents:
        raise InputError(f"{corpus.path} has no trees of either kind: parse the text again with a parser")
    kinds = {".conllu": conllu} | ({".ptb": brackets} if corpus.has_constituents else {})
    paths = [out.with_name(out.name + ending) for ending in kinds]
    taken = [path for path in paths if path.exists()]
    if len(taken) == len(paths):
        for path in paths:
            clear(path)
        raise _taken(paths[0])
    done = 0

    def read() -> Iterator[Row | Skipped]:
        nonlocal done
        for table in corpus.tables():
            sentences: list[Iterable[Row | Skipped]] = [rows_of(table), skipped_of(table)]
            yield from heapq.merge(*sentences, key=lambda each: (each.document, each.position))
            done += 1
            progress(done, len(paths) * corpus.n_shards)

    # One that is there may be of a call that was killed before it wrote the other.
    for path, lines in zip(paths, kinds.values(), strict=True):
        if path not in taken:
            write_output(path, partial(write_lines, lines(read())))
        elif not _holds(path, lines(read())):
            raise _taken(path)
    return paths


def _taken(path: Path) -> InputError:
    return InputError(f"{path} already exists: choose another --out")


def _holds(path: Path, lines: Iterable[str]) -> bool:
    """Whether a file has just these lines."""
    with path.open("rb") as file:
        return all(file.read(len(line)) == line for line in map(str.encode, lines)) and not file.read(1)


def write_lines(lines: Iterable[str], file: BinaryIO) -> None:
    """Write lines of text to a binary file."""
    file.writelines(line.encode() for line in lines)


def conllu(sentences: Iterable[Row | Skipped]) -> Iterator[str]:
    """Yield sentences with their dependency trees as CoNLL-U, and a comment for each skipped sentence."""
    document = None
    for each in sentences:
        place = f"{each.document} {each.position} {each.line}"
        if isinstance(each, Skipped):
            yield f"# {SKIPPED} = {place} {each.reason}\n\n"
            continue
        if each.document != document:
            yield f"# newdoc id = {each.document}\n"
        document = each.document
        yield f"# sent_id = {each.document}-{each.position}\n# {PLACE} = {place}\n"
        yield f"# text = {' '.join(each.sentence.tokens)}\n"
        yield from words(each)
        yield "\n"


def words(row: Row) -> Iterator[str]:
    """Yield a line for each word."""
    sentence, missing = row.sentence, ("_",) * len(row.sentence.tokens)
    columns = (sentence.tokens, sentence.tags or missing, sentence.heads or missing, sentence.relations or missing)
    for number, (token, tag, head, relation) in enumerate(zip(*columns, strict=True), 1):
        check(row, NO_COLUMN, tag, relation)
        yield f"{number}\t{token}\t_\t_\t{tag}\t_\t{head}\t{relation}\t_\t_\n"


def brackets(sentences: Iterable[Row | Skipped]) -> Iterator[str]:
    """Yield constituency trees, one per line."""
    for each in sentences:
        if isinstance(each, Row):
            check(each, NO_LABEL, *each.sentence.labels, *each.sentence.tags)
            yield f"{bracketed(each.sentence)}\n"


def bracketed(sentence: ParsedSentence) -> str:
    """The n-ary tree behind a binary one, in Penn Treebank brackets under ``ROOT``.

    Unlabelled left children are removed, since left factoring adds them again. Unlabelled right children, which only
    occur in trees that no treebank has, become brackets without a label.
    """
    n = len(sentence.tokens)
    tags = sentence.tags or (UNTAGGED,) * n
    escaped = (BRACKET.sub(lambda match: ESCAPED[match.group()], token) for token in sentence.tokens)
    preterminals = (f"({tag} {word})" for tag, word in zip(tags, escaped, strict=True))
    nodes = [chain(label, word) for label, word in zip(sentence.labels[:n], preterminals, strict=True)]
    for left, right, label in zip(sentence.left, sentence.right, sentence.labels[n:], strict=True):
        last = nodes[right] if right < n or sentence.labels[right] else f"( {nodes[right]})"
        nodes.append(chain(label, f"{nodes[left]} {last}"))
    return f"(ROOT {nodes[-1]})"


def chain(label: str, children: str) -> str:
    """``S+VP`` over children: ``(S (VP ...))``; only the children if there is no label."""
    names = label.split(CHAIN) if label else []
    return "".join(f"({name} " for name in names) + children + ")" * len(names)


def check(row: Row, pattern: re.Pattern[str], *names: str) -> None:
    """Raise InputError for a name that would be misread from the file."""
    for name in names:
        if pattern.search(name):
            raise InputError(
                f"document {row.document}, position {row.position}: {name!r} cannot be written to a treebank file: "
                f"use a parser whose tags and labels have no white space or brackets"
            )
