"""Folders that appear whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from structviews.cache import sync_folder
from structviews.errors import InputError


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``out`` when the block ends without an error.

    Raises:
        InputError: if something is there already, or there is no folder to make it in.
    """
    if out.exists():
        raise InputError(f"{out} is there already: give --out a new folder")
    if not out.resolve().parent.is_dir():
        raise InputError(f"{out.resolve().parent}: no such folder: make it, or give another --out")
    with TemporaryDirectory(dir=out.resolve().parent, prefix=f".{out.name}.") as temporary:
        unfinished = Path(temporary) / out.name
        unfinished.mkdir()
        yield unfinished
        unfinished.replace(out)
    sync_folder(out.resolve().parent)
