"""Batches: sentences as word ids and tree structure.

Shapes: B sentences in the batch, n words in total, U distinct ones.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from structviews.batches.trees import (
    NodeRows,
    SharedFamilies,
    SharedPairs,
    SharedTrees,
    TreeBatch,
    constituency_trees,
    dependency_trees,
    node_rows,
    shared_constituency,
    shared_dependency,
)
from structviews.corpus.relations import relation_numbers
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.tree_arrays import constituency_parents, dependency_parents, heights
from structviews.pretrained.alignment import Aligner, SentencePieces
from structviews.runtime.arrays import Array, group, inverse_of, stable_argsort, starts_of
from structviews.runtime.device import send, send_fields, to_tensor
from structviews.words.vocabulary import Vocabulary


@dataclass(frozen=True)
class WordIds:
    """The words of a batch in one vocabulary; their ids are ``distinct[inverse]``.

    A word table then reads each distinct row once, and its gradient has one row for it. Encoders likewise
    compute whatever depends only on the word once. In running text, a batch of hundreds of sentences has about a
    quarter as many distinct words as words.
    """

    distinct: Tensor  # (U,) the ids that occur, ascending
    inverse: Tensor  # (n,) index of each word's id in `distinct`
    places: Tensor  # (n,) indices of the words, sorted by id
    starts: Tensor  # (U,) start of each id in `places`
    # (further, d) vectors of the last of `distinct`, which are beyond the word table: of words of a vector file, in its
    # dimensions.
    further: Tensor | None = None
    # These words as nodes of the batch's trees, if it has them; or those trees with equal subtrees merged.
    dependency: NodeRows | SharedFamilies | None = None
    labelled: NodeRows | SharedFamilies | None = None
    constituency: NodeRows | SharedPairs | None = None

    @property
    def own(self) -> Tensor:
        """The ids ``(U - further,)`` of ``distinct`` that are rows of the word table."""
        return self.distinct if self.further is None else self.distinct[: len(self.distinct) - len(self.further)]

    def __len__(self) -> int:
        """The number n of words."""
        return len(self.inverse)


class Structure(NamedTuple):
    """What makes trees of the sentences' lengths and of these columns; and merged trees, of the words too."""

    columns: tuple[str, ...]
    schedule: Callable[..., TreeBatch]
    merged: Callable[..., SharedTrees]


STRUCTURES = {
    "dependency": Structure(("heads", "dep_height"), dependency_trees, shared_dependency),
    "labelled": Structure(("heads", "dep_height", "relations"), dependency_trees, shared_dependency),
    "constituency": Structure(("left", "right", "const_height"), constituency_trees, shared_constituency),
}


class Packing(NamedTuple):
    """The words of a batch in the packed order of PyTorch's recurrent layers."""

    order: Tensor  # (n,) word indices step by step, longer sentences first
    rank: Tensor  # (n,) position of each word in `order`
    sizes: Tensor  # number of sentences at each step, on the CPU, as `PackedSequence` expects
    sentence: Tensor  # (B,) position of each sentence in the order by length


def packed(lengths: Array, device: torch.device) -> Packing:
    """The packed order of sentences of ``lengths (B,)``, with its tensors on ``device``."""
    by_length = stable_argsort(lengths.max() - lengths)
    ordered = lengths[by_length]
    sizes = (ordered > np.arange(ordered[0])[:, None]).sum(axis=1)
    step = np.repeat(np.arange(len(sizes)), sizes)
    row = np.arange(len(step)) - np.repeat(starts_of(sizes), sizes)
    order = starts_of(lengths)[by_length][row] + step
    tensors = (send(to_tensor(array), device) for array in (order, inverse_of(order), inverse_of(by_length)))
    order, rank, sentence = tensors
    return Packing(order, rank, to_tensor(sizes), sentence)


@dataclass(frozen=True)
class Batch:
    """Sentences as word ids and tree structure."""

    ids: dict[str, WordIds]  # word ids by channel
    lengths: Array  # (B,) number of words of each sentence, on the CPU
    document: Tensor  # (B,) document of each sentence
    position: Tensor  # (B,) index of each sentence in its document
    # The trees, if a view needs them; where equal subtrees are merged they are in `ids`, as a vocabulary decides which
    # words are equal.
    dependency: TreeBatch | None = None
    labelled: TreeBatch | None = None
    constituency: TreeBatch | None = None
    same: Tensor | None = None  # (B,) integers, equal for sentences with equal tokens, if an objective needs them
    pieces: SentencePieces | None = None  # what a pretrained encoder reads, on the CPU, if a view needs it
    # (B, T) vectors of the sentences by a teacher, float16, if an objective needs them; a perturbed sentence has that
    # of its source.
    teacher: Tensor | None = None
    source: Tensor | None = None  # (B,) row of the sentence that each was made of, -1 for most; None if of none
    changed: Tensor | None = None  # (B,) whether it has another meaning than that; None if none was perturbed
    device: torch.device = field(default=torch.device("cpu"))  # of the tensors

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """``(B + 1,)`` start of each sentence among the words, and the end."""
        return send(to_tensor(np.concatenate([[0], np.cumsum(self.lengths)])), self.device)

    @cached_property
    def packing(self) -> Packing:
        """The packed order for recurrent layers."""
        return packed(self.lengths, self.device)

    def trees(self, kind: str) -> TreeBatch:
        """The ``dependency``, ``labelled`` or ``constituency`` trees; ValueError if the batch was made without them."""
        trees: TreeBatch | None = getattr(self, kind)
        if trees is None:
            raise ValueError(f"the batch has no {kind} trees: include {kind!r} in its needs")
        return trees

    def to(self, device: torch.device | str) -> Self:
        """The batch on ``device``."""
        device = torch.device(device)
        if device == self.device:
            return self
        ids = {name: send_fields(words, device) for name, words in self.ids.items()}
        # What an encoder reads is sent in parts, when it is read.
        return replace(send_fields(replace(self, pieces=None), device), ids=ids, pieces=self.pieces, device=device)


def collate(
    sentences: Sequence[ParsedSentence],
    vocabularies: dict[str, Vocabulary],
    needs: Collection[str],
    merged: bool = False,
    aligner: Aligner | None = None,
) -> Batch:
    """A batch from sentences in memory, each as a document of its own, with the ``vocabularies`` of the channels.

    ``needs`` are the ``STRUCTURES`` to build. With ``merged``, equal subtrees are merged, to encode without gradients
    by views that ``merge``. The ``aligner`` is that of the encoder that a view reads.
    """
    lengths = np.array([len(s.tokens) for s in sentences], dtype=np.int64)
    words = [s.tokens for s in sentences]
    names = {name for kind, structure in STRUCTURES.items() if kind in needs for name in structure.columns}
    lists = names & {"heads", "left", "right"}
    columns = {n: np.fromiter(chain.from_iterable(getattr(s, n) for s in sentences), np.int64) for n in lists}
    if "heads" in columns:
        columns["dep_height"] = heights(dependency_parents(columns["heads"], lengths))
    if "labelled" in needs:
        columns["relations"] = relation_numbers(chain.from_iterable(s.relations for s in sentences))
    if "left" in columns:
        columns["const_height"] = heights(constituency_parents(columns["left"], columns["right"], lengths))
    ids = {name: vocabulary.look_up(words) for name, vocabulary in vocabularies.items()}
    places = {"document": np.arange(len(sentences)), "position": np.zeros(len(sentences), np.int64)}
    return assemble(ids, lengths, needs, columns, aligner.read(words) if aligner else None, merged, **places)


def assemble(
    ids: dict[str, tuple[Array, Array | None]],
    lengths: Array,
    needs: Collection[str],
    columns: dict[str, Array],
    pieces: SentencePieces | None,
    merged: bool,
    **others: Array | None,
) -> Batch:
    """A batch from arrays, on the CPU; see ``Batch``, and ``collate`` for ``merged``.

    ``ids`` are what ``Vocabulary.look_up`` returns, by channel; ``columns`` those of the structures to build, ``needs``
    (``STRUCTURES``), sentences concatenated, relations as numbers; ``others`` are further fields of the batch. Time is
    linear in the number of words and the largest id.
    """
    lengths = lengths.astype(np.int64)
    kinds = {kind: structure for kind, structure in STRUCTURES.items() if kind in needs}
    arrays = {kind: (lengths, *(columns[name] for name in each.columns)) for kind, each in kinds.items()}
    trees: dict[str, Any] = {} if merged else {kind: each.schedule(*arrays[kind]) for kind, each in kinds.items()}
    tensors: dict[str, Any] = {name: to_tensor(array) for name, array in others.items() if array is not None}
    words = {}
    for name, (numbers, further) in ids.items():
        groups = group(numbers, int(numbers.max(initial=-1)) + 1)
        own = groups.inverse, len(groups.distinct)
        rows: dict[str, Any] = {
            kind: each.merged(*own, *arrays[kind]) if merged else node_rows(trees[kind], *own)
            for kind, each in kinds.items()
        }
        distinct, inverse, places, starts = map(torch.from_numpy, groups)
        beyond = None if further is None else torch.from_numpy(further)
        words[name] = WordIds(distinct, inverse, places, starts, beyond, **rows)
    return Batch(ids=words, lengths=lengths, **trees, pieces=pieces, **tensors)
