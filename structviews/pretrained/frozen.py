"""Frozen encoders: the states of words without gradients."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from structviews.pretrained.encoder_name import EncoderName, Identity
from structviews.pretrained.loading import Loaded, files_digest, found_folder, load_encoder, read_sizes
from structviews.pretrained.word_states import word_states
from structviews.runtime.device import best_device


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
        """The vector of each word in its sentence, ``(n, d)``, float32, on the encoder's device.

        Raises:
            InputError: if the encoder cannot be loaded.
        """
        pieces = self._loaded.aligner.align(sentences)
        return word_states(self._loaded, pieces, self.identity.layers, self.identity.pooling)


@lru_cache(1)  # the members of a joined run, and training and encoding, often share one
def _frozen(folder: Path, files: str, device: torch.device) -> Loaded:
    """An encoder on a device, without gradients; ``files`` is the digest of its files."""
    loaded = load_encoder(folder)
    return loaded._replace(model=loaded.model.requires_grad_(False).to(device))
