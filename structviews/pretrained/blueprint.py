"""What makes an encoder apart from its weights: its configuration and its tokeniser.

A run whose transformer is trained keeps them in one sealed file, so it needs nothing of the encoder that it began from.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

import numpy as np
import torch

from structviews.errors import InputError
from structviews.pretrained.alignment import Aligner
from structviews.pretrained.loading import CONFIG, Loaded, description_files, empty_encoder, empty_network
from structviews.runtime.files import digest
from structviews.runtime.seals import damaged, read_arrays, write_arrays

T = TypeVar("T")


class Blueprint:
    """An encoder without its weights.

    Args:
        files: the contents of its files, by name.
        place: where they are, for messages.
    """

    def __init__(self, files: Mapping[str, bytes], place: Path):
        self.files = dict(files)
        self.place = place

    def __reduce__(self) -> Any:
        # Pickled to the same bytes after use: a tokeniser remembers words that it has read.
        return type(self), (self.files, self.place)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """That of an encoder's folder."""
        return cls({path.name: path.read_bytes() for path in description_files(folder)}, folder)

    @classmethod
    def read(cls, path: Path, remedy: str) -> Self:
        """Read what ``write`` wrote.

        Args:
            path: the file.
            remedy: what to do if it is damaged.

        Raises:
            InputError: if it is missing or damaged.
        """
        files = {name: array.tobytes() for name, array in read_arrays(path, remedy).items()}
        if CONFIG not in files or any(Path(name).name != name for name in files):
            raise damaged(path, "it does not describe an encoder", remedy)
        return cls(files, path)

    def write(self, path: Path) -> None:
        """Write to one file."""
        write_arrays(path, {name: np.frombuffer(content, np.uint8) for name, content in self.files.items()})

    @property
    def digest(self) -> bytes:
        """Digest of the files, 16 bytes."""
        return bytes.fromhex(digest("".join(f"{name} {digest(self.files[name])}\n" for name in self.files).encode()))

    def unpack(self, folder: Path) -> None:
        """Write the files to a folder."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)

    @cached_property
    def tokeniser(self) -> Loaded:
        """Its tokeniser, and a model that has no weights.

        Raises:
            InputError: if it is not an encoder that transformers knows.
        """
        with torch.device("meta"):
            return self._made(empty_encoder)

    @property
    def aligner(self) -> Aligner:
        """Turns sentences into its pieces."""
        return self.tokeniser.aligner

    @property
    def dim(self) -> int:
        """Dimension of a state."""
        return int(self.tokeniser.model.config.hidden_size)

    def network(self) -> Any:
        """A model with fresh random weights, on PyTorch's current device."""
        return self._made(empty_network)

    def _made(self, make: Callable[[Path], T]) -> T:
        """What is made of its files; errors name the place that they came from."""
        with self._unpacked() as folder:
            try:
                return make(folder)
            except InputError as error:
                raise InputError(str(error).replace(str(folder), str(self.place))) from None

    @contextmanager
    def _unpacked(self) -> Iterator[Path]:
        with TemporaryDirectory() as name:
            self.unpack(Path(name))
            yield Path(name)
