"""What a view is, and the registry of views."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from structviews.batching import Batch
from structviews.errors import InputError
from structviews.vocabulary import WordIds, Words

_REGISTRY: dict[str, Callable[..., "View"]] = {}


@dataclass(frozen=True)
class Encoded:
    """What a view makes of a batch.

    Attributes:
        vector: ``(B, dim)`` one vector a sentence.
        states: ``(m, dim)`` a vector for each word or node of each sentence, in the sentences' own
            order; only on request, and None for a view that has none.
        offsets: ``(B + 1,)`` where each sentence begins in ``states``.
        attention: ``(E,)`` weight of each child under its parent, in the order of
            ``TreeBatch.parent_row``; only on request, and None for a view without attention.
    """

    vector: Tensor
    states: Tensor | None = None
    offsets: Tensor | None = None
    attention: Tensor | None = None


class View(nn.Module):
    """Base class of the encoders.

    Attributes:
        needs: the structure that it reads: ``tokens``, ``dependency`` or ``constituency``.
        adds_words: its vector is nothing but a sum of word vectors.
        linear: its vector is a sum or a mean of its states, which are linear in the words.
        dim: length of its vector.
        words_dim: length of the word vectors that it wants.
        tree_backend: what runs its tree cell, see ``kernels.run``.
    """

    needs: ClassVar[str] = "tokens"
    adds_words: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    dim: int
    words_dim: int
    tree_backend: str = "level"

    def encode(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        """Encode the sentences of a batch.

        Args:
            words: the view's word table.
            batch: the sentences.
            ids: the batch's words in the table's vocabulary.
            states: also give states and attention.
        """
        raise TypeError(f"{type(self).__name__} does not encode")


def register(name: str, **options: Any) -> Callable[[type[View]], type[View]]:
    """Class decorator: make a view known by ``name``; ``options`` go to its constructor.

    Raises:
        ValueError: if the name is taken.
    """

    def add(cls: type[View]) -> type[View]:
        if name in _REGISTRY:
            raise ValueError(f"the view {name!r} is registered already")
        _REGISTRY[name] = lambda words_dim, dim: cls(words_dim, dim, **options)
        return cls

    return add


def names() -> list[str]:
    """The known views."""
    return sorted(_REGISTRY)


def create(name: str, words_dim: int, dim: int) -> View:
    """Make a view.

    Args:
        name: as registered.
        words_dim: length of the word vectors.
        dim: length of the view's vector.

    Raises:
        InputError: if there is no such view.
    """
    if name not in _REGISTRY:
        raise InputError(f"unknown view {name!r}: the views are {', '.join(names())}")
    return _REGISTRY[name](words_dim, dim)
