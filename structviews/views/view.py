"""The base class of views, and the tables of word vectors that they read.

Shapes: n words, U distinct ones, B sentences.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.batch import Batch, WordIds
from structviews.kernels.steps import Function
from structviews.pretrained.loading import Blueprint
from structviews.settings import Settings
from structviews.views import VIEWS


class _Rows(Function):
    """Selects distinct rows of a table; its gradient is sparse and coalesced."""

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
    """Vectors of the words of a vocabulary."""

    dim: int  # dimension of a vector
    weight: Tensor  # (words, dim) the table
    # (d + 1, dim) map from the vectors of words beyond the table, see `WordIds`; None for the identity.
    affine: Tensor | None
    frequencies: Tensor | None  # (words,) share of each word in the corpus' words, for views that read them; else None

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
    """

    scale: Tensor | None  # (words,) of the rows of an int8 table; else None

    def __init__(self, table: Tensor):
        super().__init__()
        self.dim = table.shape[1]
        self.register_buffer("weight", table)
        self.register_buffer("scale", torch.zeros(len(table)) if table.dtype == torch.int8 else None)

    def own_rows(self, ids: Tensor) -> Tensor:
        rows = self.weight.index_select(0, ids)
        return rows if self.scale is None else rows * self.scale.index_select(0, ids)[:, None]


@dataclass(frozen=True)
class Encoded:
    """A view's output for a batch."""

    vector: Tensor  # (B, dim) one vector per sentence
    # (m, dim) a vector for each word or node, in sentence order; only on request, and None for a view that has none.
    states: Tensor | None = None
    offsets: Tensor | None = None  # (B + 1,) start of each sentence in `states`, and the end
    # (E,) weight of each child under its parent, in the order of `TreeBatch.parent_row`, if the view has attention;
    # only on request.
    attention: Tensor | None = None

    def single(self) -> "Encoded":
        """The same in single precision, which pooling adds up in."""
        return replace(self, vector=self.vector.float(), states=None if self.states is None else self.states.float())


class View(nn.Module, ABC):
    """Base class of the encoders; constructors take ``word_dim``, ``dim`` and an instance of ``Config``.

    Attributes:
        needs: structure that it reads: ``tokens``, ``dependency``, ``labelled`` (dependency trees with relations, see
            ``corpus.relations``) or ``constituency``.
        adds_words: whether its vector is a plain sum of word vectors.
        linear: whether its vector is a sum or mean of its states, each of which is a linear (or affine) function of one
            word vector.
        learns: whether training scores its vectors. One that learns nothing has no parameters and is left to the run as
            a further view; with trained word vectors it reads those of the first view that learns.
        reads_frequencies: whether it reads how frequent words are, ``Words.frequencies``.
        reads_pieces: whether it reads the pieces of a pretrained encoder, ``Batch.pieces``, and no word vectors; its
            constructor then takes the encoder's ``Blueprint`` too.
        merges: whether it takes trees with equal subtrees merged, see ``collate``. A run with a view that reads trees
            and does not is encoded with whole trees.
        Config: class of its own settings.
        dim: dimension of its vector.
        word_dim: dimension of the word vectors that it takes.
        lr: learning rate of its weights; None for that of the run.
        tree_backend: backend that runs its tree cell, see ``kernels.dispatch.run``.
    """

    needs: ClassVar[str] = "tokens"
    adds_words: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    learns: ClassVar[bool] = True
    reads_frequencies: ClassVar[bool] = False
    reads_pieces: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    Config: ClassVar[type[Settings]] = Settings
    dim: int
    word_dim: int
    lr: float | None = None
    tree_backend: str = "level"
    __call__: Callable[..., Encoded]

    @property
    def structures(self) -> frozenset[str]:
        """The structures that it reads: ``needs``, or those of the views that it is made of."""
        return frozenset({self.needs})

    @property
    def drops(self) -> bool:
        """Whether it drops states at random in training, so that it encodes a sentence differently each time."""
        return False

    @abstractmethod
    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        """Encode the sentences of a batch.

        Args:
            words: the view's word table.
            batch: the sentences.
            ids: the batch's word ids in the table's vocabulary.
            states: also return states and attention.
        """


def create_view(
    name: str,
    word_dim: int,
    dim: int,
    config: Settings | None = None,
    encoder: Blueprint | None = None,
    tree_backend: str = "level",
) -> View:
    """Create the view that is registered as ``name``; see ``View`` for its dimensions and its tree backend.

    ``config`` is an instance of its ``Config``, None for its defaults; views that read pieces need an encoder.

    Raises:
        InputError: if there is no view of this name.
    """
    cls: type[View] = VIEWS[name]
    view = cls(word_dim, dim, config or cls.Config(), *([encoder] if cls.reads_pieces else []))
    view.tree_backend = tree_backend
    return view
