"""How often Python looks for garbage.

It does so each 700 objects, and at the end of the process. Importing PyTorch makes several hundred thousand objects
that stay, and looking through them takes a tenth of the time from a command's start to its end; the last look, which
finds nothing that matters, a third of a second.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# More would save no more time, and could keep the tensors of a cycle for long.
OBJECTS = 10_000


def collect_seldom() -> None:
    """Look for garbage seldom from now on, and not at the end of this process."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Look for garbage seldom within the block."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
