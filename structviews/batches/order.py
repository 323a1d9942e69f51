"""Held-out sentences and the batches of an epoch."""

from collections.abc import Iterator

import numpy as np

from structviews.runtime.arrays import Array, mix


def indivisible(documents: Array, reads_neighbours: bool) -> Array:
    """What is held out, or dealt to processes, as a whole ``(n,)``: documents ``(n,)``.

    A single document counts as lines in no order if no neighbours are read; these may be dealt one by one.
    """
    if reads_neighbours or (documents != documents[:1]).any():
        return documents
    return np.arange(len(documents))


def held_out(documents: Array, seed: int, fraction: float) -> Array:
    """Which sentences are held out for validation, ``(n,)`` bool, by a seeded hash of their document ``(n,)``.

    Adding documents to a corpus does not move the others. If the hash selects none of several documents, the one with
    the lowest hash is held out, unless the ``fraction`` is 0.
    """
    # A document's sentences are contiguous, so hash each document once.
    firsts = np.flatnonzero(np.diff(documents, prepend=-1))
    hashes = mix(documents[firsts].astype(np.uint64) + mix(np.array([seed], dtype=np.uint64)))
    chosen = hashes < np.uint64(min(int(fraction * 2**64), 2**64 - 1))
    if fraction > 0 and not chosen.any() and (hashes != hashes[:1]).any():
        chosen = hashes == hashes.min()
    return np.repeat(chosen, np.diff(firsts, append=len(documents)))


def epoch_batches(rows: Array, size: int, seed: int, epoch: int, *, shuffled: bool = False) -> Iterator[Array]:
    """The rows of an epoch's batches: consecutive ``rows (n,)``, cut at a random offset, in random order.

    Sentences keep their order within a batch, since they are one another's contexts. The sentences
    before the offset form one batch with those left over at the end. If ``shuffled``, a batch is random sentences
    instead, in ascending order.
    """
    if len(rows) <= size:
        yield rows
        return
    rng, offset, n_full = _cut(len(rows), size, seed, epoch)
    if shuffled:
        rows = rng.permutation(rows)
    for number in rng.permutation(n_batches(len(rows), size, seed, epoch)):
        start = offset + number * size
        whole = number < n_full
        batch = rows[start : start + size] if whole else np.concatenate([rows[:offset], rows[offset + n_full * size :]])
        yield np.sort(batch) if shuffled else batch


def n_batches(n_rows: int, size: int, seed: int, epoch: int) -> int:
    """Number of batches of ``epoch_batches``."""
    if n_rows <= size:
        return 1
    _, _, n_full = _cut(n_rows, size, seed, epoch)
    return n_full + (n_rows > n_full * size)


def _cut(n_rows: int, size: int, seed: int, epoch: int) -> tuple[np.random.Generator, int, int]:
    """An epoch's random generator, its offset and its number of full batches."""
    rng = np.random.default_rng([seed, epoch])
    offset = int(rng.integers(0, size))
    return rng, offset, (n_rows - offset) // size
