"""Atomic writing of files and folders, and reading of text files."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import xxhash

from structviews.errors import InputError
from structviews.runtime.locks import creating, temporary_name, writing


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
    temporary = temporary_name(path)
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """As ``write_whole``, of content that is in memory."""
    write_whole(path, lambda file: file.write(content))


def write_output(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """As ``write_whole``, for a file that the user named: one writer at a time, see ``writing``."""
    with writing(path):
        write_whole(path, write)


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
        return
    descriptor = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(*parts: Any) -> str:
    """Digest of bytes in several parts: 128-bit XXH3, which finds damage as surely as SHA-256, in a tenth of its time.

    Neither would stop somebody who damages a file on purpose and makes its digest right.
    """
    found = xxhash.xxh3_128()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file as a hex string."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to ``out`` when the block ends without an error; see ``writing``.

    Raises:
        InputError: if ``out`` already exists and is not an empty folder, cannot be created, or is being made by another
            process.
    """
    named, out = out, out.resolve()
    with creating(out):
        if holds_something(out):
            raise InputError(f"{named}: already exists: give another folder with --out")
        temporary = temporary_name(out)
        try:
            temporary.mkdir()
            unfinished = temporary / out.name
            unfinished.mkdir()
            yield unfinished
            if out.is_dir():  # empty; not every system replaces one
                out.rmdir()
            unfinished.replace(out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        sync_folder(out.parent)


def holds_something(path: Path) -> bool:
    """Whether a path exists and is not an empty folder."""
    return any(path.iterdir()) if path.is_dir() else path.exists()
