"""What of a run's folder goes to other machines: weights, words and settings, and nothing that is another file's."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from structviews.cache import write_json
from structviews.checkpoint import WEIGHTS
from structviews.config import CONFIG, PARSED, read_settings, run_kind, write_settings
from structviews.errors import InputError
from structviews.evaluation.results import EXPANSION, MEMBERS, load_results, model_checksum
from structviews.joined import JOINED
from structviews.representation import COMPONENTS

CARD = "README.md"
# Kinds of runs that are whole in their folders.
TRAINED_KINDS = ("trained", "random")
PARTS = (CONFIG, WEIGHTS, COMPONENTS, "vocabulary.*.txt")
# The same as the Hub's filters want them; their * stands for folders too, so that of joins of joins.
PATTERNS = [CARD, "results*.json", *PARTS, *(f"{MEMBERS}/*/{part}" for part in PARTS)]
# Settings that name places of the machine that trained.
PLACES = ("corpus", "out", "init_from", "vectors", "eval_data", "eval_parsed")


def members(run: Path) -> list[Path]:
    """The folders of a joined run's members; none of any other run.

    Raises:
        InputError: if it is not a run, or its settings name no folders in it.
    """
    if run_kind(run) != JOINED:
        return []
    names = read_settings(run).get("members")
    if not isinstance(names, list) or not all(isinstance(name, str) and _is_name(name) for name in names):
        raise InputError(f"{run / CONFIG}: members = {names!r}: not the names of folders: join the runs again")
    return [run / MEMBERS / name for name in names]


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and not re.search(r"[/\\\0]", name)


def trained_parts(run: Path) -> Iterator[Path]:
    """The folders of the trained runs that a run is made of: itself, or its members and theirs.

    Raises:
        InputError: if one is of a kind that reads files outside its folder.
    """
    kind = run_kind(run)
    if kind in TRAINED_KINDS:
        yield run
    elif kind == JOINED:
        for member in members(run):
            yield from trained_parts(member)
    else:
        raise InputError(
            f"{run}: a run of the kind {kind!r} reads a file outside its folder: only what train, join or baseline "
            "random made is whole"
        )


def stage(run: Path, folder: Path) -> list[str]:
    """Copy what goes to other machines, without paths of this one; return what does not, as notes.

    Raises:
        InputError: if it is not a run, or reads files outside its folder.
    """
    notes = []
    for part in trained_parts(run):
        target = folder / part.relative_to(run)
        target.mkdir(parents=True, exist_ok=True)
        for pattern in PARTS[1:]:
            for path in sorted(part.glob(pattern)):
                shutil.copyfile(path, target / path.name)
        write_settings(target, _without_places(read_settings(part)))
        if (part / EXPANSION).exists():
            notes.append(f"{part}: goes without its expansion, which reads a file of this machine")
    _copy_joins(run, folder)
    return notes + _copy_results(run, folder)


def _copy_joins(run: Path, folder: Path) -> None:
    """The settings of a joined run, and of joins in it."""
    for member in members(run):
        _copy_joins(member, folder / member.relative_to(run))
    if run_kind(run) == JOINED:
        write_settings(folder, read_settings(run))


def _copy_results(run: Path, folder: Path) -> list[str]:
    """The scores of what goes; a note where some are of something else."""
    notes, model = [], model_checksum(folder)
    for path in sorted(run.glob("results*.json")):
        results = load_results(run, path.name) or {}
        if results.get("model") == model:
            write_json(folder / path.name, results | {"unavailable": {}})  # whose reasons name files of this machine
        else:
            notes.append(f"{path}: stays here, as it has scores of other weights")
    return notes


def _without_places(settings: dict[str, Any]) -> dict[str, Any]:
    shorter = {name: Path(settings[name]).name for name in PLACES if name in settings}
    return settings | shorter | {PARSED: settings.get(PARSED, {}) | {"models": ""}}


def check_arrived(folder: Path) -> None:
    """Look at what came from elsewhere, before anything of it is loaded.

    Raises:
        InputError: if it is not a run that is whole in its folder, or has anything in it but data.
    """
    for path in folder.rglob("*"):
        if path.is_symlink() or (
            path.is_file() and path.suffix not in (".toml", ".safetensors", ".txt", ".json", ".md")
        ):
            raise InputError(f"{path}: not a file of a run")
    check_whole(folder)


def check_whole(run: Path) -> None:
    """Look whether a run that came from elsewhere would read other files of this machine.

    Raises:
        InputError: if it would: it is of a kind that does, or has the path of a parser's models.
    """
    for part in trained_parts(run):
        if read_settings(part).get(PARSED, {}).get("models"):
            raise InputError(
                f"{part / CONFIG}: names a folder of models on this machine: ask its owner to leave models out of "
                f"[{PARSED}]"
            )
