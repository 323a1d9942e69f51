"""Arrays larger than memory, written block by block to a ``.npy`` file that appears when it is whole."""

import fcntl
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from structviews.cache import sync_folder
from structviews.errors import InputError

AT_ONCE = 8192
"""Rows between two writings: what an interruption loses."""

Block = Callable[[int, int], np.ndarray]


def header(n: int, d: int) -> bytes:
    """What an npy file of ``(n, d)`` float32 numbers begins with."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": (n, d)})
    return content.getvalue()


def write_blocks(path: Path, partial: Path, shape: tuple[int, int], block: Block, at_once: int) -> None:
    """Write an array, or go on where an interrupted call has left it.

    Args:
        path: the file; it appears whole or not at all.
        partial: what is written to until then, in the same folder; its name stands for what is written, so that
            nothing else is gone on with.
        shape: ``(n, d)``.
        block: gives rows ``start`` to ``stop``, float32, ``(stop - start, d)``.
        at_once: rows of a block.

    Raises:
        InputError: if another process is writing the same. What ``block`` raises, unless it is an InputError, leaves
            what is written so far.
    """
    n, d = shape
    with partial.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path}: another process is making it: wait until it has finished") from None
        first = header(n, d)
        # Rows that a kill may have cut short are made again.
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
            # To mend that is to change what is written: nobody would go on with this.
            partial.unlink()
            raise
        partial.replace(path)
    sync_folder(path.parent)
