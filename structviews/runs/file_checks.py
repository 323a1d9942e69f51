"""Check everything in a corpus, a run or a cache against its digests, for ``structviews verify``."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from structviews.corpus.layout import JOB, MANIFEST
from structviews.corpus.writer import verify_corpus
from structviews.errors import InputError
from structviews.pretrained import stored_states
from structviews.runs.folder import CONFIG, LOG, REMEDY, read_log
from structviews.runs.settings_file import load_run, run_kind
from structviews.runtime.array_files import check_blocks
from structviews.runtime.documents import read_sealed
from structviews.runtime.seals import read_tensors
from structviews.runtime.terminal import OnProgress
from structviews.words.vector_files import arrow_file, check_arrow

REMAKE = "delete it; it is made again when it is needed"


def verify(path: Path, progress: OnProgress) -> Iterator[str]:
    """Check a corpus, a run, a cache of vectors or a single file of these; yield one line per fault.

    Raises InputError if it is none of these.

    Args:
        path: a corpus' folder; a run's folder, with its members and states; ``CORPUS.vectors``; ``CORPUS.states``; a
            vector file that was read before; or a file in one of these.
        progress: called with the number of files done and their total.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder: give a corpus, a run or a cache")
    if path.is_dir() and ((path / MANIFEST).exists() or (path / JOB).exists()):
        yield from verify_corpus(path, progress)
        return
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    checks = [check for file in files if not file.name.startswith(".") and (check := _check_of(file))]
    if (path / CONFIG).is_file():
        checks.insert(0, lambda: run_kind(path) in ("trained", "random") and load_run(path))
    if not checks:
        raise InputError(f"{path}: not a corpus, a run or a cache: give one of these")
    for number, check in enumerate(checks, 1):
        try:
            check()
        except InputError as fault:
            yield str(fault)
        progress(number, len(checks))


def _check_of(file: Path) -> Callable[[], Any] | None:
    """The check for a file, by its name; None for a file that is not sealed, such as a model card."""
    journal, arrow = file.with_suffix(".digests"), file if file.suffix == ".arrow" else arrow_file(file)
    of_run, of_document = REMEDY, "delete it and evaluate again"
    if file.resolve().parent.parent.suffix == f".{stored_states.STATES}":
        of_run = of_document = stored_states.REMEDY
    checks: list[tuple[bool, Callable[[], Any]]] = [
        (file.suffix == ".safetensors", lambda: read_tensors(file, of_run)),
        (file.suffix == ".json", lambda: read_sealed(file, dict[str, Any], of_document)),
        (file.name == LOG, lambda: read_log(file.parent)),
        (file.suffix == ".npy" and journal.exists(), lambda: check_blocks(file, journal, REMAKE)),
        (arrow is not None, lambda: check_arrow(arrow or file, REMAKE)),
    ]
    return next((check for applies, check in checks if applies), None)
