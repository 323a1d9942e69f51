"""Probing tasks: a folder with one file per task."""

from pathlib import Path

from structviews.errors import InputError
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import Task, TaskFolder, Tokens, examples_of, tokens_of

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


def probing_files(folder: Path) -> dict[str, str]:
    """The probing tasks in a folder: the file of each task name.

    Every ``.txt`` file is a task: those of ``PROBING`` go by the names there, others by their own file name.

    Raises:
        InputError: if the folder does not exist or has no ``.txt`` file, or a file is named like another task.
    """
    try:
        found = sorted(path.name for path in Path(folder).iterdir() if path.suffix == ".txt")
    except OSError as error:
        raise InputError(
            f"{folder}: {(error.strerror or 'cannot be read').lower()}; give a folder of probing tasks"
        ) from None
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

    Raises:
        InputError: for an unknown part or label, a missing part, or a single class.
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
    splits = {
        split: examples_of([(*texts, classes[label]) for _, label, texts in rows[part]])
        for part, split in parts.items()
    }
    return folder.task(name, "classification", splits)
