"""Many parsed sentences as flat columns: what probing tasks and perturbations are made from.

Labels for all sentences take a few array operations; a rule reads one sentence at a time.

Shapes: B sentences, n words in total, m = 2n - B constituency nodes in total.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.corpus.layout import Form, Row, batch_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.tree_arrays import sizes
from structviews.runtime.arrays import Array, inverse_of, starts_of


class Column(NamedTuple):
    """A dictionary-encoded column of strings: ``ids`` (k,) int32 into ``names`` (u,), an object array."""

    ids: Array
    names: Array

    def isin(self, *names: str) -> Array:
        """Whether each entry is one of the names; (k,) bool."""
        return np.isin(self.names, names)[self.ids]

    def mapped(self, names: Sequence[str]) -> "Column":
        """The column with each old name replaced by the new one at its index; equal new names are merged."""
        distinct, inverse = np.unique(np.array(names, dtype=object), return_inverse=True)
        return Column(inverse.astype(np.int32)[self.ids], distinct)


@dataclass(frozen=True)
class Parses:
    """Parsed sentences. Sentences without some annotation have no entries in its columns."""

    rows: Array  # (B,) of each sentence in its corpus
    documents: Array  # (B,)
    lengths: Array  # (B,) numbers of words
    words: Column  # (n,)
    tags: Column  # (n,) parts of speech
    heads: Array  # (n,) 1-based within each sentence, 0 for the root
    relations: Column  # (n,) of the dependency trees
    left: Array  # (n - B,) child of each internal node, numbered within its sentence
    right: Array  # (n - B,)
    labels: Column  # (m,) of each node, grouped by sentence

    @classmethod
    def read(cls, corpus: ParsedCorpus, shortest: int, longest: int, most: int, rng: np.random.Generator) -> "Parses":
        """The sentences of ``shortest`` to ``longest`` words of a corpus, in its order.

        If there are more than ``most``, they are from randomly drawn shards.
        """
        found: dict[int, pa.Table] = {}
        for number in rng.permutation(corpus.n_shards).tolist():
            found[number] = _of_lengths(corpus, number, shortest, longest)[:most]
            most -= len(found[number])
            if not most:
                break
        return cls.of_tables([found[number] for number in sorted(found)])

    @classmethod
    def by_shard(cls, corpus: ParsedCorpus, shortest: int, longest: int) -> Iterator["Parses"]:
        """The sentences of ``shortest`` to ``longest`` words of each shard that has some, in order."""
        for number in range(corpus.n_shards):
            if len(table := _of_lengths(corpus, number, shortest, longest)):
                yield cls.of_tables([table])

    @classmethod
    def of(cls, sentences: Sequence[ParsedSentence]) -> "Parses":
        """Sentences in memory, all of one document."""
        rows = [Row(0, position, position, sentence) for position, sentence in enumerate(sentences)]
        table = pa.Table.from_batches([batch_of(rows, Form())])
        return cls.of_tables([table.append_column("row", pa.array(np.arange(len(rows))))])

    @classmethod
    def of_tables(cls, tables: Sequence[pa.Table]) -> "Parses":
        """Parses from the tables of corpus shards with an additional column ``row``."""
        # The types of numbers and of dictionary indices differ between shards.
        table = pa.concat_tables(tables, promote_options="permissive")
        return cls(
            rows=table["row"].to_numpy(),
            documents=table["document"].to_numpy(),
            lengths=sizes(table, "tokens"),
            words=_column(table["tokens"]),
            tags=_column(table["tags"]),
            heads=pc.list_flatten(table["heads"]).to_numpy(),
            relations=_column(table["relations"]),
            left=pc.list_flatten(table["left"]).to_numpy(),
            right=pc.list_flatten(table["right"]).to_numpy(),
            labels=_column(table["labels"]),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def sentence(self, index: int) -> ParsedSentence:
        """One of the sentences, all of which have tags and both trees, checked when the corpus was read."""
        n, start = int(self.lengths[index]), int(self.starts[index])
        words, inner, nodes = slice(start, start + n), slice(start - index, start - index + n - 1), 2 * start - index
        columns = (self.words, self.tags, self.relations)
        tokens, tags, relations = (tuple(column.names[column.ids[words]]) for column in columns)
        heads, left, right = (tuple(each.tolist()) for each in (self.heads[words], self.left[inner], self.right[inner]))
        labels = tuple(self.labels.names[self.labels.ids[nodes : nodes + 2 * n - 1]])
        return ParsedSentence.unchecked(tokens, tags, heads, relations, left, right, labels)

    def first_occurrences(self, longest: int, rng: np.random.Generator) -> Array:
        """(B,) bool: whether no earlier sentence has the same words; ``longest``: the most words of a sentence."""
        noise = rng.integers(2**64, size=(longest, len(self.words.names)), dtype=np.uint64)
        # Equal sentences have equal sums, others almost never.
        sums = np.add.reduceat(noise[self.positions, self.words.ids], self.starts)
        first = np.zeros(len(self), dtype=bool)
        first[np.unique(sums, return_index=True)[1]] = True
        return first

    @property
    def lacking(self) -> list[str]:
        """Annotations that some sentence lacks: ``tags``, ``dependency`` or ``constituency`` trees."""
        n = len(self.words.ids)
        nodes = 2 * n - len(self)
        found = {"tags": (self.tags.ids, n), "dependency": (self.heads, n), "constituency": (self.labels.ids, nodes)}
        return [name for name, (each, expected) in found.items() if len(each) != expected]

    @cached_property
    def starts(self) -> Array:
        """(B,) the first word of each sentence."""
        return starts_of(self.lengths)

    @cached_property
    def sentences(self) -> Array:
        """(n,) the sentence of each word."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    @cached_property
    def positions(self) -> Array:
        """(n,) position of each word in its sentence, from 0."""
        return np.arange(len(self.words.ids)) - self.starts[self.sentences]

    @cached_property
    def is_punctuation(self) -> Array:
        """(n,) bool: whether each word has no letter or digit."""
        return np.array([not any(map(str.isalnum, name)) for name in self.words.names], bool)[self.words.ids]

    @cached_property
    def head_words(self) -> Array:
        """(n,) the head of each word, as a word index; a root is its own head."""
        return np.where(self.heads == 0, np.arange(len(self.heads)), self.starts[self.sentences] + self.heads - 1)

    @cached_property
    def roots(self) -> Array:
        """(B,) the root word of each dependency tree."""
        return np.flatnonzero(self.heads == 0)

    @cached_property
    def nodes(self) -> "Nodes":
        """The nodes of the constituency trees, which all sentences must have."""
        sizes = 2 * self.lengths - 1
        first = starts_of(sizes)
        sentence = np.repeat(np.arange(len(self), dtype=np.int32), sizes)
        number = np.arange(len(sentence)) - first[sentence]
        is_leaf = number < self.lengths[sentence]
        is_root = number == sizes[sentence] - 1
        internal = np.flatnonzero(~is_leaf)
        left, right = (first[sentence[internal]] + side for side in (self.left, self.right))
        parent = np.arange(len(sentence), dtype=np.int32)
        parent[left] = parent[right] = internal
        word = np.where(is_leaf, self.starts[sentence] + number, -1)
        chain = np.array([len(name.split("+")) if name else 0 for name in self.labels.names], dtype=np.int8)
        levels = chain[self.labels.ids]
        levels[is_root & ~is_leaf] = np.maximum(levels[is_root & ~is_leaf], 1)
        # A node starts at the leaf reached through left children only, and ends at the one through right children only.
        bounds = []
        for child in (left, right):
            step = np.arange(len(sentence), dtype=np.int32)
            step[internal] = child
            while not np.array_equal(further := step[step], step):
                step = further
            bounds.append(number[step])
        return Nodes(sentence, parent, is_root, word, bounds[0], bounds[1] + 1, levels)


@dataclass(frozen=True)
class Nodes:
    """The nodes of constituency trees: 2n - 1 for a sentence of n words, grouped by sentence, leaves first; (m,) each.

    ``levels`` is how many nodes of the original, unbinarised tree a node represents: several for a unary chain, 0 for
    a node introduced by binarisation. A leaf's tag does not count.
    """

    sentence: Array
    parent: Array  # a root is its own
    is_root: Array
    word: Array  # of a leaf; -1 for internal nodes
    start: Array  # position of the node's first word in its sentence, from 0
    end: Array  # position after its last word
    levels: Array

    def summed_to_root(self, amounts: Array) -> Array:
        """Sum of amounts (m,) over each node and all its ancestors, in log(height) passes."""
        sums, above = amounts.astype(np.int32), self.parent
        sums[self.is_root], at_root = 0, sums[self.is_root]
        while not self.is_root[above].all():
            sums, above = sums + sums[above], above[above]
        return sums + at_root[self.sentence]


def _of_lengths(corpus: ParsedCorpus, number: int, shortest: int, longest: int) -> pa.Table:
    """The sentences of some lengths of a shard, with an additional column ``row``."""
    table = corpus.shard(number)
    lengths = sizes(table, "tokens")
    fits = np.flatnonzero((lengths >= shortest) & (lengths <= longest))
    return table.take(fits).append_column("row", pa.array(sum(corpus.shard_rows[:number]) + fits))


def _column(lists: pa.ChunkedArray) -> Column:
    """Lists of dictionary-encoded strings as one column with a single, sorted dictionary."""
    wide = pa.dictionary(pa.int32(), pa.string())  # the dictionaries of all shards together may need it
    values = pc.list_flatten(lists).cast(wide).combine_chunks()
    names = values.dictionary.to_numpy(zero_copy_only=False)
    # Sorted, so that ids do not depend on the number and order of the shards read.
    order = np.argsort(names, kind="stable")
    return Column(inverse_of(order).astype(np.int32)[values.indices.to_numpy()], names[order])
