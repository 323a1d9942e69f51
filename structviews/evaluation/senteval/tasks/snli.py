"""SNLI: natural language inference between captions."""

from pathlib import Path

from structviews.errors import InputError
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Task, TaskFolder, class_of, pairs_of, tokens_of

PUBLISHED |= {
    "SNLI/s1.train": 549367,
    "SNLI/s1.dev": 9842,
    "SNLI/s1.test": 9824,
}


@TASKS.register("SNLI")
def snli(name: str, folder: TaskFolder) -> Task:
    """Read SNLI from its line-aligned files ``s1``, ``s2`` and ``labels``."""
    classes = ("entailment", "neutral", "contradiction")
    splits = {}
    for split in ("train", "dev", "test"):
        files = [f"SNLI/{part}.{split}" for part in ("s1", "s2", "labels")]
        first, second, labels = (folder.lines(file) for file in files)
        for file, lines in zip(files[1:], (second, labels), strict=True):
            if len(lines) != len(first):
                raise InputError(
                    f"{folder.path / file}:{len(lines)}: {len(lines)} lines, but {len(first)} in "
                    f"{Path(files[0]).name}; the files must be aligned line by line"
                )
        folder.check_complete(files[0], len(first))
        rows = [
            (tokens_of(u), tokens_of(v), class_of(label.strip(), classes, f"{folder.path / files[2]}:{number}"))
            for number, (u, v, label) in enumerate(zip(first, second, labels, strict=True), 1)
        ]
        splits[split] = pairs_of(rows)
    return Task(name, "classification", splits, folder.checksums, folder.partial, inference=True)
