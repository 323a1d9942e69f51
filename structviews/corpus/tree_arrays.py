"""Facts about the trees of many sentences at once, on flat arrays: parents, heights, and whether they are trees.

Shapes: B sentences, n words in total, I = n - B internal nodes of the constituency trees, m = n + I nodes.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.runtime.arrays import Array, starts_of

# The characters for which str.isspace() is true.
WHITE_SPACE = "[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


def sizes(table: pa.Table, column: str) -> Array:
    """The length ``(B,)``, int64, of each list in a column of a corpus."""
    return pc.list_value_length(table[column]).to_numpy().astype(np.int64)


def numbers(table: pa.Table, column: str) -> Array:
    """The values of a column of number lists, concatenated, int64."""
    return pc.list_flatten(table[column]).to_numpy().astype(np.int64)


def strings(table: pa.Table, column: str) -> pa.DictionaryArray:
    """The values of a column of string lists, concatenated."""
    return pc.list_flatten(table[column]).combine_chunks()


def dependency_parents(heads: Array, lengths: Array) -> Array:
    """The parent ``(n,)`` of each word, words numbered across sentences; -1 for a root.

    ``heads (n,)`` are 1-based within each sentence, 0 for the root; sentences have ``lengths (B,)``.
    """
    return np.where(heads > 0, np.repeat(starts_of(lengths), lengths) + heads - 1, -1)


def constituency_parents(left: Array, right: Array, lengths: Array) -> Array:
    """The parent ``(m,)`` of each node of binary trees, nodes numbered across sentences; -1 for a root.

    Internal nodes have the children ``left (I,)`` and ``right (I,)``, numbered within their sentence.
    """
    first = np.repeat(starts_of(2 * lengths - 1), lengths - 1)
    parents = np.full(int((2 * lengths - 1).sum()), -1)
    parents[first + left] = parents[first + right] = internal_nodes(lengths)
    return parents


def internal_nodes(lengths: Array) -> Array:
    """The number ``(I,)`` of each internal node, nodes numbered across sentences; in a sentence they come last."""
    inner = lengths - 1
    first = starts_of(2 * lengths - 1) + lengths - starts_of(inner)
    return np.arange(inner.sum()) + np.repeat(first, inner)


def heights(parents: Array) -> Array:
    """Height ``(N,)``, int16, leaf 0, of every node of a forest by its parent ``(N,)``, -1 for a root; by levels."""
    found = np.zeros(len(parents), dtype=np.int16)
    above, level = parents[parents >= 0], 0
    while len(above):
        level += 1
        found[above] = level
        above = parents[above]
        above = above[above >= 0]
    return found


def are_dependencies(heads: Array, lengths: Array) -> Array:
    """Whether ``(B,)`` sentences pass ``sentence.check_dependencies``; arguments as for ``dependency_parents``."""
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    inside = (heads >= 0) & (heads <= lengths[sentence])
    one_root = np.bincount(sentence[heads == 0], minlength=len(lengths)) == 1
    # Following the heads from each word must end at a root; roots are their own heads.
    parents = dependency_parents(np.where(inside, heads, 0), lengths)
    ends = _followed(np.where(parents < 0, np.arange(len(heads)), parents), lengths)
    return one_root & ~any_of(~inside | (heads[ends] != 0), sentence, len(lengths))


def are_constituents(left: Array, right: Array, lengths: Array) -> Array:
    """Whether ``(B,)`` sentences pass ``sentence.check_constituents``; arguments as for ``constituency_parents``."""
    batch, counts, nodes = len(lengths), 2 * lengths - 1, internal_nodes(lengths)
    sentence, starts = np.repeat(np.arange(batch), lengths - 1), starts_of(counts)
    first = starts[sentence]
    inside = (np.minimum(left, right) >= 0) & (np.maximum(left, right) < nodes - first)
    left, right = (np.where(inside, child, 0) + first for child in (left, right))
    times = np.bincount(np.concatenate([left, right]), minlength=int(counts.sum()))
    times[starts + counts - 1] += 1  # as if the root had a parent
    one_parent = ~any_of(times != 1, np.repeat(np.arange(batch), counts), batch)
    # The first and the last word of each node.
    begin, end = np.arange(len(times)), np.arange(len(times))
    begin[nodes], end[nodes] = left, right
    begin, end = _followed(begin, lengths), _followed(end, lengths)
    adjacent = end[left] + 1 == begin[right]
    # In post-order, ends ascend, and among nodes with the same end the narrower come first.
    position = end[nodes] * len(times) - begin[nodes]
    in_order = np.diff(position, prepend=-1 - len(times) ** 2) > 0
    return one_parent & ~any_of(~(inside & adjacent & in_order), sentence, batch)


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
    bad: Array = _wrong_sizes(table) | _wrong_words(table)
    for height, names, are_trees, parents in KINDS:
        there = sizes(table, height) > 0
        for check_heights in (False, True):
            # Each check assumes that all previous ones passed.
            rows = np.flatnonzero(there & ~bad)
            part = table if len(rows) == len(bad) else table.take(rows)
            trees = *(numbers(part, name) for name in names), sizes(part, "tokens")
            if check_heights:
                sentence = np.repeat(np.arange(len(part)), sizes(part, height))
                bad[rows] = any_of(numbers(part, height) != heights(parents(*trees)), sentence, len(part))
            else:
                bad[rows] = ~are_trees(*trees)
    return bad


def _wrong_sizes(table: pa.Table) -> Array:
    """Lists whose length does not match the number of words."""
    n = sizes(table, "tokens")
    wrong: Array = n == 0
    for columns in (
        {"tags": n},
        {"heads": n, "relations": n, "dep_height": n},
        {"left": n - 1, "right": n - 1, "labels": 2 * n - 1, "const_height": 2 * n - 1},
    ):
        found = {name: sizes(table, name) for name in columns}
        there = np.logical_or.reduce([size > 0 for size in found.values()])
        for name, expected in columns.items():
            wrong |= found[name] != np.where(there, expected, 0)
    return wrong


def _wrong_words(table: pa.Table) -> Array:
    """Tokens that are empty or contain white space."""
    words, sentence = strings(table, "tokens"), np.repeat(np.arange(len(table)), sizes(table, "tokens"))
    bad = pc.or_(pc.equal(words.dictionary, ""), pc.match_substring_regex(words.dictionary, WHITE_SPACE))
    return any_of(bad.to_numpy(zero_copy_only=False)[words.indices.to_numpy()], sentence, len(table))


# Of each kind of tree the columns with the heights and with the trees.
KINDS: tuple[tuple[str, tuple[str, ...], Callable[..., Array], Callable[..., Array]], ...] = (
    ("dep_height", ("heads",), are_dependencies, dependency_parents),
    ("const_height", ("left", "right"), are_constituents, constituency_parents),
)
