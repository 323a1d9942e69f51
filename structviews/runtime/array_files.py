"""NumPy's files: read without executing anything in them, and written block by block.

A journal beside an array that is written so has the digest of each block, a line each, so that nothing damaged is
resumed or read.
"""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from structviews.errors import InputError
from structviews.runtime.files import digest, sync_folder, writing
from structviews.runtime.processes import DeadWorkerError
from structviews.runtime.wording import reason


def map_array(path: Path) -> np.ndarray:
    """Memory-map a ``.npy`` file; raises InputError if it is not an array, or is shorter than its header says."""
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
    """Arrays of numbers or texts of an ``.npz`` file; raises InputError if one is missing or cannot be read."""
    try:
        with np.errstate(over="ignore"), np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in names if name in file.files}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}: give a folder that has this file") from None
    except Exception as error:  # so many are NumPy's, zipfile's and those of its decompressors
        raise InputError(f"{path}: not an npz file ({reason(error)}): write it with numpy.savez") from None
    for name in names:
        if not isinstance(arrays.get(name), np.ndarray):  # NumPy gives the bytes of what is none
            raise InputError(f"{path}: no array {name!r}: save {' and '.join(names)}")
    return list(arrays.values())


AT_ONCE = 8192  # rows per write: at most this many are lost on interruption


class Layout(NamedTuple):
    """Where the blocks, of ``at_once`` rows, of an array ``(n, d)``, float32, are in its file."""

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


def write_blocks(
    path: Path, partial: Path, journal: Path, layout: Layout, block: Callable[[int, int], np.ndarray]
) -> None:
    """Write an array, atomically, or resume where an interrupted call stopped; see ``writing``.

    The names of the partial file, in the same folder, and of the journal, which stays for ``read_blocks``, must
    identify the content, so that a call never resumes a different array. ``block`` returns rows ``start`` to ``stop``,
    float32, ``(stop - start, d)``. If it raises an InputError about the input, the partial file is deleted; after other
    errors it stays.
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
            except InputError as error:
                if not isinstance(error, DeadWorkerError):
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
