"""SICK: relatedness, inference and cosine similarity of caption pairs."""

from collections.abc import Callable

from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import (
    PUBLISHED,
    Kind,
    Task,
    TaskFolder,
    class_of,
    pairs_of,
    score_of,
    tokens_of,
)

PUBLISHED |= {
    "SICK/SICK_train.txt": 4500,
    "SICK/SICK_trial.txt": 500,
    "SICK/SICK_test_annotated.txt": 4927,
}


def sick(kind: Kind) -> Callable[[str, TaskFolder], Task]:
    """A reader of SICK for one kind of task; ``similarity`` reads the test split only."""
    classes = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")

    parts = {"train": "train", "dev": "trial", "test": "test_annotated"}

    def target(row: list[str], place: str) -> float | int:
        return class_of(row[4].strip(), classes, place) if kind == "classification" else score_of(row[3], 1, 5, place)

    def read(name: str, folder: TaskFolder) -> Task:
        splits = {}
        for split in ("test",) if kind == "similarity" else parts:
            file = f"SICK/SICK_{parts[split]}.txt"
            rows = [
                (tokens_of(row[1]), tokens_of(row[2]), target(row, place))
                for place, row in folder.rows(file, 5, header=True)
            ]
            folder.check_complete(file, len(rows))
            splits[split] = pairs_of(rows)
        return Task(name, kind, splits, folder.checksums, folder.partial)

    return read


TASKS.add("SICK-R", sick("relatedness"))
TASKS.add("SICK-E", sick("classification"))
TASKS.add("SICK14", sick("similarity"))
