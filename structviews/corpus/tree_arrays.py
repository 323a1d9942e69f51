"""Facts about the trees of many sentences at once, on flat arrays: parents, heights, and whether they are trees.

Shapes: B sentences, n words in total, I = n - B internal nodes of the constituency trees, m = n + I nodes.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.runtime.arrays import Array, starts_of

# The characters for which str.isspace() is true.
WHITE_SPACE = "[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


class Flat:
    """The columns of a table of a parsed corpus, their lists concatenated."""

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
        """The values of a column of number lists, int64."""
        values: Array = pc.list_flatten(self._table[name]).to_numpy().astype(np.int64)
        return values

    def strings(self, name: str) -> pa.DictionaryArray:
        """The values of a column of string lists."""
        return pc.list_flatten(self._table[name]).combine_chunks()

    @cached_property
    def lengths(self) -> Array:
        """``(B,)`` number of words of each sentence."""
        return self.sizes("tokens")

    @cached_property
    def heads(self) -> Array:
        """``(n,)`` 1-based head of each word."""
        return self.numbers("heads")

    @cached_property
    def children(self) -> tuple[Array, Array]:
        """Left and right child ``(I,)`` of each internal node, numbered within the sentence."""
        return self.numbers("left"), self.numbers("right")


def dependency_parents(heads: Array, lengths: Array) -> Array:
    """The parent ``(n,)`` of each word, words numbered across sentences; -1 for a root.

    Args:
        heads: ``(n,)`` 1-based heads within each sentence, 0 for the root.
        lengths: ``(B,)`` number of words of each sentence.
    """
    return np.where(heads > 0, np.repeat(starts_of(lengths), lengths) + heads - 1, -1)


def constituency_parents(left: Array, right: Array, lengths: Array) -> Array:
    """The parent ``(m,)`` of each node of binary trees, nodes numbered across sentences; -1 for a root.

    Args:
        left: ``(I,)`` left child of each internal node, numbered within its sentence.
        right: ``(I,)`` right child.
        lengths: ``(B,)`` number of words of each sentence.
    """
    first = np.repeat(starts_of(2 * lengths - 1), lengths - 1)
    parents = np.full(int((2 * lengths - 1).sum()), -1)
    for children in (left, right):
        parents[first + children] = internal_nodes(lengths)
    return parents


def internal_nodes(lengths: Array) -> Array:
    """The number ``(I,)`` of each internal node, nodes numbered across sentences; in a sentence they come last."""
    inner = lengths - 1
    first = starts_of(2 * lengths - 1) + lengths - starts_of(inner)
    nodes: Array = np.arange(inner.sum()) + np.repeat(first, inner)
    return nodes


def heights_below(parents: Array) -> Array:
    """Height of every node of a forest, with leaves at 0, computed level by level.

    Args:
        parents: ``(N,)`` the parent of each node, -1 for a root.

    Returns:
        ``(N,)``, int16.
    """
    heights = np.zeros(len(parents), dtype=np.int16)
    above, level = parents[parents >= 0], 0
    while len(above):
        level += 1
        heights[above] = level
        above = parents[above]
        above = above[above >= 0]
    return heights


def dependency_heights(heads: Array, lengths: Array) -> Array:
    """Height ``(n,)`` of each word, leaf 0; arguments as for ``dependency_parents``."""
    return heights_below(dependency_parents(heads, lengths))


def constituency_heights(left: Array, right: Array, lengths: Array) -> Array:
    """Height ``(m,)`` of each node, leaf 0; arguments as for ``constituency_parents``."""
    return heights_below(constituency_parents(left, right, lengths))


def are_dependencies(heads: Array, lengths: Array) -> Array:
    """Whether ``(B,)`` sentences pass ``sentence.check_dependencies``; arguments as for ``dependency_parents``."""
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    inside = (heads >= 0) & (heads <= lengths[sentence])
    one_root = np.bincount(sentence[heads == 0], minlength=len(lengths)) == 1
    # Following the heads from each word must end at a root; roots are their own heads.
    parents = dependency_parents(np.where(inside, heads, 0), lengths)
    ends = _followed(np.where(parents < 0, np.arange(len(heads)), parents), lengths)
    trees: Array = one_root & ~any_of(~inside | (heads[ends] != 0), sentence, len(lengths))
    return trees


def are_constituents(left: Array, right: Array, lengths: Array) -> Array:
    """Whether ``(B,)`` sentences pass ``sentence.check_constituents``; arguments as for ``constituency_parents``."""
    batch, sizes, nodes = len(lengths), 2 * lengths - 1, internal_nodes(lengths)
    sentence, starts = np.repeat(np.arange(batch), lengths - 1), starts_of(2 * lengths - 1)
    first = starts[sentence]
    inside = (np.minimum(left, right) >= 0) & (np.maximum(left, right) < nodes - first)
    left, right = (np.where(inside, child, 0) + first for child in (left, right))
    times = np.bincount(np.concatenate([left, right]), minlength=int(sizes.sum()))
    times[starts + sizes - 1] += 1  # as if the root had a parent
    one_parent = ~any_of(times != 1, np.repeat(np.arange(batch), sizes), batch)
    # The first and the last word of each node.
    begin, end = np.arange(len(times)), np.arange(len(times))
    begin[nodes], end[nodes] = left, right
    begin, end = _followed(begin, lengths), _followed(end, lengths)
    adjacent = end[left] + 1 == begin[right]
    # In post-order, ends ascend, and among nodes with the same end the narrower come first.
    position = end[nodes] * len(times) - begin[nodes]
    in_order = np.diff(position, prepend=-1 - len(times) ** 2) > 0
    trees: Array = one_parent & ~any_of(~(inside & adjacent & in_order), sentence, batch)
    return trees


def _followed(pointers: Array, lengths: Array) -> Array:
    """Where at least as many steps lead as the longest sentence has words, by pointer doubling."""
    for _ in range(int(lengths.max(initial=0)).bit_length()):
        pointers = pointers[pointers]
    return pointers


def any_of(wrong: Array, of: Array, n: int) -> Array:
    """Whether ``(n,)`` each sentence has a wrong item; ``of`` is the sentence index of each item."""
    return np.bincount(of[wrong], minlength=n) > 0


def malformed(table: pa.Table) -> Array:
    """Whether ``(B,)`` each sentence of a table is not a valid ParsedSentence or has wrong heights."""
    shard = Flat(table)
    bad: Array = _wrong_sizes(shard) | _wrong_words(shard)
    for column, checks in CHECKS.items():
        there = shard.sizes(column) > 0
        for check in checks:
            # Each check assumes that all previous ones passed.
            rows = np.flatnonzero(there & ~bad)
            bad[rows] = check(shard if len(rows) == len(bad) else Flat(table.take(rows)))
    return bad


def _wrong_sizes(shard: Flat) -> Array:
    """Lists whose length does not match the number of words."""
    n = shard.lengths
    wrong: Array = n == 0
    for columns in (
        {"tags": n},
        {"heads": n, "relations": n, "dep_height": n},
        {"left": n - 1, "right": n - 1, "labels": 2 * n - 1, "const_height": 2 * n - 1},
    ):
        sizes = {name: shard.sizes(name) for name in columns}
        there = np.logical_or.reduce([size > 0 for size in sizes.values()])
        for name, expected in columns.items():
            wrong |= sizes[name] != np.where(there, expected, 0)
    return wrong


def _wrong_words(shard: Flat) -> Array:
    """Tokens that are empty or contain white space."""
    words, sentence = shard.strings("tokens"), np.repeat(np.arange(len(shard)), shard.lengths)
    bad = pc.or_(pc.equal(words.dictionary, ""), pc.match_substring_regex(words.dictionary, WHITE_SPACE))
    return any_of(bad.to_numpy(zero_copy_only=False)[words.indices.to_numpy()], sentence, len(shard))


def _wrong_dependency_heights(shard: Flat) -> Array:
    wrong = shard.numbers("dep_height") != dependency_heights(shard.heads, shard.lengths)
    return any_of(wrong, np.repeat(np.arange(len(shard)), shard.lengths), len(shard))


def _wrong_constituency_heights(shard: Flat) -> Array:
    wrong = shard.numbers("const_height") != constituency_heights(*shard.children, shard.lengths)
    return any_of(wrong, np.repeat(np.arange(len(shard)), 2 * shard.lengths - 1), len(shard))


CHECKS: dict[str, tuple[Callable[[Flat], Array], ...]] = {
    "heads": (lambda shard: ~are_dependencies(shard.heads, shard.lengths), _wrong_dependency_heights),
    "labels": (lambda shard: ~are_constituents(*shard.children, shard.lengths), _wrong_constituency_heights),
}
