"""Sealed safetensors files: each holds digests of its own content, which are checked when it is read.

Reading one cannot execute code. Equal tensors and notes give equal bytes: safetensors writes its metadata in any order,
so all notes are one entry of it.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from structviews.errors import InputError
from structviews.runtime.documents import UNREADABLE, parse_json
from structviews.runtime.files import write_whole

T = TypeVar("T")
# Key of the metadata's only entry.
ENTRY = "structviews"
# Bytes hashed at a time.
AT_ONCE = 2**22
# The format's names of the types.
TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}


class Seal(TypedDict):
    """What the metadata of a file says.

    Attributes:
        notes: what its writer noted.
        data: SHA-256 of the tensors' bytes, in the order of their names.
        head: SHA-256 of the notes, of the tensors' names, types and shapes, and of ``data``.
    """

    notes: dict[str, Any]
    data: str
    head: str


class Head(NamedTuple):
    """What a file says without its tensors' values.

    Attributes:
        notes: see ``write_tensors``.
        shapes: by name.
        digest: SHA-256 that identifies the file's whole content.
    """

    notes: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    digest: str


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor | np.ndarray], notes: Mapping[str, Any] | None = None
) -> None:
    """Write a sealed safetensors file atomically.

    Args:
        path: the file.
        tensors: by name, on any device.
        notes: what else to keep, as JSON.
    """
    content = {name: _plain(tensor) for name, tensor in tensors.items()}
    described = {name: (TYPES[each.dtype], list(each.shape)) for name, each in content.items()}
    data = _digest(content[name] for name in sorted(content))
    kept = dict(notes or {})
    seal = Seal(notes=kept, data=data, head=_head(kept, described, data))
    packed = save(content, metadata={ENTRY: json.dumps(seal, sort_keys=True)})
    write_whole(path, lambda file: file.write(packed))


def read_tensors(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a sealed file by name, and its notes.

    Args:
        path: the file.
        remedy: what the user can do if it is missing or damaged.

    Raises:
        InputError: if it is missing or damaged.
    """

    def read(file: safe_open) -> tuple[dict[str, Tensor], dict[str, Any]]:
        seal = _seal(path, file, remedy)
        names = sorted(file.keys())
        tensors = {name: file.get_tensor(name) for name in names}
        # Read from disk once: what is hashed here is what the caller gets.
        if _digest(tensors.values()) != seal["data"]:
            raise _damaged(path, "its content does not match its digest", remedy)
        return tensors, seal["notes"]

    return _opened(path, read, remedy)


def read_head(path: Path, remedy: str) -> Head:
    """What a sealed file says without reading its tensors; see ``read_tensors``."""

    def read(file: safe_open) -> Head:
        seal = _seal(path, file, remedy)
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - not a dict
        return Head(seal["notes"], shapes, seal["head"])

    return _opened(path, read, remedy)


def _opened(path: Path, read: Callable[[safe_open], T], remedy: str) -> T:
    if not path.is_file():
        raise InputError(f"{path}: no such file: {remedy}")
    try:
        with safe_open(path, "pt") as file:
            return read(file)
    except (SafetensorError, OSError, MemoryError, RuntimeError) as error:
        raise _damaged(path, " ".join(str(error).split())[:200] or type(error).__name__, remedy) from None


def _seal(path: Path, file: safe_open, remedy: str) -> Seal:
    try:
        text = (file.metadata() or {}).get(ENTRY, "")
        seal = parse_json(text.encode(), Seal, path, remedy)
        described = {}
        for name in file.keys():  # noqa: SIM118 - not a dict
            part = file.get_slice(name)
            described[name] = (str(part.get_dtype()), list(part.get_shape()))
        sealed = seal["head"] == _head(seal["notes"], described, seal["data"])
    except (InputError, *UNREADABLE):
        sealed = False
    if not sealed:
        raise _damaged(path, "its seal is missing or does not match", remedy)
    return seal


def _head(notes: Mapping[str, Any], described: Mapping[str, Any], data: str) -> str:
    return hashlib.sha256(json.dumps([notes, described, data], sort_keys=True).encode()).hexdigest()


def _digest(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        octets = memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
        for start in range(0, len(octets), AT_ONCE):
            digest.update(octets[start : start + AT_ONCE])
    return digest.hexdigest()


def _plain(tensor: Tensor | np.ndarray) -> Tensor:
    given = torch.from_numpy(np.ascontiguousarray(tensor)) if isinstance(tensor, np.ndarray) else tensor
    return given.detach().cpu().contiguous()


def _damaged(path: Path, what: str, remedy: str) -> InputError:
    return InputError(f"{path}: damaged: {what}: {remedy}")
