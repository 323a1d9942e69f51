"""Arrays larger than memory, written block by block to a ``.npy`` file that appears once it is complete."""

import fcntl
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from structviews.errors import InputError
from structviews.runtime.files import sync_folder

AT_ONCE = 8192
"""Rows per write: at most this many are lost on interruption."""

Block = Callable[[int, int], np.ndarray]


def header(n: int, d: int) -> bytes:
    """The header of an npy file of shape ``(n, d)``, float32."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": (n, d)})
    return content.getvalue()


def write_blocks(path: Path, partial: Path, shape: tuple[int, int], block: Block, at_once: int) -> None:
    """Write an array, or resume where an interrupted call stopped.

    Args:
        path: the file; written atomically.
        partial: the partial file, in the same folder. Its name must identify the content, so that a call never
            resumes a different array.
        shape: ``(n, d)``.
        block: returns rows ``start`` to ``stop``, float32, ``(stop - start, d)``.
        at_once: rows per block.

    Raises:
        InputError: if another process is writing the same file. If ``block`` raises an InputError, the partial file
            is deleted; after any other error it stays.
    """
    n, d = shape
    with partial.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path}: another process is writing it: wait until it has finished") from None
        first = header(n, d)
        # An incomplete last block is written again.
        done = max(file.tell() - len(first), 0) // (4 * d) // at_once * at_once
        file.truncate(len(first) + done * 4 * d if done else 0)
        if not done:
            file.write(first)
        try:
            for start in range(done, n, at_once):
                rows = np.ascontiguousarray(block(start, min(start + at_once, n)), np.float32)
                file.write(rows.data)
                file.flush()
                os.fsync(file.fileno())
        except InputError:
            # Fixing the input changes the content, so this partial file could never be resumed.
            partial.unlink()
            raise
        partial.replace(path)
    sync_folder(path.parent)
