"""The states of a frozen encoder as vectors of words.

Shapes: n words, w windows, p pieces of all windows, d dimension of a state.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.pretrained.encoder_name import EncoderName, Identity
from structviews.pretrained.loading import Loaded, files_digest, found_folder, load_encoder, read_sizes
from structviews.runtime.arrays import Array, stable_argsort, starts_of
from structviews.runtime.device import best_device
from structviews.words.word_settings import FIRST

# Pieces of a product, with padding: enough for fast products, few enough for the states to stay in the caches.
PIECES_AT_ONCE = 2**12


class FrozenEncoder:
    """A frozen encoder, loaded when it is first asked for states.

    Args:
        name: the encoder's, for messages.
        folder: where it is.
        identity: what decides its vectors.
    """

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
        """Find an encoder.

        Args:
            encoder: ``FOLDER_OR_HUB_ID[:LAYERS]``.
            pooling: of a word's pieces.

        Raises:
            InputError: if it is not there, or does not have these layers.
        """
        named = EncoderName.of(encoder)
        folder = found_folder(named.name)
        dim, depth = read_sizes(folder)
        return cls(named.name, folder, Identity(files_digest(folder), named.numbers(depth), pooling, dim))

    @property
    def dim(self) -> int:
        """Dimension d of a word's vector."""
        return self.identity.dim

    def to(self, device: str | torch.device) -> None:
        """Read sentences on this device from now on."""
        self._device = torch.device(device)
        self.__dict__.pop("_loaded", None)

    @cached_property
    def _loaded(self) -> Loaded:
        return load_encoder(self.folder, self.identity.files, self._device)

    @torch.no_grad()
    def states(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The vector of each word in its sentence, ``(n, d)``, float32, on the encoder's device.

        Raises:
            InputError: if the encoder cannot be loaded.
        """
        model, aligner, pad = self._loaded
        pieces = aligner.align(sentences)
        states = torch.empty(len(pieces.ids), self.dim, device=self._device)
        for places in _blocks(pieces.lengths):
            mask = places >= 0
            ids = np.where(mask, pieces.ids[places], pad)
            read, there = (torch.from_numpy(each).to(self._device) for each in (ids, mask))
            states[torch.from_numpy(places[mask]).to(self._device)] = self._layers(model, read, there)[there]
        chosen = torch.from_numpy(pieces.places).to(self._device)
        starts = torch.from_numpy(pieces.starts).to(self._device)
        if self.identity.pooling == FIRST:
            return states.index_select(0, chosen[starts])
        return F.embedding_bag(chosen, states, starts, mode="mean")

    def _layers(self, model: Any, ids: Tensor, mask: Tensor) -> Tensor:
        """The mean state of the chosen layers."""
        layers = self.identity.layers
        if layers == (model.config.num_hidden_layers,):
            last: Tensor = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            return last
        hidden = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
        return torch.stack([hidden[layer] for layer in layers]).mean(dim=0)


def _blocks(lengths: Array) -> Iterator[Array]:
    """Blocks of windows of similar length; each ``(rows, longest)`` has the indices of their pieces, -1 for padding."""
    order = stable_argsort(lengths.max(initial=0) - lengths)
    starts, done = starts_of(lengths), 0
    while done < len(order):
        longest = lengths[order[done]]
        rows = order[done : done + max(1, PIECES_AT_ONCE // longest)]
        inside = np.arange(longest)
        yield np.where(inside < lengths[rows, None], starts[rows, None] + inside, -1)
        done += len(rows)
