"""Find and read tasks by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from structviews.errors import InputError, unknown
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.probing import PROBING, probing_files, read_probing
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Task, TaskFolder

# Column order in tables; tasks from plug-ins follow, sorted by name.
ORDER: tuple[str, ...] = ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC", "SICK-R", "SICK-E", "SNLI")
ORDER += ("STS-B", "STS-B-cos", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK14")


def task_names() -> list[str]:
    """The registered tasks, in the column order of tables."""
    return [*(name for name in ORDER if name in TASKS), *(name for name in TASKS if name not in ORDER)]


def read_task(name: str, folder: Path | None, allow_partial: bool = False, probing: Path | None = None) -> Task:
    """Read one task: those in ``TASKS`` from a folder in SentEval's layout, all others from a folder of probing tasks.

    Args:
        name: the task's name, in any case.
        folder: the directory with ``MR/``, ``STS/`` and so on (SentEval's ``data/downstream``).
        allow_partial: accept files with fewer examples than published, and list them in ``Task.partial``.
        probing: the directory of probing tasks (SentEval's ``data/probing``), see ``probing_files``.

    Raises:
        InputError: for an unknown task, or a file that is missing, truncated, misaligned or wrongly encoded, or
            has an invalid label; the message names file and line.
    """
    (name,) = known_tasks([name], folder, probing)
    root, read = (folder, TASKS[name]) if name in TASKS else (probing, read_probing)
    return read(name, TaskFolder(Path(root or ""), allow_partial))


def known_tasks(tasks: Sequence[str], folder: Path | None, probing: Path | None = None) -> list[str]:
    """The names of tasks, given in any case.

    Raises:
        InputError: unless every task is known and the folder to read it from is given.
    """
    files = probing_files(probing) if probing else PROBING
    spelt = {name.lower(): name for name in (*files, *task_names())}
    for typed in tasks:
        name = spelt.get(typed.lower())
        if name is None:
            raise unknown("task", typed, (*task_names(), *files))
        if name in TASKS and folder is None:
            raise InputError(f"{name} is one of SentEval's tasks; give their folder with --senteval")
        if name in files and probing is None:
            raise InputError(f"{name} is a probing task; give the folder with its file with --probing")
    return [spelt[name.lower()] for name in tasks]


def none_read(folder: Path, reasons: Mapping[str, str]) -> InputError:
    """The error for a folder none of whose tasks could be read.

    Args:
        folder: the folder.
        reasons: why not, by task.
    """
    tops = {Path(file).parts[0] for file in PUBLISHED}
    if any((folder / top).is_dir() for top in tops) or reasons.keys().isdisjoint(TASKS):
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return InputError(f"no task could be read: {next(iter(reasons.values()))}{more}")
    below = (path for level in ("*", "*/*", "*/*/*") for path in sorted(folder.glob(level)))
    near = next((path for path in (folder.parent, *below) if any((path / top).is_dir() for top in tops)), None)
    remedy = f"give --senteval {near}" if near else "give the folder with MR/, SICK/, STS/, SentEval's data/downstream"
    return InputError(f"{folder}: none of SentEval's tasks is in this folder: {remedy}")
