"""Words and their ids, and the tables that turn ids into vectors.

Shapes: n words, U different ones among them, B sentences.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.arrays import group
from structviews.cache import ParsedCorpus, write_whole
from structviews.device import send_fields
from structviews.errors import InputError
from structviews.trees import NodeRows, TreeBatch, node_rows

UNKNOWN = "<unk>"


def count_words(corpus: ParsedCorpus) -> Counter[str]:
    """How often each word of a parsed corpus occurs, in the order of their first appearance by shard."""
    counts: Counter[str] = Counter()
    for i in range(corpus.n_shards):
        for chunk in corpus.shard(i)["tokens"].chunks:
            values = chunk.flatten()
            found = np.bincount(values.indices.to_numpy(), minlength=len(values.dictionary))
            counts.update(dict(zip(values.dictionary.to_pylist(), found.tolist(), strict=True)))
    return counts


class Vocabulary:
    """The most frequent words of a corpus, cased; id 0 stands for every other word.

    Args:
        words: the words in the order of their ids, ``<unk>`` first.
        counts: ``(words,)`` how often each occurs, all others counted for ``<unk>``; None if that is
            not known, as in a vocabulary that was loaded.
    """

    def __init__(self, words: Sequence[str], counts: np.ndarray | None = None):
        if not words or words[0] != UNKNOWN:
            raise ValueError(f"a vocabulary starts with {UNKNOWN}, not {words[0] if words else 'nothing'!r}")
        self.words = list(words)
        self.counts = counts
        self._array = pa.array(self.words, pa.string())

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: pa.Array | Sequence[str]) -> np.ndarray:
        """Ids ``(n,)``, int64, of words; 0 for those that are not here."""
        if not isinstance(words, pa.Array):
            words = pa.array(words, pa.string())
        encoded = words.dictionary_encode()
        # The other way round, a hash table of the whole vocabulary would be built each time.
        found = pc.index_in(self._array, value_set=encoded.dictionary)
        # One place more, for the words of the vocabulary that are not among these.
        table = np.zeros(len(encoded.dictionary) + 1, dtype=np.int64)
        table[pc.fill_null(found, len(encoded.dictionary)).to_numpy()] = np.arange(len(self._array))
        return table[encoded.indices.to_numpy()]

    @classmethod
    def of_corpus(cls, corpus: ParsedCorpus, size: int | None = None) -> Self:
        """The ``size`` most frequent words of a parsed corpus, or all; ties go by the alphabet."""
        counts = count_words(corpus)
        total = counts.total()
        counts.pop(UNKNOWN, None)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]
        known = np.array([count for _, count in ranked], dtype=np.int64)
        return cls([UNKNOWN, *(word for word, _ in ranked)], np.concatenate([[total - known.sum()], known]))

    def extended(self, other: "Vocabulary") -> "Vocabulary":
        """The words of this vocabulary with their ids, behind them those of another that it lacks; its counts."""
        known = set(self.words)
        words = [*self.words, *(word for word in other.words if word not in known)]
        if other.counts is None:
            return Vocabulary(words)
        counts = dict(zip(other.words, other.counts.tolist(), strict=True))
        return Vocabulary(words, np.array([counts.get(word, 0) for word in words], dtype=np.int64))

    def save(self, path: Path) -> None:
        """Write one word a line."""
        text = "".join(f"{word}\n" for word in self.words)
        write_whole(path, lambda file: file.write(text.encode("utf-8")))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote.

        Raises:
            InputError: if there is no such file, or it is not a vocabulary.
        """
        try:
            return cls(path.read_text("utf-8").removesuffix("\n").split("\n"))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}: a run's folder holds its vocabulary") from None
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None


@dataclass(frozen=True)
class WordIds:
    """The words of a batch in one vocabulary; their ids are ``distinct[inverse]``.

    So a word table reads a row once however often its word occurs, and its gradient has one row for it;
    and so do encoders whatever depends on nothing but the word. In running text a batch of hundreds of
    sentences has a quarter as many different words as words.

    Attributes:
        distinct: ``(U,)`` the ids that occur, ascending.
        inverse: ``(n,)`` for each word the place of its id among them.
        places: ``(n,)`` the words sorted by id: all places of the first one, then of the second, ...
        starts: ``(U,)`` where those of each id begin in ``places``.
        dependency, constituency: these words as nodes of the batch's trees, where it has them.
    """

    distinct: Tensor
    inverse: Tensor
    places: Tensor
    starts: Tensor
    dependency: NodeRows | None = None
    constituency: NodeRows | None = None

    @classmethod
    def of(cls, ids: np.ndarray, n_words: int) -> Self:
        """From ids ``(n,)``, int64, below ``n_words``; linear in both."""
        distinct, inverse, places, starts = map(torch.from_numpy, group(ids, n_words))
        return cls(distinct, inverse, places, starts)

    def over(self, dependency: TreeBatch | None = None, constituency: TreeBatch | None = None) -> Self:
        """The same words, also as nodes of trees; on the CPU."""

        def rows(trees: TreeBatch | None) -> NodeRows | None:
            return None if trees is None else node_rows(trees, self.inverse.numpy(), len(self.distinct))

        return replace(self, dependency=rows(dependency), constituency=rows(constituency))

    def nodes_of(self, trees: TreeBatch) -> NodeRows:
        """These words as nodes of the trees that they were laid over.

        Raises:
            ValueError: if they were laid over none of this kind.
        """
        rows = self.constituency if trees.binary else self.dependency
        if rows is None:
            raise ValueError(
                f"these words know no {'constituency' if trees.binary else 'dependency'} trees: WordIds.over"
            )
        return rows

    def __len__(self) -> int:
        """The number n of words."""
        return len(self.inverse)

    def to(self, device: torch.device) -> "WordIds":
        """The ids on ``device``."""
        return send_fields(self, device)


class _Rows(torch.autograd.Function):
    """Different rows of a table; its gradient is sparse and coalesced."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = weight.shape
        return weight.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        # Autograd takes a gradient that nobody else holds apart, and with it the mark that it is
        # coalesced; coalescing again would sort, and wait for the device. So hold it.
        ctx.gradient = torch.sparse_coo_tensor(
            rows[None], gradient, ctx.shape, check_invariants=False, is_coalesced=True
        )
        return ctx.gradient, None


class Words(nn.Module):
    """Vectors of a vocabulary's words.

    Attributes:
        dim: length of a vector.
    """

    dim: int

    def rows(self, ids: WordIds) -> Tensor:
        """A vector for each different word, ``(U, dim)``."""
        raise TypeError(f"{type(self).__name__} has no vectors")

    def lookup(self, ids: WordIds) -> Tensor:
        """A vector for each word, ``(n, dim)``."""
        return F.embedding(ids.inverse, self.rows(ids))

    def bag(self, ids: WordIds, starts: Tensor, mode: str = "sum") -> Tensor:
        """Sum or mean ``(B, dim)`` of the words of each sentence, without one vector per word.

        Args:
            ids: words of all sentences.
            starts: ``(B,)`` where each sentence begins in ``ids``.
            mode: ``sum`` or ``mean``.
        """
        return F.embedding_bag(ids.inverse, self.rows(ids), starts, mode=mode)


class WordTable(Words):
    """Vectors that are learnt from scratch.

    Attributes:
        sparse: whether the gradient of its weights has but the rows of the words that were read, as the optimiser
            of ``train`` wants it; PyTorch's own want all.

    Args:
        n_words: rows, that of unknown words among them.
        dim: length of a vector.
        spread: vectors start uniformly between ``-spread`` and ``spread``; 0 for Xavier's spread
            (structured views 4.1), which is small where words are many.
    """

    sparse: bool = True

    def __init__(self, n_words: int, dim: int, spread: float = 0.0):
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.empty(n_words, dim))
        if spread:
            nn.init.uniform_(self.weight, -spread, spread)
        else:
            nn.init.xavier_uniform_(self.weight)

    def rows(self, ids: WordIds) -> Tensor:
        return _Rows.apply(self.weight, ids.distinct) if self.sparse else self.weight.index_select(0, ids.distinct)


class FixedWords(Words):
    """Given vectors, which are never updated and ask for no gradient.

    Args:
        table: ``(words, dim)``.
    """

    weight: Tensor

    def __init__(self, table: Tensor):
        super().__init__()
        self.dim = table.shape[1]
        self.register_buffer("weight", table)

    def rows(self, ids: WordIds) -> Tensor:
        return self.weight.index_select(0, ids.distinct)
