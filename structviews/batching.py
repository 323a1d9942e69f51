"""From a parsed corpus, or from sentences, to batches; vectorised from column to tensor.

Shapes: B sentences of a batch, n words of all of them.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from structviews.arrays import Array, inverse_of, stable_argsort, starts_of, to_tensor
from structviews.cache import OPEN_SHARDS, ParsedCorpus
from structviews.device import send
from structviews.hashing import mix, row_hashes, word_hashes
from structviews.sentence import ParsedSentence
from structviews.trees import TreeBatch, constituency_trees, dependency_trees
from structviews.vocabulary import Vocabulary, WordIds

T = TypeVar("T")
# Columns that each kind of structure is built from.
COLUMNS = {
    "tokens": ("tokens",),
    "dependency": ("heads", "dep_height"),
    "constituency": ("left", "right", "const_height"),
}


class Packing(NamedTuple):
    """The words of a batch in the order that PyTorch's recurrent layers read.

    Attributes:
        order: ``(n,)`` words step by step, at each step the longer sentences first.
        rank: ``(n,)`` where each word is among them.
        sizes: sentences at each step, on the CPU, as ``PackedSequence`` wants them.
        sentence: ``(B,)`` where each sentence of the batch is among those sorted by length.
    """

    order: Tensor
    rank: Tensor
    sizes: Tensor
    sentence: Tensor


@dataclass(frozen=True)
class Batch:
    """Sentences as integers and structure.

    Attributes:
        ids: the words as ids in each vocabulary, by its channel's name.
        lengths: ``(B,)`` words of each sentence, on the CPU.
        document: ``(B,)`` document of each sentence.
        position: ``(B,)`` index of each sentence in its document.
        dependency, constituency: the trees, where a view needs them.
        same: ``(B,)`` equal integers for sentences of equal tokens, where an objective needs it.
    """

    ids: dict[str, WordIds]
    lengths: Array
    document: Tensor
    position: Tensor
    dependency: TreeBatch | None = None
    constituency: TreeBatch | None = None
    same: Tensor | None = None
    device: torch.device = field(default=torch.device("cpu"))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """``(B + 1,)`` where each sentence begins among the words, and the end."""
        return send(to_tensor(np.concatenate([[0], np.cumsum(self.lengths)])), self.device)

    @cached_property
    def packing(self) -> Packing:
        """The order for recurrent layers."""
        by_length = stable_argsort(self.lengths.max() - self.lengths)
        lengths = self.lengths[by_length]
        sizes = (lengths > np.arange(lengths[0])[:, None]).sum(axis=1)
        step = np.repeat(np.arange(len(sizes)), sizes)
        row = np.arange(len(step)) - np.repeat(starts_of(sizes), sizes)
        order = starts_of(self.lengths)[by_length][row] + step
        order, rank, sentence = (
            send(to_tensor(array), self.device) for array in (order, inverse_of(order), inverse_of(by_length))
        )
        return Packing(order, rank, to_tensor(sizes), sentence)

    @property
    def dependency_trees(self) -> TreeBatch:
        """The dependency trees.

        Raises:
            ValueError: if the batch was made without.
        """
        return _present(self.dependency, "dependency")

    @property
    def constituency_trees(self) -> TreeBatch:
        """The constituency trees.

        Raises:
            ValueError: if the batch was made without.
        """
        return _present(self.constituency, "constituency")

    def to(self, device: torch.device | str) -> Self:
        """The batch on ``device``."""
        device = torch.device(device)
        if device == self.device:
            return self
        return replace(
            self,
            ids={name: ids.to(device) for name, ids in self.ids.items()},
            document=send(self.document, device),
            position=send(self.position, device),
            dependency=self.dependency.to(device) if self.dependency else None,
            constituency=self.constituency.to(device) if self.constituency else None,
            same=send(self.same, device) if self.same is not None else None,
            device=device,
        )


def _present(trees: TreeBatch | None, kind: str) -> TreeBatch:
    if trees is None:
        raise ValueError(f"the batch has no {kind} trees: name {kind!r} among its needs")
    return trees


class Ragged(NamedTuple):
    """Lists of different lengths, end to end: ``values (total,)`` and ``offsets (rows + 1,)``."""

    values: Array
    offsets: Array

    def rows(self, start: int, stop: int) -> Array:
        """The values of consecutive rows; no copy."""
        return self.values[self.offsets[start] : self.offsets[stop]]

    def lengths(self, start: int, stop: int) -> Array:
        """The lengths of consecutive rows."""
        return np.diff(self.offsets[start : stop + 1])


class Shard(NamedTuple):
    """One shard's columns as numpy arrays on the memory map, and ids for its words.

    Attributes:
        document, position: ``(rows,)`` each.
        columns: those that are lists.
        ids: for each channel the ids of the shard's own dictionary.
        hashes: of the words of that dictionary; none unless duplicates are to be known.
    """

    document: Array
    position: Array
    columns: dict[str, Ragged]
    ids: dict[str, Array]
    hashes: Array


class Run(NamedTuple):
    """Consecutive sentences of one shard."""

    shard: Shard
    start: int
    stop: int


class CorpusReader:
    """Batches from a parsed corpus.

    It keeps the last few shards' memory maps open and nothing for each sentence, so a corpus may
    be larger than memory.

    Args:
        corpus: the corpus.
        vocabularies: by channel; a batch gets ids for each.
        needs: structures that the views need (``tokens``, ``dependency``, ``constituency``).
        duplicates: give batches ``same``.

    Raises:
        InputError: if the corpus lacks trees that are needed.
    """

    def __init__(
        self,
        corpus: ParsedCorpus,
        vocabularies: dict[str, Vocabulary],
        needs: Iterable[str],
        duplicates: bool = False,
    ):
        self.needs = frozenset(needs) | {"tokens"}
        if "dependency" in self.needs:
            corpus.require("dependency")
        if "constituency" in self.needs:
            corpus.require("constituency")
        self.corpus = corpus
        self.vocabularies = vocabularies
        self.duplicates = duplicates
        self._starts = np.concatenate([[0], np.cumsum(corpus.shard_rows)])
        self._shard = lru_cache(OPEN_SHARDS)(self._load_shard)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def documents(self) -> Array:
        """The document ``(sentences,)``, int32, of every sentence of the corpus."""
        tables = (self.corpus.shard(i) for i in range(self.corpus.n_shards))
        return np.concatenate([table["document"].to_numpy() for table in tables])

    def batch(self, rows: Array) -> Batch:
        """The batch of some sentences, given by ascending index in the corpus.

        Consecutive sentences are copied as a block, so a batch of many neighbours is made fast.
        """
        runs = list(self._runs(rows))

        def joined(column: str) -> Array:
            return np.concatenate([shard.columns[column].rows(start, stop) for shard, start, stop in runs])

        words = [shard.columns["tokens"].rows(start, stop) for shard, start, stop in runs]
        ids = {
            name: np.concatenate([run.shard.ids[name][w] for run, w in zip(runs, words, strict=True)])
            for name in self.vocabularies
        }
        lengths = np.concatenate([shard.columns["tokens"].lengths(start, stop) for shard, start, stop in runs])
        same = None
        if self.duplicates:
            hashes = np.concatenate([run.shard.hashes[w] for run, w in zip(runs, words, strict=True)])
            same = row_hashes(hashes, np.concatenate([[0], np.cumsum(lengths)]))
        return _batch(
            {name: WordIds.of(found, len(self.vocabularies[name])) for name, found in ids.items()},
            lengths,
            np.concatenate([shard.document[start:stop] for shard, start, stop in runs]),
            np.concatenate([shard.position[start:stop] for shard, start, stop in runs]),
            {column: joined(column) for kind in self.needs - {"tokens"} for column in COLUMNS[kind]},
            same,
        )

    def _runs(self, rows: Array) -> Iterator[Run]:
        """The rows as runs of neighbours within a shard."""
        shards = np.searchsorted(self._starts, rows, side="right") - 1
        firsts = np.flatnonzero((np.diff(rows, prepend=-2) != 1) | (np.diff(shards, prepend=-1) != 0))
        numbers = shards[firsts]
        starts = rows[firsts] - self._starts[numbers]
        stops = starts + np.diff(firsts, append=len(rows))
        for number, start, stop in zip(numbers.tolist(), starts.tolist(), stops.tolist(), strict=True):
            yield Run(self._shard(number), start, stop)

    def _load_shard(self, number: int) -> Shard:
        table = self.corpus.shard(number)
        columns, ids, hashes = {}, {}, np.zeros(0, np.uint64)
        for name in (c for kind in self.needs for c in COLUMNS[kind]):
            lists = table[name].chunk(0)  # the only one; combining chunks would copy
            values = lists.values
            if name == "tokens":
                ids = {channel: v.ids(values.dictionary) for channel, v in self.vocabularies.items()}
                if self.duplicates:
                    hashes = word_hashes(values.dictionary)
                values = values.indices
            columns[name] = Ragged(values.to_numpy(), lists.offsets.to_numpy())
        return Shard(table["document"].to_numpy(), table["position"].to_numpy(), columns, ids, hashes)


def collate(sentences: Sequence[ParsedSentence], vocabularies: dict[str, Vocabulary], needs: Iterable[str]) -> Batch:
    """A batch of sentences in memory, each its own document."""
    lengths = np.array([len(s.tokens) for s in sentences], dtype=np.int64)
    words = pa.array(list(chain.from_iterable(s.tokens for s in sentences)), pa.string())
    ids = {name: WordIds.of(vocabulary.ids(words), len(vocabulary)) for name, vocabulary in vocabularies.items()}
    make: dict[str, Callable[[ParsedSentence], Sequence[int]]] = {
        "heads": lambda s: s.heads,
        "dep_height": lambda s: s.dependency_heights,
        "left": lambda s: s.left,
        "right": lambda s: s.right,
        "const_height": lambda s: s.constituency_heights,
    }
    columns = {
        c: np.fromiter(chain.from_iterable(map(make[c], sentences)), dtype=np.int64)
        for kind in set(needs) - {"tokens"}
        for c in COLUMNS[kind]
    }
    return _batch(ids, lengths, np.arange(len(sentences)), np.zeros(len(sentences)), columns)


def _batch(
    ids: dict[str, WordIds],
    lengths: Array,
    document: Array,
    position: Array,
    columns: dict[str, Array],
    same: Array | None = None,
) -> Batch:
    lengths = lengths.astype(np.int64)
    dependency = constituency = None
    if "heads" in columns:
        dependency = dependency_trees(columns["heads"], columns["dep_height"], lengths)
    if "left" in columns:
        constituency = constituency_trees(columns["left"], columns["right"], columns["const_height"], lengths)
    return Batch(
        ids={name: words.over(dependency, constituency) for name, words in ids.items()},
        lengths=lengths,
        document=to_tensor(document.astype(np.int64)),
        position=to_tensor(position.astype(np.int64)),
        dependency=dependency,
        constituency=constituency,
        same=to_tensor(same.view(np.int64)) if same is not None else None,
    )


def held_out(documents: Array, seed: int, fraction: float) -> Array:
    """Which sentences are for validation: a seeded hash of their document decides.

    Adding documents to a corpus leaves the others where they were. Where the hash picks none of
    several documents, the one with the lowest is held out.

    Args:
        documents: ``(n,)`` document number of each sentence.
        seed: of the hash.
        fraction: share of the documents; 0 holds out none.

    Returns:
        ``(n,)`` bool.
    """
    # A document's sentences stand together, and documents are few where sentences are many.
    firsts = np.flatnonzero(np.diff(documents, prepend=-1))
    hashes = mix(documents[firsts].astype(np.uint64) + mix(np.array([seed], dtype=np.uint64)))
    chosen = hashes < np.uint64(min(int(fraction * 2**64), 2**64 - 1))
    if fraction > 0 and not chosen.any() and (hashes != hashes[:1]).any():
        chosen = hashes == hashes.min()
    return np.repeat(chosen, np.diff(firsts, append=len(documents)))


def epoch_batches(rows: Array, size: int, seed: int, epoch: int) -> Iterator[Array]:
    """The rows of an epoch's batches: consecutive sentences, boundaries moved by a random offset, shuffled.

    The sentences of a batch keep their order, since they are one another's contexts; the first
    sentences, before the offset, are a batch of their own with those left over at the end.

    Args:
        rows: ``(n,)`` ascending indices of the training sentences.
        size: sentences a batch; a corpus with fewer is one batch.
        seed, epoch: decide the offset and the order.
    """
    if len(rows) <= size:
        yield rows
        return
    rng, offset, n_full = _cut(len(rows), size, seed, epoch)
    for number in rng.permutation(n_batches(len(rows), size, seed, epoch)):
        start = offset + number * size
        whole = number < n_full
        yield rows[start : start + size] if whole else np.concatenate([rows[:offset], rows[offset + n_full * size :]])


def n_batches(n_rows: int, size: int, seed: int, epoch: int) -> int:
    """How many batches ``epoch_batches`` makes."""
    if n_rows <= size:
        return 1
    _, _, n_full = _cut(n_rows, size, seed, epoch)
    return n_full + (n_rows > n_full * size)


def _cut(n_rows: int, size: int, seed: int, epoch: int) -> tuple[np.random.Generator, int, int]:
    """An epoch's random numbers, its offset, and its number of whole batches."""
    rng = np.random.default_rng([seed, epoch])
    offset = int(rng.integers(0, size))
    return rng, offset, (n_rows - offset) // size


def prefetch(items: Iterator[T], depth: int = 4) -> Iterator[T]:
    """The same items, made in a background thread a few ahead; its error is raised here."""
    ready: queue.Queue = queue.Queue(depth)
    stop = threading.Event()

    def put(item: object) -> bool:
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
        except Exception as error:  # handed to the reader, who raises it
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
