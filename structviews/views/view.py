"""The base class of views."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor, nn

from structviews.batches.batch import Batch, WordIds
from structviews.pretrained.loading import Blueprint
from structviews.settings import Settings
from structviews.views import VIEWS
from structviews.views.word_tables import Words


@dataclass(frozen=True)
class Encoded:
    """A view's output for a batch.

    Attributes:
        vector: ``(B, dim)`` one vector per sentence.
        states: ``(m, dim)`` a vector for each word or node, in sentence order; only on request, and
            None for a view that has none.
        offsets: ``(B + 1,)`` start of each sentence in ``states``, and the end.
        attention: ``(E,)`` weight of each child under its parent, in the order of
            ``TreeBatch.parent_row``; only on request, and None for a view without attention.
    """

    vector: Tensor
    states: Tensor | None = None
    offsets: Tensor | None = None
    attention: Tensor | None = None

    def single(self) -> "Encoded":
        """The same in single precision, which pooling adds up in."""
        return replace(self, vector=self.vector.float(), states=None if self.states is None else self.states.float())


@dataclass(frozen=True)
class NoSettings(Settings):
    """The settings of a view that has none."""


class View(nn.Module, ABC):
    """Base class of the encoders; constructors take ``word_dim``, ``dim`` and an instance of ``Config``.

    Attributes:
        needs: structure that it reads: ``tokens``, ``dependency`` or ``constituency``.
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
    Config: ClassVar[type[Settings]] = NoSettings
    dim: int
    word_dim: int
    lr: float | None = None
    tree_backend: str = "level"
    __call__: Callable[..., Encoded]

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
