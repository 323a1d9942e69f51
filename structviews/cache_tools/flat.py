"""A shard's columns end to end, so that what concerns each sentence or node is a few array operations.

Shapes: B sentences, n words of all of them, I internal nodes of their constituency trees, m = n + I nodes.
"""

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.arrays import Array, starts_of


class Flat:
    """The columns of some rows of a corpus; nothing is presupposed but the schema, until a property says so.

    Args:
        table: of the parsed corpus' schema.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.num_rows

    def sizes(self, name: str) -> Array:
        """The length (B,), int64, of each list of a column."""
        return pc.list_value_length(self._table[name]).to_numpy().astype(np.int64)

    def numbers(self, name: str) -> Array:
        """What the lists of a column of numbers hold, int64."""
        return pc.list_flatten(self._table[name]).to_numpy().astype(np.int64)

    def strings(self, name: str) -> pa.DictionaryArray:
        """What the lists of a column of strings hold."""
        return pc.list_flatten(self._table[name]).combine_chunks()

    @cached_property
    def lengths(self) -> Array:
        """(B,) words of each sentence."""
        return self.sizes("tokens")

    @cached_property
    def words_of(self) -> Array:
        """(n,) the sentence of each word."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def heads(self) -> Array:
        """(n,) 1-based head of each word; every sentence has a dependency tree."""
        return self.numbers("heads")

    @cached_property
    def head_words(self) -> Array:
        """(n,) the word that is the head of each, among all words; a root is its own. Heads are in range."""
        here = np.arange(len(self.heads))
        return np.where(self.heads == 0, here, starts_of(self.lengths)[self.words_of] + self.heads - 1)

    @cached_property
    def inner_of(self) -> Array:
        """(I,) the sentence of each internal node; every sentence has a constituency tree."""
        return np.repeat(np.arange(len(self)), self.lengths - 1)

    @cached_property
    def nodes_of(self) -> Array:
        """(m,) the sentence of each node."""
        return np.repeat(np.arange(len(self)), 2 * self.lengths - 1)

    @cached_property
    def numbers_of_nodes(self) -> Array:
        """(m,) the number of each node in its sentence."""
        return np.arange(len(self.nodes_of)) - starts_of(2 * self.lengths - 1)[self.nodes_of]

    @cached_property
    def inner(self) -> Array:
        """(I,) the internal nodes among all nodes."""
        return np.flatnonzero(self.numbers_of_nodes >= self.lengths[self.nodes_of])

    @cached_property
    def children(self) -> tuple[Array, Array]:
        """The left and the right child (I,) of each internal node, among all nodes. Children are in range."""
        first = starts_of(2 * self.lengths - 1)[self.inner_of]
        return first + self.numbers("left"), first + self.numbers("right")


def end_of_chains(step: Array) -> Array:
    """Where one ends that follows ``step`` (k,) from each place; chains are of any length but without cycles."""
    while not np.array_equal(further := step[step], step):
        step = further
    return step
