"""Texts of any size to vectors on disk, a block of sentences at a time.

Shapes: n lines, d length of a vector.
"""

import hashlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO

import numpy as np

from structviews.embedder import Embedder, Progress, check_finite
from structviews.encoding_pool import EncodingPool, in_pieces
from structviews.errors import InputError
from structviews.evaluation.results import model_checksum
from structviews.npy import AT_ONCE, write_blocks
from structviews.preparation import Sentence, SentenceError

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Text:
    """A text with one sentence a line, which stays on disk.

    Attributes:
        name: of the file, for messages.
        checksum: SHA-256 of its bytes.
        starts: where every ``AT_ONCE``-th line begins.
        n: its lines.
        file: opened for reading bytes.
    """

    name: str
    checksum: str
    starts: list[int]
    n: int
    file: BinaryIO

    def lines(self, start: int, stop: int) -> list[str]:
        """Lines ``start`` to ``stop``, from 0, without the white space around them.

        Raises:
            InputError: if the file has changed since it was opened.
        """
        first = start // AT_ONCE
        self.file.seek(self.starts[first])
        found = [line.decode("utf-8", "replace").strip() for line in islice(self.file, stop - first * AT_ONCE)]
        found = found[start - first * AT_ONCE :]
        if len(found) < stop - start or not all(found):
            raise InputError(f"{self.name}: was changed while it was read: give the same command again")
        return found


@contextmanager
def open_text(source: Path | None) -> Iterator[Text]:
    """Read a text through once, to count its lines and to check them.

    Args:
        source: a file; None for standard input, which is copied to a temporary file.

    Raises:
        InputError: if it cannot be read, is not UTF-8, is empty or has a blank line.
    """
    name = str(source) if source else "standard input"
    try:
        file = source.open("rb") if source else tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}: give a text with one sentence a line") from None
    with file:
        if source is None:
            copyfileobj(sys.stdin.buffer, file)
            file.seek(0)
        yield _scan(name, file)


def _scan(name: str, file: BinaryIO) -> Text:
    digest, starts, place, n = hashlib.sha256(), [], 0, 0
    try:
        for line in file:
            if n == 0 and line.startswith(BOM):
                place, line = len(BOM), line[len(BOM) :]  # noqa: PLW2901
            if n % AT_ONCE == 0:
                starts.append(place)
            if not line.decode("utf-8").strip():
                raise InputError(f"{name}:{n + 1}: a blank line: each line is a sentence and becomes a row")
            digest.update(line)
            place += len(line)
            n += 1
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}: give a text with one sentence a line") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {place + error.start}: convert it to UTF-8") from None
    if not n:
        raise InputError(f"{name}: empty: give one sentence a line")
    return Text(name, digest.hexdigest(), starts, n, file)


def encode_text(
    text: Text,
    embedder: Embedder,
    out: Path,
    *,
    tokenised: bool = False,
    batch_size: int = 256,
    pool: EncodingPool | None = None,
    progress: Progress | None = None,
) -> None:
    """Write vectors ``(n, d)``, float32, of the lines of a text to a ``.npy`` file.

    Memory is that of a block of ``AT_ONCE`` sentences, but for a transductive representation, which wants all at
    once. The file appears when it is whole; an interrupted call is gone on with by the same one. A pool, of any
    number of processes, gives the same vectors as none, to rounding.

    Args:
        text: from ``open_text``.
        embedder: loaded from its folder.
        out: the file; one that is there is replaced.
        tokenised: whether the words of lines stand between white space.
        batch_size, pool: see ``Embedder.encode``.
        progress: called with the number of lines done and their total.

    Raises:
        InputError: for a line that cannot be encoded, or if ``out`` was begun with another text, run or
            representation and not finished.
    """
    how = f"{model_checksum(embedder.folder)} {embedder.choices} {text.checksum} {tokenised}"
    partial = out.with_name(f".{out.name}.{hashlib.sha256(how.encode()).hexdigest()[:16]}.partial")
    for other in out.parent.glob(f".{escape(out.name)}.{'[0-9a-f]' * 16}.partial"):
        if other != partial:
            raise InputError(
                f"{out}: was begun with another text, run or representation and not finished: give that command again, "
                f"another --out, or delete {other}"
            )

    transductive = any(representation.transductive for representation, _ in embedder.choices)

    def encode(sentences: list[Sentence], show: Progress) -> np.ndarray:
        if transductive:
            return embedder.encode(sentences, batch_size, show)
        if pool:
            return pool.encode(embedder, sentences, batch_size, show)
        return in_pieces(
            lambda piece: lambda: embedder.encode(piece, batch_size), embedder.dim, sentences, batch_size, show
        )

    def block(start: int, stop: int) -> np.ndarray:
        def show(done: int, total: int) -> None:
            if progress:
                progress(start + (stop - start) * done // total, text.n)

        show(0, 1)  # before the first sentences are parsed
        lines = text.lines(start, stop)
        try:
            vectors = encode([line.split() if tokenised else line for line in lines], show)
            check_finite(vectors)
        except SentenceError as error:
            raise InputError(f"{text.name}:{start + error.index + 1}: {error.reason}") from None
        return vectors

    write_blocks(out, partial, (text.n, embedder.dim), block, text.n if transductive else AT_ONCE)
