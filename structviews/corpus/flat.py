"""A shard's columns as flat arrays, for vectorised operations on all sentences or nodes.

Shapes: B sentences, n words in total, I internal nodes of the constituency trees, m = n + I nodes.
"""

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.runtime.arrays import Array, starts_of


class Flat:
    """The columns of some rows of a corpus; properties state what they assume beyond the schema.

    Args:
        table: a table with the schema of a parsed corpus.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        rows: int = self._table.num_rows
        return rows

    def sizes(self, name: str) -> Array:
        """The length ``(B,)``, int64, of each list in a column."""
        lengths: Array = pc.list_value_length(self._table[name]).to_numpy().astype(np.int64)
        return lengths

    def numbers(self, name: str) -> Array:
        """The values of a column of number lists, concatenated, int64."""
        values: Array = pc.list_flatten(self._table[name]).to_numpy().astype(np.int64)
        return values

    def strings(self, name: str) -> pa.DictionaryArray:
        """The values of a column of string lists, concatenated."""
        return pc.list_flatten(self._table[name]).combine_chunks()

    @cached_property
    def lengths(self) -> Array:
        """``(B,)`` number of words of each sentence."""
        return self.sizes("tokens")

    @cached_property
    def words_of(self) -> Array:
        """``(n,)`` sentence index of each word."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def heads(self) -> Array:
        """``(n,)`` 1-based head of each word; assumes that every sentence has a dependency tree."""
        return self.numbers("heads")

    @cached_property
    def head_words(self) -> Array:
        """``(n,)`` index of each word's head among all words, a root being its own; assumes heads in range."""
        here = np.arange(len(self.heads))
        return np.where(self.heads == 0, here, starts_of(self.lengths)[self.words_of] + self.heads - 1)

    @cached_property
    def inner_of(self) -> Array:
        """``(I,)`` sentence index of each internal node; assumes that every sentence has a constituency tree."""
        return np.repeat(np.arange(len(self)), self.lengths - 1)

    @cached_property
    def nodes_of(self) -> Array:
        """``(m,)`` sentence index of each node."""
        return np.repeat(np.arange(len(self)), 2 * self.lengths - 1)

    @cached_property
    def numbers_of_nodes(self) -> Array:
        """``(m,)`` number of each node within its sentence."""
        numbers: Array = np.arange(len(self.nodes_of)) - starts_of(2 * self.lengths - 1)[self.nodes_of]
        return numbers

    @cached_property
    def inner(self) -> Array:
        """``(I,)`` indices of the internal nodes among all nodes."""
        return np.flatnonzero(self.numbers_of_nodes >= self.lengths[self.nodes_of])

    @cached_property
    def children(self) -> tuple[Array, Array]:
        """Left and right child ``(I,)`` of each internal node, as indices among all nodes; assumes them in range."""
        first = starts_of(2 * self.lengths - 1)[self.inner_of]
        return first + self.numbers("left"), first + self.numbers("right")


def end_of_chains(step: Array) -> Array:
    """The end of the chain that follows the pointers ``step (k,)`` from each element; there must be no cycles."""
    while not np.array_equal(further := step[step], step):
        step = further
    return step
