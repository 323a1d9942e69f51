"""Buffers that calls in a row use again.

The system gives large blocks of memory back and forth page by page: filling a fresh one takes as long as a fifth of
encoding does. Within ``reused``, or after ``keep``, a thread keeps its buffers from one call of ``scratch`` to the
next.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class _Kept(threading.local):
    buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] | None = None


_kept = _Kept()


@contextmanager
def reused() -> Iterator[None]:
    """Within the block, this thread's buffers are kept for the next call; then they are freed."""
    outer, _kept.buffers = _kept.buffers, {} if _kept.buffers is None else _kept.buffers
    try:
        yield
    finally:
        _kept.buffers = outer


def keep() -> None:
    """From here on this thread keeps its buffers, as within ``reused``."""
    if _kept.buffers is None:
        _kept.buffers = {}


def scratch(name: str, rows: int, width: int, like: Tensor) -> Tensor:
    """An uninitialised tensor ``(rows, width)``, valid until the thread asks for the same name again.

    Args:
        name: what it holds; each name has memory of its own.
        rows: number of rows.
        width: numbers in a row.
        like: a tensor of the same dtype and device.
    """
    if _kept.buffers is None:
        return like.new_empty(rows, width)
    key = name, like.dtype, like.device
    kept = _kept.buffers.get(key)
    if kept is None or kept.numel() < rows * width:
        _kept.buffers.pop(key, None)
        del kept  # before there is a second one
        # Batches come in ascending length; the system does not count memory that nobody has written to.
        kept = _kept.buffers[key] = like.new_empty(2 * rows * width)
    return kept[: rows * width].view(rows, width)
