"""Rows of numbers in 8 bits each, with one scale a row: a quarter of the memory of float32.

A row's largest magnitude becomes 127, and each number is rounded to the nearest step of ``largest / 127``; so no number
is off by more than half a step, 0.4 % of the row's largest.
"""

import numpy as np

LARGEST = 127


def quantise(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round rows to 8 bits a number.

    Args:
        rows: ``(n, d)``, finite.

    Returns:
        ``(n, d)`` int8, between -127 and 127, and ``(n,)`` float32 scales; a row of zeros stays zero, with scale 0.
    """
    rows = rows.astype(np.float32, copy=False)
    scales = np.abs(rows).max(axis=1, initial=0) / np.float32(LARGEST)
    # A row whose scale underflows to 0 is zero too.
    steps = np.divide(rows, scales[:, None], out=np.zeros_like(rows), where=scales[:, None] > 0)
    return np.rint(steps).clip(-LARGEST, LARGEST).astype(np.int8), scales


def restore(rows: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The rows ``(n, d)``, float32, that ``quantise`` rounded."""
    restored: np.ndarray = rows * scales[:, None]
    return restored
