"""Reading numpy's files: nothing in them is executed, and no header is believed beyond the size of its file."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from structviews.errors import InputError
from structviews.runtime.memory import available_bytes, check_memory

# Characters of numpy's reason that an error shows.
LONGEST = 120


def map_array(path: Path) -> np.ndarray:
    """Memory-map the array of a ``.npy`` file.

    Raises:
        InputError: if it is not an array, or is shorter than its header says.
    """
    try:
        with np.errstate(over="ignore"):  # of the size that a header asks for
            array: object = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}: give a .npy file") from None
    except Exception as error:  # numpy evaluates a header as Python does, which fails in many ways
        raise InputError(f"{path}: not an array of numbers ({reason(error)}): save one with numpy.save") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: not an array of numbers (an .npz file): save one with numpy.save")
    return array


def read_arrays(path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Read arrays of an ``.npz`` file.

    Raises:
        InputError: if there is no such array, it is none of numbers or texts, or it does not fit in memory.
    """
    try:
        with zipfile.ZipFile(path) as members:
            missing = [name for name in names if f"{name}.npy" not in members.namelist()]
            if missing:
                raise InputError(f"{path}: no array {missing[0]!r}: save {' and '.join(names)}")
            return [read_member(path, members, name) for name in names]
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}: give a folder that has this file") from None
    except Exception as error:  # so many are zipfile's and those of its decompressors
        raise InputError(f"{path}: not an npz file ({reason(error)}): write it with numpy.savez") from None


def read_member(path: Path, members: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read one array of an ``.npz`` file."""
    info = members.getinfo(f"{name}.npy")
    with members.open(info) as stream:
        try:
            shape, by_columns, kind = read_header(stream)
        except Exception as error:
            raise InputError(f"{path}: {name} is not an array ({reason(error)}): write it with numpy.savez") from None
        size = math.prod(shape) * kind.itemsize
        if kind.hasobject or min(shape, default=0) < 0:
            raise InputError(f"{path}: {name} is {kind} of shape {shape}, not numbers or texts: write it again")
        if stream.tell() + size != info.file_size:
            raise InputError(
                f"{path}: {name} is {kind} of shape {shape}, which has {size:,} bytes, not the "
                f"{info.file_size - stream.tell():,} of the file: write it again"
            )
        # Its bytes, and the array that is made of them.
        check_memory(f"{path}: {name} of shape {shape}", 2 * size, available_bytes(), "give fewer rows")
        content = stream.read()
    if len(content) != size:
        raise InputError(f"{path}: {name} ends early: copy the file again")
    return np.frombuffer(content, kind).reshape(shape, order="F" if by_columns else "C")


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns come first, and type of the array that follows."""
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    return read[np.lib.format.read_magic(stream)](stream)


def reason(error: Exception) -> str:
    """The beginning of an error's message, on one line."""
    return " ".join(str(error).split())[:LONGEST] or type(error).__name__
