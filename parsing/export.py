"""Export a parsed corpus to treebank files, which ``parse --parser treebank`` reads back into the same shards.

A corpus from treebank files keeps their text, which is written as it was; other files are made from the trees.
Locations and skipped sentences are our own comments (see ``treebank.py``), beside a kept text only where needed.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter, methodcaller
from pathlib import Path

from structviews.corpus.layout import FILE_TEXTS, Row, Skipped, rows_of, skipped_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.binarise import CHAIN
from structviews.parsing.treebank import DERIVED, ESCAPES, PLACE, SKIPPED, Documents, Location, Numbering
from structviews.runtime.files import clear, write_output

ESCAPED = {character: escape for escape, character in ESCAPES.items()}
BRACKET = re.compile("|".join(map(re.escape, ESCAPED)))
# Characters that would end a name early, in brackets and in a CoNLL-U column.
NO_LABEL = re.compile(r"[\s()]")
NO_COLUMN = re.compile(r"[\t\r\n]")
# Yields the lines of a file.
Lines = Callable[[Iterable[Row | Skipped]], Iterator[str]]


def export(corpus: ParsedCorpus, out: Path, progress: Callable[[int, int], None]) -> list[Path]:
    """Write ``OUT.conllu`` with words, locations and dependency trees, and ``OUT.ptb`` with constituency trees.

    Without dependency trees the first file has no heads; without constituency trees there is no second file. What the
    corpus keeps of treebank files is written as it was; if it keeps a whole file of brackets, that is the only one.
    ``progress`` is called with the number of finished shards and their total, over all files. Raises InputError if a
    file already exists, the corpus has no trees, or a name in it cannot be written.
    """
    if not corpus.has_dependencies and not corpus.has_constituents:
        raise InputError(f"{corpus.path} has no trees of either kind: parse the text again with a parser")
    files = {out.with_name(f"{out.name}.{kind}"): lines for kind, lines in writers(corpus).items()}
    taken = [path for path in files if path.exists()]
    for path in taken:
        clear(path)
    # One that is there may be of a call that was killed before it wrote the other.
    for number, (path, lines) in enumerate(files.items()):
        content = map(str.encode, lines(in_order(corpus, progress, number, len(files))))
        if path not in taken:
            write_output(path, methodcaller("writelines", content))
        elif len(taken) == len(files) or not _holds(path, content):
            raise InputError(f"{path} already exists: choose another --out")
    return list(files)


def writers(corpus: ParsedCorpus) -> dict[str, Lines]:
    """What yields the lines of each file, by its ending."""
    if corpus.kept == ["ptb"] and are_whole_file(in_order(corpus)):
        return {"ptb": kept_brackets}
    wanted = FILE_TEXTS if corpus.has_constituents else FILE_TEXTS[:1]
    derived = [kind for kind in wanted if kind not in corpus.kept]
    files: dict[str, Lines] = {"conllu": kept_conllu, "ptb": kept_brackets}
    if derived == ["ptb"]:  # of sentences without a tree, there is no text either
        files = {"conllu": partial(kept_conllu, of_skipped=False), "ptb": brackets}
    if "conllu" in derived:  # beside words that are made from trees, sentences without one have no line
        files = {"conllu": partial(conllu, derived=derived), "ptb": brackets}
    return {kind: files[kind] for kind in wanted}


def in_order(
    corpus: ParsedCorpus, progress: Callable[[int, int], None] | None = None, file: int = 0, files: int = 1
) -> Iterator[Row | Skipped]:
    """The sentences of a corpus and those that were skipped among them; progress as for one of several files."""
    for number, table in enumerate(corpus.tables(), 1):
        sentences: list[Iterable[Row | Skipped]] = [rows_of(table), skipped_of(table)]
        yield from heapq.merge(*sentences, key=attrgetter("document", "position"))
        if progress:
            progress(file * corpus.n_shards + number, files * corpus.n_shards)


def _holds(path: Path, lines: Iterable[bytes]) -> bool:
    """Whether a file has just these lines."""
    with path.open("rb") as file:
        return all(file.read(len(line)) == line for line in lines) and not file.read(1)


def kept_conllu(sentences: Iterable[Row | Skipped], *, of_skipped: bool = True) -> Iterator[str]:
    """Yield the text of a CoNLL-U file, with the location of a sentence where a reader would give it another one."""
    numbering, documents = Numbering(), Documents()
    line, ending = 1, ""
    for each in sentences:
        yield ending
        line += len(ending)
        stated = Location(each.document, each.position, each.line)
        kept = each.conllu if of_skipped or isinstance(each, Row) else ""
        text = kept or skipped_comment(each)
        start, name, ending = scanned(text, line, documents)
        if numbering.follow(start, name, None if kept else stated) != stated:
            numbering.follow(start, name, stated)
            lines = text.split("\n")
            lines.insert(start - line, f"# {PLACE} = {location(each)}")
            text = "\n".join(lines)
        yield text
        line += text.count("\n")


def scanned(text: str, first: int, documents: Documents) -> tuple[int, str, str]:
    """Read a sentence's part of a file, which begins in line ``first``.

    Returns the line of its first word, the name of its document, and the line ends that it lacks before another one.
    """
    start, name = 0, None
    *lines, rest = text.split("\n")
    for number, line in enumerate([*lines, rest], first):
        if line.startswith("#"):
            documents.read(number, line)
        elif line.strip():
            start = start or number
        elif start and name is None and number < first + len(lines):
            name = documents.name
    ending = "\n" * ((name is None and start > 0) + (rest != ""))
    return start, documents.name if name is None else name, ending


def kept_brackets(sentences: Iterable[Row | Skipped]) -> Iterator[str]:
    """Yield the text of a file of bracketed trees."""
    ending = ""
    for each in sentences:
        yield ending + each.ptb
        ending = "\n" * (each.ptb[-1:] not in ("\n", ""))


def are_whole_file(sentences: Iterable[Row | Skipped]) -> bool:
    """Whether a reader gives the sentences their places if it has nothing but the text of their brackets."""
    numbering, line = Numbering(), 1
    for each in sentences:
        blank = each.ptb[: len(each.ptb) - len(each.ptb.lstrip())]
        if numbering.follow(line + blank.count("\n"), None) != Location(each.document, each.position, each.line):
            return False
        line += each.ptb.count("\n")
    return True


def location(each: Row | Skipped) -> str:
    """Document, position and line."""
    return f"{each.document} {each.position} {each.line}"


def skipped_comment(each: Row | Skipped) -> str:
    """The comment that stands for a skipped sentence; empty for others."""
    return f"# {SKIPPED} = {location(each)} {each.reason}\n\n" if isinstance(each, Skipped) else ""


def conllu(sentences: Iterable[Row | Skipped], derived: Sequence[str]) -> Iterator[str]:
    """Yield sentences with their dependency trees as CoNLL-U, and a comment for each skipped sentence.

    The first line says which files are ``derived`` from the trees alone.
    """
    document = None
    yield f"# {DERIVED} = {' '.join(derived)}\n"
    for each in sentences:
        if isinstance(each, Skipped):
            yield skipped_comment(each)
            continue
        if each.document != document:
            yield f"# newdoc id = {each.document}\n"
        document = each.document
        yield f"# sent_id = {each.document}-{each.position}\n# text = {' '.join(each.sentence.tokens)}\n"
        yield f"# {PLACE} = {location(each)}\n"
        sentence, missing = each.sentence, ("_",) * len(each.sentence.tokens)
        columns = (sentence.tokens, sentence.tags or missing, sentence.heads or missing, sentence.relations or missing)
        for number, (token, tag, head, relation) in enumerate(zip(*columns, strict=True), 1):
            check(each, NO_COLUMN, tag, relation)
            yield f"{number}\t{token}\t_\t_\t{tag}\t_\t{head}\t{relation}\t_\t_\n"
        yield "\n"


def brackets(sentences: Iterable[Row | Skipped]) -> Iterator[str]:
    """Yield constituency trees, one per line, as they were if that is kept."""
    for each in sentences:
        if isinstance(each, Row) and each.ptb:
            yield each.ptb if each.ptb.endswith("\n") else f"{each.ptb}\n"
        elif isinstance(each, Row):
            check(each, NO_LABEL, *each.sentence.labels, *each.sentence.tags)
            yield f"{bracketed(each.sentence)}\n"


def bracketed(sentence: ParsedSentence) -> str:
    """The n-ary tree behind a binary one, in Penn Treebank brackets under ``ROOT``.

    Unlabelled left children are removed, since left factoring adds them again. Unlabelled right children, which only
    occur in trees that no treebank has, become brackets without a label.
    """
    n = len(sentence.tokens)
    tags = sentence.tags or ("X",) * n
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
