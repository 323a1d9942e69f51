"""Sealed safetensors files of PyTorch's tensors; see ``seals.py``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from structviews.runtime.files import write_bytes
from structviews.runtime.seals import TYPES, check_data, head_of, opened, sealed


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any] | None = None) -> None:
    """Write a sealed safetensors file atomically.

    Args:
        path: the file.
        tensors: by name, on any device.
        notes: what else to keep, as JSON.
    """
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    described = {name: (_type(tensor), list(tensor.shape)) for name, tensor in content.items()}
    packed = save(content, sealed(described, (_octets(content[name]) for name in sorted(content)), notes))
    write_bytes(path, packed)


def read_tensors(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a sealed file by name, and its notes.

    Args:
        path: the file.
        remedy: what the user can do if it is missing or damaged.

    Raises:
        InputError: if it is missing or damaged.
    """

    def read(file: safe_open) -> tuple[dict[str, Tensor], dict[str, Any]]:
        head = head_of(path, file, remedy)
        tensors = {name: file.get_tensor(name) for name in sorted(head.shapes)}
        # The file is read from disk once: what is hashed here is what the caller gets.
        check_data(path, head, map(_octets, tensors.values()), remedy)
        return tensors, head.notes

    return opened(path, "pt", read, remedy)


def _type(tensor: Tensor) -> str:
    """The format's name of a tensor's type."""
    return "BF16" if tensor.dtype == torch.bfloat16 else TYPES[str(tensor.dtype).removeprefix("torch.")]


def _octets(tensor: Tensor) -> memoryview:
    octets: np.ndarray = tensor.reshape(-1).view(torch.uint8).numpy()
    return octets.data
