"""Files and folders that appear whole, one writer at a time, and no traces of dead ones.

The writer of ``NAME`` locks ``.NAME.lock`` beside it; the lock ends with its process, however that ends. Temporary
files and folders are called ``.NAME.HOST-PROCESS.tmp``, so that the next writer can delete those of dead processes.
"""

import hashlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import xxhash
from filelock import FileLock, Timeout

from structviews.errors import InputError

ANOTHER = "give another folder with --out"
SHOWN = 80  # characters of a command line that a message shows
LOCK = re.compile(r"\.(?P<name>.+)\.lock")
HOST = re.sub(r"[^A-Za-z0-9_]", "_", platform.node()) or "here"
TEMPORARY = re.compile(rf"\..+\.{HOST}-(?P<process>\d+)\.tmp")


def temporary_name(path: Path) -> Path:
    """Where to write what will be renamed to ``path``; another process gets another name."""
    return path.with_name(f".{path.name}.{HOST}-{os.getpid()}.tmp")


@contextmanager
def writing(path: Path, patience: float = 0) -> Iterator[None]:
    """Hold the lock on a file or folder while writing it, and delete what dead writers of it left behind.

    The folder above it must exist. ``patience`` is how many seconds to wait for another writer. Raises InputError if
    another process, which the message names, holds it; OSError if the place cannot be written.
    """
    path = path.absolute()
    lock_file = path.with_name(f".{path.name}.lock")
    try:
        path.parent.stat()  # FileLock would create it
        lock = FileLock(lock_file, timeout=patience)
        lock.acquire()
    except Timeout:
        holder = ""
        with suppress(OSError, UnicodeDecodeError):
            holder = lock_file.read_text("utf-8")[: 4 * SHOWN]
        remedy = "wait until it has finished, or give another place"
        raise InputError(f"{path} is being written by {holder or 'another process'}: {remedy}") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    shown = command if len(command) <= SHOWN else f"{command[:SHOWN]}..."
    try:
        with suppress(OSError):  # a full disk; it only tells others who it is
            lock_file.write_text(
                f"process {os.getpid()} on {platform.node()} ({shown}, since {datetime.now():%H:%M})", "utf-8"
            )
        _sweep(path)
        yield
    finally:
        with suppress(OSError):  # while the lock is held: others notice that theirs is on a file without a name
            lock_file.unlink()
        lock.release()


@contextmanager
def creating(path: Path, remedy: str = ANOTHER) -> Iterator[None]:
    """As ``writing``, for a folder; also makes the missing folders above it, which go again if nothing is written."""
    missing = [each for each in path.absolute().parents if not each.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: {remedy}") from None
    try:
        with writing(path):
            yield
    finally:
        with suppress(OSError):  # they are not empty
            for each in missing:
                each.rmdir()


def clear(path: Path) -> None:
    """Delete what a writer left that died when ``path`` was already there, so that nobody has to write it again."""
    path = path.absolute()  # ``.`` has no name
    if path.with_name(f".{path.name}.lock").exists():
        with suppress(OSError, InputError), writing(path):
            pass


def clear_below(folder: Path) -> None:
    """As ``clear``, for a folder and all that lies in it, where a later call skips what is finished."""
    clear(folder)
    for below, _, names in os.walk(folder):
        for name in names:
            if lock := LOCK.fullmatch(name):
                clear(Path(below) / lock["name"])


def _sweep(path: Path) -> None:
    """Delete what dead processes on this machine left of ``path``, of its hidden companions, and of the files in it."""
    beside: list[Path] = []
    with suppress(OSError):  # a folder that may be written but not listed
        beside = [each for each in path.parent.iterdir() if re.match(rf"\.+{re.escape(path.name)}\.", each.name)]
    for each in (*beside, *(path.rglob(".*.tmp") if path.is_dir() else ())):
        found = TEMPORARY.fullmatch(each.name)
        if not found or int(found["process"]) == os.getpid() or sys.platform == "win32":  # where asking would end it
            continue
        try:
            os.kill(int(found["process"]), 0)
        except ProcessLookupError:
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
        except OSError:  # it runs, as another user's
            pass


def text_lines(path: Path) -> list[str]:
    r"""The lines, one or more, of a UTF-8 text, split at ``\n`` and ``\r\n`` only, as ``parse`` and ``encode`` do."""
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


def write_whole(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write bytes, or what a function writes, atomically and durably: after a power cut it is complete or absent."""
    temporary = temporary_name(path)
    try:
        with temporary.open("wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_output(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """As ``write_whole``, for a file that the user named: one writer at a time, see ``writing``."""
    with writing(path):
        write_whole(path, content)


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
    """128-bit XXH3 of bytes in several parts, which finds damage as surely as SHA-256, in a tenth of its time."""
    found = xxhash.xxh3_128()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file as a hex string."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def new_folder(out: Path, remedy: str = ANOTHER) -> Iterator[Path]:
    """A temporary folder that is renamed to ``out``, new or empty, when the block ends well; see ``creating``."""
    named, out = out, out.resolve()
    with creating(out, remedy):
        if any(out.iterdir()) if out.is_dir() else out.exists():
            raise InputError(f"{named}: already exists: {remedy}")
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
