"""Sealed safetensors files: each holds digests of its own content, which are checked when it is read.

Reading one cannot execute code. Equal arrays and notes give equal bytes. Only tensors need PyTorch.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_arrays

from structviews.errors import InputError
from structviews.runtime.documents import UNREADABLE, parse_json
from structviews.runtime.files import digest, write_whole
from structviews.runtime.wording import reason

if TYPE_CHECKING:
    from torch import Tensor

# Key of the metadata's only entry: safetensors writes several in any order, and equal files must have equal bytes.
ENTRY = "structviews"
# The format's names of numpy's types.
TYPES = {"bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16"} | {
    f"{kind}int{bits}": f"{'U' if kind else 'I'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)
}


class Seal(TypedDict):
    """What the metadata of a file says."""

    notes: dict[str, Any]  # what its writer noted
    data: str  # digest of the tensors' bytes, in the order of their names
    head: str  # SHA-256 of the notes, of the tensors' names, types and shapes, and of ``data``


class Head(NamedTuple):
    """What a file says without its tensors' values: notes and ``data`` of the seal, and shapes by name.

    Its ``digest``, the seal's ``head``, identifies the file's whole content.
    """

    notes: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    data: str
    digest: str


def write_arrays(
    path: Path, arrays: "Mapping[str, np.ndarray] | Mapping[str, Tensor]", notes: Mapping[str, Any] | None = None
) -> None:
    """Write a sealed safetensors file, atomically: NumPy's arrays or PyTorch's tensors by name, and notes, as JSON."""
    save: Callable[..., bytes] = save_arrays
    if any(not isinstance(each, np.ndarray) for each in arrays.values()):
        from safetensors.torch import save as save_tensors  # noqa: PLC0415 - imports PyTorch, which is slow

        save = save_tensors
    content = {
        name: np.ascontiguousarray(each)
        if isinstance(each := arrays[name], np.ndarray)
        else each.detach().cpu().contiguous()
        for name in sorted(arrays)
    }
    described = {
        name: (TYPES[str(each.dtype).removeprefix("torch.")], list(each.shape)) for name, each in content.items()
    }
    data, notes = digest(*map(_octets, content.values())), dict(notes or {})
    seal = Seal(notes=notes, data=data, head=head_digest(notes, described, data))
    write_whole(path, save(content, {ENTRY: json.dumps(seal, sort_keys=True)}))


def read_arrays(path: Path, remedy: str) -> dict[str, np.ndarray]:
    """The arrays of a sealed file by name; see ``read_tensors``."""
    return _read(path, "np", remedy)[1]


def read_tensors(path: Path, remedy: str, *, check: bool = True) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """The tensors of a sealed file by name, memory-mapped, and its notes.

    A file that this process has checked before need not be read again for a ``check`` of the tensors' values. Raises
    InputError if it is missing or damaged, with the remedy.
    """
    head, tensors = _read(path, "pt", remedy, check=check)
    return tensors, head.notes


def read_head(path: Path, remedy: str) -> Head:
    """What a sealed file says, without reading its tensors; see ``read_tensors``."""
    return _read(path, None, remedy)[0]


def _read(path: Path, framework: str | None, remedy: str, check: bool = True) -> tuple[Head, dict[str, Any]]:
    """The head of a sealed file and, for a framework, its content: what is checked is what the caller gets."""
    if not path.is_file():
        raise InputError(f"{path}: no such file: {remedy}")
    described, content = {}, {}
    try:
        with safe_open(path, framework or "np") as file:
            for name in sorted(file.keys()):
                part = file.get_slice(name)
                described[name] = (str(part.get_dtype()), list(part.get_shape()))
                if framework:
                    content[name] = file.get_tensor(name)
            metadata = (file.metadata() or {}).get(ENTRY, "")
    except (SafetensorError, OSError, MemoryError, RuntimeError) as error:
        raise damaged(path, reason(error), remedy) from None
    try:
        seal = parse_json(metadata.encode(), Seal, path, remedy)
        found = head_digest(seal["notes"], described, seal["data"])
    except (InputError, *UNREADABLE):
        raise damaged(path, "its seal is missing", remedy) from None
    if seal["head"] != found:
        raise damaged(path, "its head does not match its seal", remedy)
    head = Head(seal["notes"], {name: tuple(shape) for name, (_, shape) in described.items()}, seal["data"], found)
    if framework and check:
        check_data(path, head, content, remedy)
    return head, content


def check_data(path: Path, head: Head, content: Mapping[str, Any], remedy: str) -> None:
    """Raise InputError unless the bytes of the arrays, in the order of their names, are those that were written."""
    if digest(*map(_octets, content.values())) != head.data:
        raise damaged(path, "its content does not match its digest", remedy)


def head_digest(notes: Mapping[str, Any], described: Mapping[str, tuple[str, list[int]]], data: str) -> str:
    """The digest of a head; ``described`` has the type and shape of each tensor."""
    return hashlib.sha256(json.dumps([notes, described, data], sort_keys=True).encode()).hexdigest()


def damaged(path: Path, what: str, remedy: str) -> InputError:
    """The error for a damaged file."""
    return InputError(f"{path}: damaged: {what}: {remedy}")


def _octets(array: "np.ndarray | Tensor") -> memoryview:
    """The bytes of a contiguous array."""
    if not isinstance(array, np.ndarray):
        import torch  # noqa: PLC0415 - slow to import, and here already

        array = array.reshape(-1).view(torch.uint8).numpy()
    return array.reshape(-1).view(np.uint8).data
