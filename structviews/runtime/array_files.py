"""NumPy's files: read without executing or believing anything in them, and written block by block.

An array larger than memory appears once it is complete. A journal beside it has the digest of each block, a line
each, so that nothing damaged is resumed or read.
"""

import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structviews.errors import InputError
from structviews.runtime.files import digest, sync_folder, writing
from structviews.runtime.machine import available_bytes, check_memory
from structviews.runtime.wording import reason


def map_array(path: Path) -> np.ndarray:
    """Memory-map the array of a ``.npy`` file.

    Raises:
        InputError: if it is not an array, or is shorter than its header says.
    """
    try:
        with np.errstate(over="ignore"):  # of the size that a header asks for
            array: object = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}: give a .npy file") from None
    except Exception as error:  # numpy evaluates a header as Python does, which fails in many ways
        raise InputError(f"{path}: not an array of numbers ({reason(error)}): save one with numpy.save") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: not an array of numbers (an .npz file): save one with numpy.save")
    return array


def read_arrays(path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Read arrays of an ``.npz`` file.

    Raises:
        InputError: if there is no such array, it is none of numbers or texts, or it does not fit in memory.
    """
    try:
        with zipfile.ZipFile(path) as members:
            missing = [name for name in names if f"{name}.npy" not in members.namelist()]
            if missing:
                raise InputError(f"{path}: no array {missing[0]!r}: save {' and '.join(names)}")
            return [read_member(path, members, name) for name in names]
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}: give a folder that has this file") from None
    except Exception as error:  # so many are zipfile's and those of its decompressors
        raise InputError(f"{path}: not an npz file ({reason(error)}): write it with numpy.savez") from None


def read_member(path: Path, members: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read one array of an ``.npz`` file."""
    info = members.getinfo(f"{name}.npy")
    with members.open(info) as stream:
        try:
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, by_columns, kind = read[np.lib.format.read_magic(stream)](stream)
        except Exception as error:
            raise InputError(f"{path}: {name} is not an array ({reason(error)}): write it with numpy.savez") from None
        size = math.prod(shape) * kind.itemsize
        if kind.hasobject or min(shape, default=0) < 0:
            raise InputError(f"{path}: {name} is {kind} of shape {shape}, not numbers or texts: write it again")
        if stream.tell() + size != info.file_size:
            raise InputError(
                f"{path}: {name} is {kind} of shape {shape}, which has {size:,} bytes, not the "
                f"{info.file_size - stream.tell():,} of the file: write it again"
            )
        # Its bytes, and the array that is made of them.
        check_memory(f"{path}: {name} of shape {shape}", 2 * size, available_bytes(), "give fewer rows")
        content = stream.read()
    if len(content) != size:
        raise InputError(f"{path}: {name} ends early: copy the file again")
    return np.frombuffer(content, kind).reshape(shape, order="F" if by_columns else "C")


AT_ONCE = 8192
"""Rows per write: at most this many are lost on interruption."""

Block = Callable[[int, int], np.ndarray]


class Layout(NamedTuple):
    """Where the blocks of an array ``(n, d)``, float32, are in its file.

    Attributes:
        n, d: its shape.
        at_once: rows per block.
    """

    n: int
    d: int
    at_once: int = AT_ONCE

    @property
    def header(self) -> bytes:
        """The header of the npy file."""
        content = io.BytesIO()
        about = {"descr": "<f4", "fortran_order": False, "shape": (self.n, self.d)}
        np.lib.format.write_array_header_1_0(content, about)
        return content.getvalue()

    @property
    def starts(self) -> range:
        """The first row of each block."""
        return range(0, self.n, self.at_once)

    def size(self, start: int) -> int:
        """Bytes of the block that begins with row ``start``."""
        return 4 * self.d * (min(start + self.at_once, self.n) - start)

    def end(self, blocks: int) -> int:
        """Bytes of the file up to the end of its first ``blocks`` blocks."""
        return len(self.header) + sum(map(self.size, self.starts[:blocks]))


def write_blocks(path: Path, partial: Path, journal: Path, layout: Layout, block: Block) -> None:
    """Write an array, or resume where an interrupted call stopped.

    Args:
        path: the file; written atomically.
        partial: the partial file, in the same folder. Its name must identify the content, so that a call never
            resumes a different array.
        journal: the digests of the blocks; it stays, for ``read_blocks``.
        layout: shape, and rows per block.
        block: returns rows ``start`` to ``stop``, float32, ``(stop - start, d)``.

    Raises:
        InputError: if another process is writing the same file. If ``block`` raises an InputError, the partial file
            is deleted; after any other error it stays.
    """
    with writing(path):
        digests = list(_sound(partial, journal, layout))
        begun = "ab" if digests else "wb"
        with partial.open(begun) as file, journal.open(begun) as lines:
            # An incomplete or damaged block is written again, with all that follow.
            file.truncate(layout.end(len(digests)) if digests else 0)
            lines.truncate(sum(len(each) for each in digests))
            try:
                if not digests:
                    file.write(layout.header)
                for start in layout.starts[len(digests) :]:
                    rows = np.ascontiguousarray(block(start, min(start + layout.at_once, layout.n)), np.float32)
                    for each, content in ((lines, _line(rows.data)), (file, rows.data)):
                        each.write(content)
                        each.flush()
                    for each in (file, lines):
                        os.fsync(each.fileno())
            except InputError:
                # Fixing the input changes the content, so this partial file could never be resumed.
                partial.unlink()
                journal.unlink()
                raise
        partial.replace(path)
        sync_folder(path.parent)


def read_blocks(path: Path, journal: Path, layout: Layout) -> np.ndarray | None:
    """An array ``(n, d)`` that ``write_blocks`` wrote, memory-mapped; None if it is missing or damaged."""
    blocks = len(list(_sound(path, journal, layout)))
    if blocks < len(layout.starts) or path.stat().st_size != layout.end(blocks):
        return None
    return np.memmap(path, np.float32, "r", len(layout.header), (layout.n, layout.d))


def check_blocks(path: Path, journal: Path, remedy: str) -> None:
    """Raise InputError unless a file is what ``write_blocks`` wrote, whatever its shape."""
    shape = map_array(path).shape
    if len(shape) != 2 or read_blocks(path, journal, Layout(*shape)) is None:
        raise InputError(f"{path}: damaged: its blocks do not match their digests: {remedy}")


def _sound(path: Path, journal: Path, layout: Layout) -> Iterator[bytes]:
    """The journal's lines of the blocks that are as they were written, up to the first one that is not."""
    with suppress(OSError), path.open("rb") as file:
        lines = journal.read_bytes().splitlines(keepends=True)
        if file.read(len(layout.header)) != layout.header:
            return
        for start, line in zip(layout.starts, lines, strict=False):
            content = file.read(layout.size(start))
            if len(content) < layout.size(start) or line != _line(content):
                return
            yield line


def _line(content: bytes | memoryview) -> bytes:
    return digest(content).encode() + b"\n"
