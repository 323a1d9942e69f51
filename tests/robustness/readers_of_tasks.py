"""Readers of the evaluation tasks' files."""

import shutil
from pathlib import Path
from typing import Any

from readers import TEXT, Reader, Shared, reader

from structviews.evaluation.senteval.tasks.finding import read_task

DATA = Path(__file__).parents[2] / "data"
FILES = {
    "MR": "MR/*",
    "SST5": "SST/fine/*",
    "TREC": "TREC/*",
    "SICK-R": "SICK/*",
    "SNLI": "SNLI/*",
    "STS-B": "STS/STSBenchmark/*",
    "STS13": "STS/STS13-en-test/*",
}


def tasks(folder: Path, shared: Shared) -> None:
    shutil.copytree(DATA / "senteval", folder, dirs_exist_ok=True)


def task_reader(task: str, files: str) -> Reader:
    # A file that does not fit another may be either.
    others = " ".join(path.name for path in DATA.joinpath("senteval").glob(files))
    return reader(TEXT, files, tasks, name=f"task-{task}", named=others)(
        lambda folder: read_task(task, folder, allow_partial=True)
    )


for each, pattern in FILES.items():
    task_reader(each, pattern)


def probing(folder: Path, shared: Shared) -> None:
    shutil.copy(DATA / "probing/length_classes.txt", folder)


@reader(TEXT, "length_classes.txt", probing)
def probing_task(folder: Path) -> Any:
    return read_task("length_classes", None, allow_partial=True, probing=folder)
