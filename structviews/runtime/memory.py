"""Memory settings of this process."""

import ctypes
import os
import sys

# Constants of glibc's malloc.h, and "never" for a threshold.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
NEVER, PAD = -1, 2**26


def keep_freed_memory() -> bool:
    """Make malloc keep freed memory for later allocations instead of returning it to the system.

    A training step frees hundreds of megabytes. By default glibc returns large blocks to the system, which
    hands them out again, page by page and zeroed, in the next step. This takes a tenth of the step's time or more.

    Returns:
        Whether it worked; it needs glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    # Allocate from the heap, which is never trimmed, and not by mmap, which is unmapped when it is freed.
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, NEVER), mallopt(M_TOP_PAD, PAD)])


def keep_few_shapes() -> None:
    """Limit oneDNN's cache of matrix-product primitives to a few shapes; call this before importing torch.

    By default it holds 1,024 shapes, each with its own buffers, and a server that batches whatever requests are
    waiting keeps producing new shapes. Parsing 50 batches took 205 MB with the default and 36 MB with this limit.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "16")
