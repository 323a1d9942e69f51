"""Word embedding tables.

Shapes: n words, U distinct ones, B sentences.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.word_ids import WordIds


class _Rows(torch.autograd.Function):
    """Selects distinct rows of a table; its gradient is sparse and coalesced."""

    apply: ClassVar[Callable[..., Tensor]]

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = weight.shape
        return weight.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        # Without another reference, autograd rebuilds the gradient and drops its coalesced flag;
        # coalescing again would sort and synchronise with the device. So keep a reference.
        ctx.gradient = torch.sparse_coo_tensor(
            rows[None], gradient, ctx.shape, check_invariants=False, is_coalesced=True
        )
        return ctx.gradient, None


class FileWords(nn.Module):
    """Vectors of words that a table does not have, from a vector file.

    Args:
        read: from the places ``(n,)`` of words in the file to their vectors ``(n, d)``, float32.
        affine: ``(d + 1, dim)`` map from these vectors to the table's; None if they are the same.
    """

    affine: Tensor | None

    def __init__(self, read: Callable[[np.ndarray], np.ndarray], affine: Tensor | None = None):
        super().__init__()
        self._read = read
        self.register_buffer("affine", affine, persistent=False)

    def forward(self, places: Tensor) -> Tensor:
        """Vectors ``(n, dim)`` of the words at ``places (n,)``."""
        given = torch.from_numpy(self._read(places.cpu().numpy())).to(places.device)
        return given if self.affine is None else torch.addmm(self.affine[-1], given, self.affine[:-1])


class Words(nn.Module, ABC):
    """Vectors of the words of a vocabulary.

    Attributes:
        dim: dimension of a vector.
        weight: ``(words, dim)`` the table.
        further: vectors of the ids beyond the table; None if there are none.
        frequencies: ``(words,)`` share of each word in the corpus' words, for views that read them; else None.
    """

    dim: int
    weight: Tensor
    frequencies: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.further: FileWords | None = None
        self.register_buffer("frequencies", None)

    @abstractmethod
    def own_rows(self, ids: Tensor) -> Tensor:
        """The table's rows ``(n, dim)`` of ascending ``ids (n,)`` without repeats."""

    def rows(self, ids: WordIds) -> Tensor:
        """A vector for each distinct word, ``(U, dim)``."""
        if self.further is None or not ids.n_further:
            return self.own_rows(ids.distinct)
        own, beyond = ids.distinct[: -ids.n_further], ids.distinct[-ids.n_further :]
        return torch.cat([self.own_rows(own), self.further(beyond - len(self.weight))])

    def shares(self, ids: WordIds) -> Tensor:
        """The frequency ``(U,)`` of each distinct word; 0 for words beyond the table.

        Raises:
            ValueError: if the table has no frequencies.
        """
        if self.frequencies is None:
            raise ValueError("this word table has no frequencies: give it some")
        own = ids.distinct.clamp(max=len(self.frequencies) - 1)
        return self.frequencies.index_select(0, own) * (own == ids.distinct)

    def lookup(self, ids: WordIds) -> Tensor:
        """A vector for each word, ``(n, dim)``."""
        return F.embedding(ids.inverse, self.rows(ids))

    def bag(self, ids: WordIds, starts: Tensor, mode: str = "sum") -> Tensor:
        """Sum or mean ``(B, dim)`` of each sentence's word vectors, computed without ``lookup``'s ``(n, dim)`` tensor.

        Args:
            ids: words of all sentences.
            starts: ``(B,)`` start of each sentence in ``ids``.
            mode: ``sum`` or ``mean``.
        """
        return F.embedding_bag(ids.inverse, self.rows(ids), starts, mode=mode)


class WordTable(Words):
    """Vectors learnt from scratch.

    Attributes:
        sparse: whether the gradient is sparse, with only the rows of the words that were read, as the optimiser
            of ``train`` expects; PyTorch's own optimisers mostly expect a dense one.

    Args:
        n_words: number of rows, including the one for unknown words.
        dim: dimension of a vector.
        spread: vectors are initialised uniformly in ``[-spread, spread]``; 0 for Xavier initialisation
            (structured views 4.1), which gives small vectors for a large vocabulary.
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

    def own_rows(self, ids: Tensor) -> Tensor:
        return _Rows.apply(self.weight, ids) if self.sparse else self.weight.index_select(0, ids)


class FixedWords(Words):
    """Fixed vectors, which are never updated.

    Args:
        table: ``(words, dim)``; where it is int8, each row has a scale too, see ``words.eight_bits``, read with it.

    Attributes:
        scale: ``(words,)`` of the rows of an int8 table; else None.
    """

    scale: Tensor | None

    def __init__(self, table: Tensor):
        super().__init__()
        self.dim = table.shape[1]
        self.register_buffer("weight", table)
        self.register_buffer("scale", torch.zeros(len(table)) if table.dtype == torch.int8 else None)

    def own_rows(self, ids: Tensor) -> Tensor:
        rows = self.weight.index_select(0, ids)
        return rows if self.scale is None else rows * self.scale.index_select(0, ids)[:, None]
