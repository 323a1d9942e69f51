"""The Stanford Sentiment Treebank, with two classes and with five."""

from collections.abc import Callable, Iterator

from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import PUBLISHED, Task, TaskFolder, class_of, singles_of, tokens_of

PUBLISHED |= {
    "SST/binary/sentiment-train": 67349,
    "SST/binary/sentiment-dev": 872,
    "SST/binary/sentiment-test": 1821,
    "SST/fine/sentiment-train": 8544,
    "SST/fine/sentiment-dev": 1101,
    "SST/fine/sentiment-test": 2210,
}


def sst(kind: str, classes: tuple[str, ...]) -> Callable[[str, TaskFolder], Task]:
    """A reader of SST: ``kind`` is ``binary`` or ``fine``, ``classes`` are its labels."""

    def rows(folder: TaskFolder, file: str) -> Iterator[tuple[str, str, str]]:
        """Location, sentence and label; the label comes last in the binary files and first in the fine ones."""
        if kind == "binary":
            yield from ((place, row[0], row[1].strip()) for place, row in folder.rows(file, 2))
            return
        for number, line in enumerate(folder.lines(file), 1):
            label, _, sentence = line.strip().partition(" ")
            yield f"{folder.path / file}:{number}", sentence, label

    def read(name: str, folder: TaskFolder) -> Task:
        splits = {}
        for split in ("train", "dev", "test"):
            file = f"SST/{kind}/sentiment-{split}"
            examples = [(tokens_of(text), class_of(label, classes, place)) for place, text, label in rows(folder, file)]
            folder.check_complete(file, len(examples))
            splits[split] = singles_of(examples)
        return Task(name, "classification", splits, folder.checksums, folder.partial)

    return read


TASKS.add("SST2", sst("binary", ("0", "1")))
TASKS.add("SST5", sst("fine", ("0", "1", "2", "3", "4")))
