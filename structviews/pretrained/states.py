"""The states of an encoder as vectors of words and of sentences; with gradients, unless the encoder is frozen.

Windows of similar length go through the encoder together. The contextual channel reads a frozen encoder.

Shapes: n words, B sentences, w windows, p pieces of all windows or sentences, d dimension of a state.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor
from torch.utils.data import get_worker_info

from structviews.pretrained.alignment import Pieces, SentencePieces
from structviews.pretrained.encoder_name import EncoderName, Identity
from structviews.pretrained.loading import Loaded, files_digest, found_folder, load_encoder, read_sizes
from structviews.runtime.arrays import Array, inverse_of, stable_argsort, starts_of
from structviews.runtime.device import best_device, send, to_tensor
from structviews.words.vocabulary import UNKNOWN, Vocabulary
from structviews.words.word_settings import FIRST

# Pieces of a product, with padding, by device: few on a CPU, as sentences of one length leave the least padding, and
# many on a GPU, to fill it.
PIECES_AT_ONCE = {"cpu": 2**10, "cuda": 2**14}


class Block(NamedTuple):
    """Windows of similar length, and their states."""

    windows: Array  # (rows,), their numbers
    mask: Tensor  # (rows, longest), whether there is a piece, rather than padding
    own: Array  # (pieces,), where the pieces are in the flattened mask
    pieces: Array  # (pieces,), their indices among those of all windows
    states: Tensor  # (rows, longest, d)

    @property
    def piece_states(self) -> Tensor:
        """The states ``(pieces, d)`` of the pieces."""
        return self.states.flatten(0, 1).index_select(0, send(to_tensor(self.own), self.states.device))


def piece_blocks(
    model: Any, padding: int, ids: Array, lengths: Array, layers: tuple[int, ...] | None = None
) -> Iterator[Block]:
    """Read windows, the longest first, with a ``PreTrainedModel``; see ``Pieces``.

    The states are those of the last layer, or the means of some ``layers``.
    """
    of_several = layers not in (None, (model.config.num_hidden_layers,))
    device = next(model.parameters()).device
    at_once = PIECES_AT_ONCE.get(device.type, PIECES_AT_ONCE["cuda"])
    order = stable_argsort(lengths.max(initial=0) - lengths)
    starts, done = starts_of(lengths), 0
    while done < len(order):
        longest = lengths[order[done]]
        windows = order[done : done + max(1, at_once // longest)]
        is_piece = np.arange(longest) < lengths[windows, None]
        indices = np.where(is_piece, starts[windows, None] + np.arange(longest), 0)
        block, mask = (send(to_tensor(each), device) for each in (np.where(is_piece, ids[indices], padding), is_piece))
        read = model(input_ids=block, attention_mask=mask.long(), output_hidden_states=of_several)
        states = read.last_hidden_state
        if of_several:
            states = torch.stack([read.hidden_states[layer] for layer in layers or ()]).mean(dim=0)
        yield Block(windows, mask, np.flatnonzero(is_piece), indices[is_piece], states)
        done += len(windows)


def word_states(encoder: Loaded, pieces: Pieces, layers: tuple[int, ...], pooling: str) -> Tensor:
    """The vector of each word, ``(n, d)``, on the encoder's device, from its pieces; see ``Identity``."""
    device = next(encoder.model.parameters()).device
    states, order = [torch.empty(0, encoder.model.config.hidden_size, device=device)], [np.empty(0, np.int64)]
    for block in piece_blocks(encoder.model, encoder.pad, pieces.ids, pieces.lengths, layers):
        states.append(block.piece_states)
        order.append(block.pieces)
    indices = inverse_of(np.concatenate(order))[pieces.indices]
    read = torch.cat(states)
    if pooling == FIRST:
        return read.index_select(0, send(to_tensor(indices[pieces.starts]), device))
    chosen, starts = (send(to_tensor(each), device) for each in (indices, pieces.starts))
    return F.embedding_bag(chosen, read, starts, mode="mean")


def sentence_states(
    model: Any, padding: int, pieces: SentencePieces, pooling: str, states: bool = False
) -> tuple[Tensor, Tensor | None]:
    """The vector of each sentence ``(B, d)``, and on request the states ``(p, d)`` of its pieces; no half precision.

    A vector is the ``mean`` of a sentence's pieces, with those that the tokeniser adds, or its ``first``.
    """
    vectors, of_pieces, order, indices = [], [], [], []
    for block in piece_blocks(model, padding, pieces.ids, pieces.lengths):
        mask = block.mask[:, :, None]
        if pooling == FIRST:
            vectors.append(_precise(block.states[:, 0]))
        else:
            vectors.append((_precise(block.states) * mask).sum(dim=1) / mask.sum(dim=1))
        order.append(block.windows)
        if states:
            of_pieces.append(_precise(block.piece_states))
            indices.append(block.pieces)
    device = vectors[0].device
    back = send(to_tensor(inverse_of(np.concatenate(order))), device)
    found = torch.cat(vectors).index_select(0, back)
    if not states:
        return found, None
    return found, torch.cat(of_pieces).index_select(0, send(to_tensor(inverse_of(np.concatenate(indices))), device))


def _precise(states: Tensor) -> Tensor:
    return states.float() if states.dtype in (torch.bfloat16, torch.float16) else states


class FrozenEncoder:
    """A frozen encoder, loaded when it is first asked for states; its name is for messages."""

    per_word: ClassVar[bool] = True

    def __init__(self, name: str, folder: Path, identity: Identity):
        self.name = name
        self.folder = folder
        self.identity = identity
        self._device = best_device()

    def __reduce__(self) -> Any:
        # Pickled to the same bytes after use; another process loads it from its files.
        return type(self), (self.name, self.folder, self.identity)

    @classmethod
    def open(cls, encoder: str, pooling: str) -> Self:
        """Find ``FOLDER_OR_HUB_ID[:LAYERS]``; InputError if it is not there, or does not have these layers."""
        named = EncoderName.of(encoder)
        folder = found_folder(named.name)
        dim, depth = read_sizes(folder)
        return cls(named.name, folder, Identity(files_digest(folder), named.numbers(depth), pooling, dim))

    @property
    def dim(self) -> int:
        """Dimension d of a word's vector."""
        return self.identity.dim

    @property
    def about(self) -> dict[str, Any]:
        """What decides the vectors, as in a JSON document."""
        return {**self.identity._asdict(), "layers": list(self.identity.layers)}

    def to(self, device: str | torch.device) -> None:
        """Read sentences on this device from now on."""
        self._device = torch.device(device)
        self.__dict__.pop("_on_device", None)

    @cached_property
    def _on_device(self) -> Loaded:
        return _frozen(self.folder, self.identity.files, self._device)

    @property
    def _loaded(self) -> Loaded:
        # Workers of a DataLoader are forks of this process, and a fork cannot use its GPU.
        if get_worker_info() is not None and self._device.type != "cpu":
            self.to("cpu")
        return self._on_device

    @torch.no_grad()
    def states(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The vector of each word in its sentence, ``(n, d)``, float32, on the encoder's device."""
        pieces = self._loaded.aligner.align(sentences)
        return word_states(self._loaded, pieces, self.identity.layers, self.identity.pooling)


@lru_cache(1)  # the members of a joined run, and training and encoding, often share one
def _frozen(folder: Path, files: str, device: torch.device) -> Loaded:
    """An encoder on a device, without gradients; ``files`` is the digest of its files."""
    loaded = load_encoder(folder)
    return loaded._replace(model=loaded.model.requires_grad_(False).to(device))


class ContextualWords(Vocabulary):
    """The words of sentences, each with its state in the sentence, so that each is one beyond the vocabulary.

    The vocabulary itself is empty, and its table has one row, which no word reads.
    """

    def __init__(self, encoder: FrozenEncoder):
        super().__init__([UNKNOWN])
        self.encoder = encoder
        self.dim = encoder.dim
        self.identity = encoder.identity.digest

    def look_up(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """See ``Vocabulary``; no two words have the same id."""
        return each_its_own(self.encoder.states(sentences).cpu().numpy())


def each_its_own(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What ``ContextualWords.look_up`` returns for words with these vectors ``(n, d)``."""
    return np.arange(1, len(vectors) + 1), vectors
