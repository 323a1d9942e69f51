"""Encode texts of any size to disk, block by block.

Shapes: n lines, d dimensions of a vector.
"""

import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from itertools import islice
from operator import itemgetter
from pathlib import Path
from shutil import copyfileobj
from string import whitespace
from typing import BinaryIO

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import EncodingPool, SharedProgress, fill, open_pool, pieces, processes_that_pay
from structviews.encoding.preparation import Sentence, SentenceError, too_long
from structviews.encoding.representation import check_finite
from structviews.encoding.word_limit import BATCH_SIZE, RAISE, one_warning
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runtime.array_files import AT_ONCE, Layout, write_blocks
from structviews.runtime.terminal import OnProgress

BOM = b"\xef\xbb\xbf"
ELLIPSIS = "\x85"


@dataclass(frozen=True)
class Text:
    """A text file with one sentence per line, read from disk on demand."""

    name: str  # for messages
    checksum: str  # SHA-256 of its bytes
    starts: list[int]  # byte offset of every ``AT_ONCE``-th sentence
    n: int  # sentences
    blank: int  # blank lines, which are skipped
    longest: tuple[int, int]  # the number, from 1, of a line with the most words by white space, and that of its words
    file: BinaryIO

    def lines(self, start: int, stop: int) -> list[str]:
        """The sentences ``start`` to ``stop`` (from 0, exclusive), stripped; InputError if the file has changed."""
        first = start // AT_ONCE
        self.file.seek(self.starts[first])
        found = [line for _, line in islice(self._sentences(), stop - first * AT_ONCE)][start - first * AT_ONCE :]
        if len(found) < stop - start:
            raise InputError(f"{self.name}: changed while it was being read: run the same command again")
        return found

    def location(self, row: int) -> str:
        """The file and line of a sentence, for messages."""
        self.file.seek(0)
        if self.file.read(len(BOM)) != BOM:
            self.file.seek(0)
        number = next((number for number, _ in islice(self._sentences(), row, None)), row)
        return f"{self.name}:{number + 1}"

    def _sentences(self) -> Iterator[tuple[int, str]]:
        """The sentences from the file's present place on, each with its line, counted from there."""
        for number, line in enumerate(self.file):
            if sentence := sentence_in(line.decode("utf-8", "replace")):
                yield number, sentence


def sentence_in(line: str) -> str:
    """The sentence of a line, stripped; empty if the line is blank.

    U+0085 is white space to Python, but an ellipsis where text is repaired.
    """
    return line.strip(whitespace) if not line.isspace() or ELLIPSIS in line else ""


@contextmanager
def open_text(source: Path | None, skip_blank: bool = False) -> Iterator[Text]:
    """Open a text, or standard input if it is None, checking and counting its lines in one pass.

    Raises InputError if it cannot be read, is not UTF-8, has no sentence, or has a blank line that is not skipped.
    """
    name = str(source) if source else "standard input"
    try:
        file = source.open("rb") if source else tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}: give a text with one sentence per line") from None
    with file:
        if source is None:
            copyfileobj(sys.stdin.buffer, file)
            file.seek(0)
        digest, starts, position, n, longest, number = hashlib.sha256(), [], 0, 0, (0, 0), 0
        try:
            for number, line in enumerate(file, 1):
                if number == 1 and line.startswith(BOM):
                    position, line = len(BOM), line[len(BOM) :]  # noqa: PLW2901
                if sentence := sentence_in(line.decode("utf-8")):
                    if n % AT_ONCE == 0:
                        starts.append(position)
                    n += 1
                elif not skip_blank:
                    raise InputError(f"{name}:{number}: blank line: put a sentence on each line, or give --skip-blank")
                longest = max(longest, (number, len(sentence.split())), key=itemgetter(1))
                digest.update(line)
                position += len(line)
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: not UTF-8 at byte {position + error.start}: convert it to UTF-8") from None
        if not n:
            raise InputError(f"{name}: empty: give one sentence per line")
        yield Text(name, digest.hexdigest(), starts, n, number - n, longest, file)


def encode_text(
    text: Text,
    embedder: Embedder,
    out: Path,
    *,
    tokenised: bool = False,
    batch_size: int = BATCH_SIZE,
    processes: int | None = None,
    progress: OnProgress | None = None,
) -> None:
    """Encode the lines of a text to a ``.npy`` file of vectors ``(n, d)``, float32.

    Memory use is that of ``AT_ONCE`` sentences and of the processes, except for a transductive representation, which
    needs all sentences at once. The file appears only when it is complete; an interrupted call resumes when repeated.
    The vectors are the same for any number of processes, up to rounding.

    If ``tokenised``, words are separated by white space. The embedder is loaded from a run's folder. By default there
    are as many ``processes`` as pay (see ``open_pool``); one, whatever is given, if the representation is transductive
    or the embedder was given a parser, which others do not have. ``progress`` is called from several threads, one at a
    time.

    Raises InputError if a line cannot be encoded, or ``out`` has an unfinished encoding of something else. Lines that
    are too long by their white space are found first.
    """
    line, n_words = text.longest
    if embedder.limit.overlong == RAISE and n_words > embedder.limit.max_tokens:
        raise InputError(f"{text.name}:{line}: {too_long(f'{n_words:,} words', f'{embedder.limit.max_tokens:,}')}")
    by = f"{model_checksum(embedder.folder)} {embedder.choice} {embedder.description}"
    how = f"{by} {text.checksum} {tokenised} {embedder.limit}"
    partial = out.with_name(f".{out.name}.{hashlib.sha256(how.encode()).hexdigest()[:16]}.partial")
    for other in out.parent.glob(f".{escape(out.name)}.{'[0-9a-f]' * 16}.partial"):
        if other != partial:
            raise InputError(
                f"{out}: has an unfinished encoding of another text, run, representation, precision or word limit: "
                f"run that command again, give another --out, or delete {other}"
            )

    journal = partial.with_name(f"{partial.name}.digests")
    # Others could not help: they have a part of the sentences, and not a parser that was given to this process.
    alone = embedder.choice.is_transductive or embedder.preparer.parser_is_given
    number = 1 if alone else processes or processes_that_pay(embedder, text.n)
    rows = text.n if embedder.choice.is_transductive else AT_ONCE
    with one_warning(), open_pool(embedder, number) as pool:
        block = _encoder_of_blocks(text, embedder, pool, tokenised, batch_size, progress or (lambda done, total: None))
        write_blocks(out, partial, journal, Layout(text.n, embedder.dim, rows), block)
    journal.unlink()  # the vectors are the user's from here on


def _encoder_of_blocks(
    text: Text, embedder: Embedder, pool: EncodingPool, tokenised: bool, batch_size: int, progress: OnProgress
) -> Callable[[int, int], np.ndarray]:
    """A function that encodes the rows of the next block; while one is written, the pieces of the next are encoded."""
    vectors: Iterator[np.ndarray] | None = None

    def sentences(start: int, stop: int) -> list[Sentence]:
        return [line.split() if tokenised else line for line in text.lines(start, stop)]

    def encoded(first: int) -> Iterator[np.ndarray]:
        progress(first, text.n)  # show the bar before parsing starts
        if embedder.choice.is_transductive:
            lines = sentences(0, text.n)
            yield embedder.encode(lines, batch_size, lambda done, total: progress(text.n * done // total, text.n))
            return
        # Block by block, so that a resumed encoding has the same pieces.
        blocks = (slice(start, min(start + AT_ONCE, text.n)) for start in range(first, text.n, AT_ONCE))
        slices = (each for block in blocks for each in pieces(block.start, block.stop, text.n, batch_size))
        in_pieces = (sentences(each.start, each.stop) for each in slices)
        yield from pool.each(embedder, in_pieces, batch_size, SharedProgress(first, text.n, progress))

    def block(start: int, stop: int) -> np.ndarray:
        nonlocal vectors
        vectors = vectors or encoded(start)
        try:
            found = fill((stop - start, embedder.dim), vectors)
            check_finite(found)
        except SentenceError as error:
            raise InputError(f"{text.location(start + error.index)}: {error.reason}") from None
        return found

    return block
