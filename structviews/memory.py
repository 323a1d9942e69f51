"""How this process handles memory."""

import ctypes
import os
import sys

# Numbers of glibc's malloc.h, and "never" for a threshold.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
NEVER, PAD = -1, 2**26


def keep_freed_memory() -> bool:
    """Make this process keep memory that it frees, for what it allocates next; says whether it could.

    A training step frees hundreds of megabytes. By default glibc gives large pieces back to the system,
    which hands them out anew page by page, zeroed, in the next step: a tenth of its time and more.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    # Not from mappings, which end when they are freed, but from the heap, whose end stays where it is.
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, NEVER), mallopt(M_TOP_PAD, PAD)])


def keep_few_shapes() -> None:
    """Make PyTorch keep what oneDNN prepares for a few shapes of products only; call it before torch is imported.

    By default it keeps that of 1,024 shapes, each with buffers of its own, and the shapes of batches that a server
    makes of what happens to be waiting never end: parsing 50 batches took 205 MB so, and 36 MB with few.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "16")
