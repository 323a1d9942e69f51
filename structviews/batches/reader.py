"""Reading batches from a parsed corpus, vectorised from column to tensor; held-out sentences and an epoch's batches.

Shapes: B sentences in the batch, n words in total.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

import numpy as np

from structviews.batches.batch import STRUCTURES, Batch, assemble
from structviews.batches.pairs import Further
from structviews.corpus.parsed_corpus import OPEN_SHARDS, SHARD_ROWS, ParsedCorpus
from structviews.corpus.relations import relation_numbers
from structviews.pretrained.alignment import Aligner
from structviews.pretrained.states import ContextualWords, each_its_own
from structviews.pretrained.stored_states import StoredStates
from structviews.runtime.arrays import Array, mix, row_hashes, starts_of, word_hashes
from structviews.words.vocabulary import Vocabulary

T = TypeVar("T")


class Shard(NamedTuple):
    """One shard's columns as NumPy arrays on the memory map, and the ids of its words."""

    document: Array  # (rows,)
    position: Array  # (rows,)
    columns: dict[str, tuple[Array, Array]]  # lists: values of all rows, and where those of each row start (rows + 1,)
    words: list[str]  # the words in the shard's dictionary
    ids: dict[str, Array]  # for each channel whose words do not depend on their sentence, the ids of these words
    hashes: Array  # hashes of these words; empty unless duplicates are needed
    relations: Array  # the numbers of the relations in the shard's dictionary; empty unless they are needed


class Run(NamedTuple):
    """Consecutive sentences of one shard, and its number."""

    shard: Shard
    start: int
    stop: int
    number: int

    def of(self, column: str) -> Array:
        """Their values in a list column, without a copy; those of relations are numbers, see ``relation_numbers``."""
        values, offsets = self.shard.columns[column]
        own: Array = values[offsets[self.start] : offsets[self.stop]]
        return self.shard.relations[own] if column == "relations" else own

    @property
    def offsets(self) -> Array:
        """Where each sentence's words start among those of the shard, and the end."""
        return self.shard.columns["tokens"][1][self.start : self.stop + 1]

    @property
    def sentences(self) -> Iterator[list[str]]:
        """The words of each sentence."""
        spelt = [self.shard.words[number] for number in self.of("tokens").tolist()]
        return (spelt[a:b] for a, b in pairwise((self.offsets - self.offsets[0]).tolist()))


@dataclass(eq=False)
class CorpusReader:
    """Reads batches from a parsed corpus.

    Keeps the memory maps of the most recent shards and nothing per sentence, so a corpus may be
    larger than memory.

    Args:
        corpus, vocabularies, needs: the corpus, the vocabularies by channel, and the structures to read.
        duplicates: whether batches have ``same``.
        cut_off: batches have the first so many words of each sentence; 0 for all. Trees cannot be cut.
        across_documents: whether batches tell nothing of documents, as if the corpus were one.
        states: by channel, the vectors of words that depend on their sentence, where these are on disk.
        aligner: of the encoder that a view reads, if there is one; batches then have ``pieces``.
        teacher: the sentences' vectors by a teacher, on disk, if batches are to have them.
        pairs: a corpus of further sentences, which may go behind those of a batch.

    Raises InputError if a corpus lacks trees that are needed.
    """

    corpus: ParsedCorpus
    vocabularies: dict[str, Vocabulary]
    needs: Collection[str]
    duplicates: bool = False
    cut_off: int = 0
    states: Mapping[str, StoredStates] = field(default_factory=dict)
    aligner: Aligner | None = None
    across_documents: bool = False
    teacher: StoredStates | None = None
    pairs: ParsedCorpus | None = None

    def __post_init__(self) -> None:
        # Rows and shards are numbered through both.
        self._corpora = [self.corpus, self.pairs] if self.pairs else [self.corpus]
        kinds = [kind for kind in STRUCTURES if kind in self.needs]
        for each in self._corpora:
            for kind in kinds:
                each.require(kind)
        self._columns = list(dict.fromkeys(column for kind in kinds for column in STRUCTURES[kind].columns))
        self._starts = np.cumsum([0, *(rows for each in self._corpora for rows in each.shard_rows)])
        self._shard = lru_cache(OPEN_SHARDS)(self._load_shard)

    def __len__(self) -> int:
        return len(self.corpus)

    def documents(self) -> Array:
        """The document number ``(sentences,)``, int32, of every sentence of the corpus."""
        return np.concatenate([table["document"].to_numpy() for table in self.corpus.tables()])

    def batch(self, rows: Array, further: Further | None = None) -> Batch:
        """The batch of the sentences with these ascending corpus indices, and of further ones behind them.

        Runs of consecutive sentences are copied as blocks, which is fast.
        """
        source = changed = None
        if further:
            source = np.concatenate([np.full(len(rows), -1), further.source])
            changed = np.concatenate([np.zeros(len(rows), bool), further.changed])
            rows = np.concatenate([rows, len(self) + further.rows])
        shards = np.searchsorted(self._starts, rows, side="right") - 1
        firsts = np.flatnonzero((np.diff(rows, prepend=-2) != 1) | (np.diff(shards, prepend=-1) != 0))
        starts = rows[firsts] - self._starts[shards[firsts]]
        bounds = np.stack([shards[firsts], starts, starts + np.diff(firsts, append=len(rows))], axis=1)
        runs = [Run(self._shard(number), start, stop, number) for number, start, stop in bounds.tolist()]
        own = [run for run in runs if run.number < self.corpus.n_shards]  # the others are behind them
        found: dict[str, tuple[Array, Array | None]] = {}
        for name, vocabulary in self.vocabularies.items():
            if not isinstance(vocabulary, ContextualWords):
                found[name] = np.concatenate([run.shard.ids[name][run.of("tokens")] for run in runs]), None
                continue
            stored = self.states.get(name)
            states = [stored.shard(run.number)[run.offsets[0] : run.offsets[-1]] for run in own] if stored else []
            if others := [sentence for run in runs[len(states) :] for sentence in run.sentences]:
                states.append(vocabulary.look_up(others)[1])
            found[name] = each_its_own(np.concatenate(states, dtype=np.float32))
        lengths = np.concatenate([np.diff(run.offsets) for run in runs])
        pieces = None
        if self.aligner:
            most = self.cut_off or None
            pieces = self.aligner.read([sentence[:most] for run in runs for sentence in run.sentences])
        same = None
        if self.duplicates:
            hashes = np.concatenate([run.shard.hashes[run.of("tokens")] for run in runs])
            same = row_hashes(hashes, np.concatenate([[0], np.cumsum(lengths)])).view(np.int64)
        if self.cut_off:
            inside = np.arange(lengths.sum()) - np.repeat(starts_of(lengths), lengths) < self.cut_off
            found = {
                name: (ids[inside], None) if beyond is None else each_its_own(beyond[inside])
                for name, (ids, beyond) in found.items()
            }
            lengths = np.minimum(lengths, self.cut_off)
        document, position = np.zeros(len(rows), np.int64), rows.astype(np.int64)
        if not self.across_documents:
            document, position = (
                np.concatenate([getattr(run.shard, name)[run.start : run.stop] for run in runs], dtype=np.int64)
                for name in ("document", "position")
            )
        if further:  # each a document of its own
            document = np.where(rows < len(self), document, -1 - rows)
        columns = {name: np.concatenate([run.of(name) for run in runs]) for name in self._columns}
        given = {"document": document, "position": position, "same": same, "source": source, "changed": changed}
        if self.teacher:
            vectors = np.concatenate([self.teacher.shard(run.number)[run.start : run.stop] for run in own])
            # A further sentence has that of the sentence that it was made of.
            given["teacher"] = np.concatenate([vectors, vectors[further.source]]) if further else vectors
        return assemble(found, lengths, self.needs, columns, pieces, merged=False, **given)

    def _load_shard(self, number: int) -> Shard:
        own = number < self.corpus.n_shards
        table = self.corpus.shard(number) if own else self._corpora[1].shard(number - self.corpus.n_shards)
        columns, words, ids, hashes, relations = {}, [], {}, np.zeros(0, np.uint64), np.zeros(0, np.int64)
        for name in ("tokens", *self._columns):
            lists = table[name].chunk(0)  # the only one; combining chunks would copy
            values = lists.values
            if name == "tokens":
                words = values.dictionary.to_pylist()
                ids = {c: v.ids(words) for c, v in self.vocabularies.items() if not isinstance(v, ContextualWords)}
                if self.duplicates:
                    hashes = word_hashes(values.dictionary)
                values = values.indices
            elif name == "relations":
                relations, values = relation_numbers(values.dictionary.to_pylist()), values.indices
            columns[name] = values.to_numpy(), lists.offsets.to_numpy()
        return Shard(table["document"].to_numpy(), table["position"].to_numpy(), columns, words, ids, hashes, relations)


def prefetch(items: Iterator[T], depth: int = 4) -> Iterator[T]:
    """Iterate over ``items`` in a background thread, ``depth`` items ahead; its errors are raised here."""
    worker, end = ThreadPoolExecutor(1), object()
    try:
        ahead = deque(worker.submit(next, items, end) for _ in range(depth))
        while (item := ahead.popleft().result()) is not end:
            ahead.append(worker.submit(next, items, end))
            yield cast("T", item)
    finally:
        worker.shutdown(cancel_futures=True)


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
    the lowest hash is held out, unless the ``fraction`` is 0. From 1 on it is a number of sentences: the first ones.
    """
    if fraction >= 1:
        return np.arange(len(documents)) < fraction
    # A document's sentences are contiguous, so hash each document once.
    firsts = np.flatnonzero(np.diff(documents, prepend=-1))
    hashes = mix(documents[firsts].astype(np.uint64) + mix(np.array([seed], dtype=np.uint64)))
    chosen = hashes < np.uint64(min(int(fraction * 2**64), 2**64 - 1))
    if fraction > 0 and not chosen.any() and (hashes != hashes[:1]).any():
        chosen = hashes == hashes.min()
    return np.repeat(chosen, np.diff(firsts, append=len(documents)))


def epoch_batches(
    rows: Array, size: int, seed: int, epoch: int, *, shuffled: bool = False, in_order: bool = False
) -> Iterator[Array]:
    """The rows of an epoch's batches: consecutive ``rows (n,)``, cut at a random offset, in random order or their own.

    Sentences keep their order within a batch, since they are one another's contexts. The sentences
    before the offset form one batch with those left over at the end. If ``shuffled``, a batch is random sentences
    instead, in ascending order: those of as many random shards as are open at once, one such lot after the other.
    """
    if len(rows) <= size:
        yield rows
        return
    rng, offset, n_full, count = _cut(len(rows), size, seed, epoch)
    if shuffled:
        blocks = np.arange(len(rows)) // SHARD_ROWS
        lots = rng.permutation(blocks[-1] + 1) // (OPEN_SHARDS // 2)  # half: a block may be of two shards
        rows = rows[np.argsort(lots[blocks] + rng.random(len(rows)))]
    # Shuffled rows are in random order as they are, and read a lot at a time.
    for number in range(count) if in_order or shuffled else rng.permutation(count):
        start = offset + number * size
        whole = number < n_full
        batch = rows[start : start + size] if whole else np.concatenate([rows[:offset], rows[offset + n_full * size :]])
        yield np.sort(batch) if shuffled else batch


def n_batches(n_rows: int, size: int, seed: int, epoch: int) -> int:
    """Number of batches of ``epoch_batches``."""
    return 1 if n_rows <= size else _cut(n_rows, size, seed, epoch)[-1]


def _cut(n_rows: int, size: int, seed: int, epoch: int) -> tuple[np.random.Generator, int, int, int]:
    """An epoch's random generator, its offset, and its numbers of full batches and of all."""
    rng = np.random.default_rng([seed, epoch])
    offset = int(rng.integers(0, size))
    n_full = (n_rows - offset) // size
    return rng, offset, n_full, n_full + (n_rows > n_full * size)
