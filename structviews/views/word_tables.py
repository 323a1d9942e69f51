"""Word embedding tables.

Shapes: n words, U distinct ones, B sentences.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.batch import WordIds


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


class Words(nn.Module, ABC):
    """Vectors of the words of a vocabulary.

    Attributes:
        dim: dimension of a vector.
        weight: ``(words, dim)`` the table.
        affine: ``(d + 1, dim)`` map from the vectors of words beyond the table, see ``WordIds``; None for the identity.
        frequencies: ``(words,)`` share of each word in the corpus' words, for views that read them; else None.
    """

    dim: int
    weight: Tensor
    affine: Tensor | None
    frequencies: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("affine", None, persistent=False)
        self.register_buffer("frequencies", None)

    @abstractmethod
    def own_rows(self, ids: Tensor) -> Tensor:
        """The table's rows ``(n, dim)`` of ascending ``ids (n,)`` without repeats."""

    def rows(self, ids: WordIds) -> Tensor:
        """A vector for each distinct word, ``(U, dim)``."""
        if ids.further is None:
            return self.own_rows(ids.distinct)
        further = ids.further
        if self.affine is not None:
            further = torch.addmm(self.affine[-1], further, self.affine[:-1])
        return torch.cat([self.own_rows(ids.own), further])

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
        """Sum or mean (``mode``) ``(B, dim)`` of sentences' word vectors, without ``lookup``'s ``(n, dim)`` tensor.

        Sentences start at ``starts (B,)`` in ``ids``.
        """
        return F.embedding_bag(ids.inverse, self.rows(ids), starts, mode=mode)


class WordTable(Words):
    """Vectors learnt from scratch.

    Args:
        n_words: number of rows, including the one for unknown words.
        dim: dimension of a vector.
        spread: vectors are initialised uniformly in ``[-spread, spread]``; 0 for Xavier initialisation
            (structured views 4.1), which gives small vectors for a large vocabulary.
        sparse: whether the gradient is sparse, with only the rows of the words that were read, as the optimiser
            of ``train`` expects; PyTorch's own optimisers mostly expect a dense one.
    """

    def __init__(self, n_words: int, dim: int, spread: float = 0.0, sparse: bool = True):
        super().__init__()
        self.dim = dim
        self.sparse = sparse
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
        table: ``(words, dim)``; where it is int8, each row has a scale too, see ``words.sub_words``.

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
