"""TREC: question type classification."""

from structviews.errors import InputError
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Task, TaskFolder, class_of, singles_of, tokens_of

PUBLISHED |= {
    "TREC/train_5500.label": 5452,
    "TREC/TREC_10.label": 500,
}


@TASKS.register("TREC")
def trec(name: str, folder: TaskFolder) -> Task:
    """Read TREC with its six coarse classes.

    Raises:
        InputError: for a line not of the form ``CLASS:subclass question``.
    """
    classes = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    splits = {}
    for split, file in (("train", "TREC/train_5500.label"), ("test", "TREC/TREC_10.label")):
        rows = []
        for number, line in enumerate(folder.lines(file, "latin-1"), 1):
            place = f"{folder.path / file}:{number}"
            label, colon, rest = line.partition(":")
            _, space, question = rest.partition(" ")
            if not colon or not space:
                raise InputError(f"{place}: not of the form CLASS:subclass question; fix or remove the line")
            rows.append((tokens_of(question), class_of(label, classes, place)))
        folder.check_complete(file, len(rows))
        splits[split] = singles_of(rows)
    return Task(name, "classification", splits, folder.checksums, folder.partial)
