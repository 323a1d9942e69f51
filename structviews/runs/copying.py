"""Copies of runs."""

import shutil
from pathlib import Path

from structviews.errors import InputError
from structviews.runs.folder import STATE
from structviews.runtime.files import holds_something, new_folder


def copy_run(run: Path, folder: Path) -> None:
    """Copy a run whole, but for what only the continuation of its training needs; see ``new_folder``.

    Raises:
        InputError: if the folder is inside the run, or exists and is not empty.
    """
    check_outside(run, folder)
    if holds_something(folder):
        raise InputError(f"{folder}: already exists: save to another folder")
    with new_folder(folder) as copied:
        shutil.copytree(run, copied, ignore=shutil.ignore_patterns(STATE, ".*"), dirs_exist_ok=True)


def check_outside(run: Path, folder: Path) -> None:
    """Raise InputError if a folder that a run is to be copied to is inside it."""
    if run.resolve() in folder.resolve().parents:
        raise InputError(f"{folder}: inside the run itself: save to another folder")
