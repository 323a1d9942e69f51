"""Find and read tasks by name: those of SentEval's folder, and probing tasks, a folder with one file per task."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from structviews.errors import InputError, unknown
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Task, TaskFolder, Tokens, examples_of, tokens_of
from structviews.evaluation.senteval.tasks.structure import FILES as STRUCTURE

# Column order in tables; tasks from plug-ins follow, sorted by name.
ORDER: tuple[str, ...] = ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC", "SICK-R", "SICK-E", "SNLI")
ORDER += ("STS-B", "STS-B-cos", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK14")
ORDER += tuple(STRUCTURE)
# Probing tasks on sentence pairs.
PAIRS = ("TreeEdit",)
# SentEval's probing tasks (Conneau et al. 2018), with the names and files of senteval/probing.py, and those that
# `tasks make-probing` adds, named alike.
PROBING = {
    "Length": "sentence_length.txt",
    "WordContent": "word_content.txt",
    "Depth": "tree_depth.txt",
    "TopConstituents": "top_constituents.txt",
    "BigramShift": "bigram_shift.txt",
    "Tense": "past_present.txt",
    "SubjNumber": "subj_number.txt",
    "ObjNumber": "obj_number.txt",
    "OddManOut": "odd_man_out.txt",
    "CoordinationInversion": "coordination_inversion.txt",
    "HeadDistance": "head_distance.txt",
    "RootPosition": "root_position.txt",
    "PPAttachment": "pp_attachment.txt",
    "TreeEdit": "tree_edit.txt",
}


def task_names() -> list[str]:
    """The registered tasks, in the column order of tables."""
    return [*(name for name in ORDER if name in TASKS), *(name for name in TASKS if name not in ORDER)]


def tasks_in(folder: Path) -> list[str]:
    """The tasks that a folder may contain: SentEval's, and those of structure that it has, or these alone."""
    structure = [name for name, (file, _) in STRUCTURE.items() if (folder / file).is_file()]
    tops = {Path(file).parts[0] for file in PUBLISHED}
    if structure and not any((folder / top).is_dir() for top in tops):
        return structure
    return [name for name in task_names() if name not in STRUCTURE or name in structure]


def read_task(name: str, folder: Path | None, allow_partial: bool = False, probing: Path | None = None) -> Task:
    """Read one task: those in ``TASKS`` from a folder in SentEval's layout, all others from a folder of probing tasks.

    ``allow_partial`` accepts files with fewer examples than published, and lists them in ``Task.partial``. InputError
    for an unknown task, or for a bad file, with its line.
    """
    (name,) = known_tasks([name], folder, probing)
    root, read = (folder, TASKS[name]) if name in TASKS else (probing, read_probing)
    return read(name, TaskFolder(Path(root or ""), allow_partial))


def known_tasks(tasks: Sequence[str], folder: Path | None, probing: Path | None = None) -> list[str]:
    """The names of tasks, in any case; InputError unless each is known and the folder to read it from is there."""
    files = probing_files(probing) if probing else PROBING
    spelt = {name.lower(): name for name in (*files, *task_names())}
    # One name stands for all tasks of the folder ``structure``.
    tasks = [name for typed in tasks for name in (STRUCTURE if typed.lower() == "structure" else [typed])]
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
    """The error for a folder none of whose tasks could be read, for these reasons by task."""
    tops = {Path(file).parts[0] for file in PUBLISHED}  # folders, and the files of structure
    if any((folder / top).exists() for top in tops) or reasons.keys().isdisjoint(TASKS):
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return InputError(f"no task could be read: {next(iter(reasons.values()))}{more}")
    below = chain.from_iterable(sorted(folder.glob(level)) for level in ("*/", "*/*/", "*/*/*/"))
    near = next((path for path in chain([folder.parent], below) if any((path / top).exists() for top in tops)), None)
    if near:
        remedy = f"give --senteval {near}"
    elif reasons.keys() <= STRUCTURE.keys():
        remedy = f"give the folder with {STRUCTURE[next(iter(reasons))][0]}"
    else:
        remedy = "give the folder with MR/, SICK/, STS/, SentEval's data/downstream"
    return InputError(f"{folder}: none of these tasks is in this folder: {remedy}")


def probing_files(folder: Path) -> dict[str, str]:
    """The probing tasks in a folder: the file of each task name.

    Every ``.txt`` file is a task: those of ``PROBING`` go by the names there, others by their own file name.
    """
    try:
        found = sorted(path.name for path in Path(folder).iterdir() if path.suffix == ".txt")
    except OSError as error:
        why = (error.strerror or "cannot be read").lower()
        raise InputError(f"{folder}: {why}; give a folder of probing tasks") from None
    if not found:
        raise InputError(f"{folder}: no .txt files; give a folder of probing tasks, such as SentEval's data/probing")
    files = {name: file for name, file in PROBING.items() if file in found}
    for file in found:
        name = file.removesuffix(".txt")
        if name in TASKS or name in PROBING:
            raise InputError(f"{Path(folder) / file}: {name} is the name of another task; rename the file")
        if file not in PROBING.values():
            files[name] = file
    return files


def read_probing(name: str, folder: TaskFolder) -> Task:
    """Read tab-separated ``part, label, ..., sentence`` lines; tasks in ``PAIRS`` end with two sentences.

    The classes are the labels of the training part, sorted.
    """
    file = probing_files(folder.path)[name]
    parts = {"tr": "train", "va": "dev", "te": "test"}
    width = 2 if name in PAIRS else 1
    rows: dict[str, list[tuple[str, str, list[Tokens]]]] = {part: [] for part in parts}
    for where, row in folder.rows(file, 2 + width):
        if row[0] not in parts:
            raise InputError(f"{where}: part {row[0]!r} is not one of {', '.join(parts)}; correct it")
        rows[row[0]].append((where, row[1], [tokens_of(text) for text in row[-width:]]))
    for part, lines in rows.items():
        if not lines:
            end = f"{folder.path / file}:{sum(map(len, rows.values()))}"
            raise InputError(f"{end}: no lines of part {part!r}; download the whole file")
    classes = {label: number for number, label in enumerate(sorted({label for _, label, _ in rows["tr"]}))}
    if len(classes) < 2:
        raise InputError(f"{folder.path / file}: only one class, {next(iter(classes))!r}; a task needs at least two")
    for where, label, _ in (line for lines in rows.values() for line in lines):
        if label not in classes:
            raise InputError(f"{where}: label {label!r} does not occur in part 'tr'; correct it")
    numbered = {part: [(*texts, classes[label]) for _, label, texts in lines] for part, lines in rows.items()}
    return folder.task(name, "classification", {split: examples_of(numbered[part]) for part, split in parts.items()})
