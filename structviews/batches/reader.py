"""Reading batches from a parsed corpus, vectorised from column to tensor.

Shapes: B sentences in the batch, n words in total.
"""

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from structviews.batches.batch import COLUMNS, Batch, WordIds, assemble
from structviews.corpus.parsed_corpus import OPEN_SHARDS, ParsedCorpus
from structviews.pretrained.alignment import Aligner
from structviews.pretrained.states import ContextualWords, each_its_own
from structviews.pretrained.stored_states import StoredStates
from structviews.runtime.arrays import Array, row_hashes, starts_of, word_hashes
from structviews.words.vocabulary import Vocabulary

T = TypeVar("T")


class Ragged(NamedTuple):
    """Concatenated lists of different lengths: ``values (total,)`` and ``offsets (rows + 1,)``."""

    values: Array
    offsets: Array

    def rows(self, start: int, stop: int) -> Array:
        """The values of consecutive rows, without a copy."""
        return self.values[self.offsets[start] : self.offsets[stop]]

    def lengths(self, start: int, stop: int) -> Array:
        """The lengths of consecutive rows."""
        return np.diff(self.offsets[start : stop + 1])


class Shard(NamedTuple):
    """One shard's columns as NumPy arrays on the memory map, and the ids of its words.

    Attributes:
        document, position: ``(rows,)`` each.
        columns: the list columns.
        words: the words in the shard's dictionary.
        ids: for each channel whose words do not depend on their sentence, the ids of these words.
        hashes: hashes of these words; empty unless duplicates are needed.
    """

    document: Array
    position: Array
    columns: dict[str, Ragged]
    words: list[str]
    ids: dict[str, Array]
    hashes: Array


class Run(NamedTuple):
    """Consecutive sentences of one shard, and its number."""

    shard: Shard
    start: int
    stop: int
    number: int

    @property
    def words(self) -> slice:
        """Where their words are among those of the shard."""
        first, last = self.shard.columns["tokens"].offsets[[self.start, self.stop]].tolist()
        return slice(first, last)


class CorpusReader:
    """Reads batches from a parsed corpus.

    Keeps the memory maps of the most recent shards and nothing per sentence, so a corpus may be
    larger than memory.

    Args:
        corpus: the corpus.
        vocabularies: vocabularies by channel; a batch gets ids for each.
        needs: structures that the views need (``tokens``, ``dependency``, ``constituency``).
        duplicates: whether batches have ``same``.
        cut_off: batches have the first so many words of each sentence; 0 for all. Trees cannot be cut.
        states: by channel, the vectors of words that depend on their sentence, where these are on disk.
        aligner: of the encoder that a view reads, if there is one; batches then have ``pieces``.

    Raises:
        InputError: if the corpus lacks trees that are needed.
    """

    def __init__(
        self,
        corpus: ParsedCorpus,
        vocabularies: dict[str, Vocabulary],
        needs: Iterable[str],
        duplicates: bool = False,
        cut_off: int = 0,
        states: Mapping[str, StoredStates] | None = None,
        aligner: Aligner | None = None,
    ):
        self.needs = frozenset(needs) | {"tokens"}
        if "dependency" in self.needs:
            corpus.require("dependency")
        if "constituency" in self.needs:
            corpus.require("constituency")
        self.corpus = corpus
        self.vocabularies = vocabularies
        self.duplicates = duplicates
        self.cut_off = cut_off
        self.states = dict(states or {})
        self.aligner = aligner
        self._starts = np.concatenate([[0], np.cumsum(corpus.shard_rows)])
        self._shard = lru_cache(OPEN_SHARDS)(self._load_shard)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def documents(self) -> Array:
        """The document number ``(sentences,)``, int32, of every sentence of the corpus."""
        tables = (self.corpus.shard(i) for i in range(self.corpus.n_shards))
        return np.concatenate([table["document"].to_numpy() for table in tables])

    def batch(self, rows: Array) -> Batch:
        """The batch of the sentences with these ascending corpus indices.

        Runs of consecutive sentences are copied as blocks, which is fast.
        """
        runs = list(self._runs(rows))

        def joined(column: str) -> Array:
            return np.concatenate([shard.columns[column].rows(start, stop) for shard, start, stop, _ in runs])

        words = [shard.columns["tokens"].rows(start, stop) for shard, start, stop, _ in runs]
        found = {name: self._look_up(name, runs, words) for name in self.vocabularies}
        lengths = np.concatenate([shard.columns["tokens"].lengths(start, stop) for shard, start, stop, _ in runs])
        pieces = None
        if self.aligner:
            most = self.cut_off or None
            pieces = self.aligner.read([sentence[:most] for sentence in _sentences(runs, words)])
        same = None
        if self.duplicates:
            hashes = np.concatenate([run.shard.hashes[w] for run, w in zip(runs, words, strict=True)])
            same = row_hashes(hashes, np.concatenate([[0], np.cumsum(lengths)]))
        if self.cut_off:
            place = np.arange(lengths.sum()) - np.repeat(starts_of(lengths), lengths)
            found = {name: _kept(*each, place < self.cut_off) for name, each in found.items()}
            lengths = np.minimum(lengths, self.cut_off)
        return assemble(
            {name: WordIds.of(*each) for name, each in found.items()},
            lengths,
            np.concatenate([shard.document[start:stop] for shard, start, stop, _ in runs]),
            np.concatenate([shard.position[start:stop] for shard, start, stop, _ in runs]),
            {column: joined(column) for kind in self.needs - {"tokens"} for column in COLUMNS[kind]},
            same,
            pieces,
        )

    def _look_up(self, name: str, runs: list[Run], words: list[Array]) -> tuple[Array, Array | None]:
        """The words of runs in a channel's vocabulary, see ``Vocabulary.look_up``; each is given by its number."""
        if name in self.states:
            stored = self.states[name]
            return each_its_own(np.concatenate([stored.shard(run.number)[run.words] for run in runs], dtype=np.float32))
        vocabulary = self.vocabularies[name]
        if isinstance(vocabulary, ContextualWords):
            return vocabulary.look_up(list(_sentences(runs, words)))
        return np.concatenate([run.shard.ids[name][w] for run, w in zip(runs, words, strict=True)]), None

    def _runs(self, rows: Array) -> Iterator[Run]:
        """The rows as runs of consecutive sentences within a shard."""
        shards = np.searchsorted(self._starts, rows, side="right") - 1
        firsts = np.flatnonzero((np.diff(rows, prepend=-2) != 1) | (np.diff(shards, prepend=-1) != 0))
        numbers = shards[firsts]
        starts = rows[firsts] - self._starts[numbers]
        stops = starts + np.diff(firsts, append=len(rows))
        for number, start, stop in zip(numbers.tolist(), starts.tolist(), stops.tolist(), strict=True):
            yield Run(self._shard(number), start, stop, number)

    def _load_shard(self, number: int) -> Shard:
        table = self.corpus.shard(number)
        columns, words, ids, hashes = {}, [], {}, np.zeros(0, np.uint64)
        for name in (c for kind in self.needs for c in COLUMNS[kind]):
            lists = table[name].chunk(0)  # the only one; combining chunks would copy
            values = lists.values
            if name == "tokens":
                words = values.dictionary.to_pylist()
                ids = {c: v.ids(words) for c, v in self.vocabularies.items() if not isinstance(v, ContextualWords)}
                if self.duplicates:
                    hashes = word_hashes(values.dictionary)
                values = values.indices
            columns[name] = Ragged(values.to_numpy(), lists.offsets.to_numpy())
        return Shard(table["document"].to_numpy(), table["position"].to_numpy(), columns, words, ids, hashes)


def _sentences(runs: Iterable[Run], words: Iterable[Array]) -> Iterator[list[str]]:
    """The words of each sentence."""
    for (shard, start, stop, _), numbers in zip(runs, words, strict=True):
        spelt = [shard.words[number] for number in numbers.tolist()]
        ends = np.cumsum(shard.columns["tokens"].lengths(start, stop)).tolist()
        yield from (spelt[a:b] for a, b in pairwise([0, *ends]))


def _kept(ids: Array, further: Array | None, kept: Array) -> tuple[Array, Array | None]:
    """The words of a batch that are kept, as ``Vocabulary.look_up`` returns them."""
    return (ids[kept], None) if further is None else each_its_own(further[kept])


def prefetch(items: Iterator[T], depth: int = 4) -> Iterator[T]:
    """Iterate over ``items`` in a background thread, ``depth`` items ahead; its errors are raised here."""
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: tuple[Any, BaseException | None]) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((None, StopIteration()))
        except BaseException as error:  # raised in the consumer's thread; a panic in Rust is no Exception
            put((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
        thread.join()
