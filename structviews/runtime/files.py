"""Atomic writing of files and folders, and reading of text files."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from structviews.errors import InputError


def text_lines(path: Path) -> list[str]:
    r"""The lines of a text file, split at ``\n`` and ``\r\n`` only, as in ``parse`` and ``encode``.

    Raises:
        InputError: if the file cannot be read, is not UTF-8 or is empty.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: give the path of a text file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}: convert it to UTF-8") from None
    # str.splitlines would also split at form feeds and Unicode separators, which occur within sentences.
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split("\n")
    if lines == [""]:
        raise InputError(f"{path}: empty: give one sentence per line")
    return lines


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write ``path`` atomically and durably: after a crash or power cut it is complete or absent."""
    # The process id keeps two writers apart if a killed one is still running when its successor starts.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON atomically, with sorted keys, so that equal content gives equal bytes."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def file_hash(path: Path) -> str:
    """SHA-256 of a file as a hex string."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to ``out`` when the block ends without an error.

    Raises:
        InputError: if ``out`` already exists or cannot be created.
    """
    if out.exists():
        raise InputError(f"{out}: already exists: give another folder with --out")
    out = out.resolve()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}: give another folder with --out") from None
    with temporary as folder:
        unfinished = Path(folder) / out.name
        unfinished.mkdir()
        yield unfinished
        unfinished.replace(out)
    sync_folder(out.parent)
