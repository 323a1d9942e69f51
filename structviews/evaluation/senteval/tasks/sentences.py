"""Tasks on single sentences: MR, CR, SUBJ, MPQA, SST and TREC."""

from collections.abc import Callable

from structviews.errors import InputError
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import (
    PUBLISHED,
    Task,
    TaskFolder,
    Tokens,
    class_of,
    examples_of,
    tokens_of,
)

PUBLISHED |= {
    "MR/rt-polarity.pos": 5331,
    "MR/rt-polarity.neg": 5331,
    "CR/custrev.pos": 2406,
    "CR/custrev.neg": 1366,
    "SUBJ/subj.subjective": 5000,
    "SUBJ/subj.objective": 5000,
    "MPQA/mpqa.pos": 3311,
    "MPQA/mpqa.neg": 7293,
    "SST/binary/sentiment-train": 67349,
    "SST/binary/sentiment-dev": 872,
    "SST/binary/sentiment-test": 1821,
    "SST/fine/sentiment-train": 8544,
    "SST/fine/sentiment-dev": 1101,
    "SST/fine/sentiment-test": 2210,
    "TREC/train_5500.label": 5452,
    "TREC/TREC_10.label": 500,
}


def two_files(positive: str, negative: str) -> Callable[[str, TaskFolder], Task]:
    """A reader of a binary task with a file for each class; sentences of ``positive`` are class 1."""

    def read(name: str, folder: TaskFolder) -> Task:
        rows = []
        for file, label in ((positive, 1), (negative, 0)):
            sentences = [(tokens_of(line), label) for line in folder.lines(file, "latin-1")]
            folder.check_complete(file, len(sentences))
            rows += sentences
        return folder.task(name, "classification", {"all": examples_of(rows)})

    return read


def sst(kind: str, classes: tuple[str, ...]) -> Callable[[str, TaskFolder], Task]:
    """A reader of the Stanford Sentiment Treebank: ``kind`` is ``binary`` or ``fine``, ``classes`` are its labels."""

    def rows(folder: TaskFolder, file: str) -> list[tuple[Tokens, int]]:
        """The label comes last in the binary files and first in the fine ones."""
        if kind == "binary":
            return [
                (tokens_of(row[0]), class_of(row[1].strip(), classes, where)) for where, row in folder.rows(file, 2)
            ]
        examples = []
        for number, line in enumerate(folder.lines(file), 1):
            label, _, sentence = line.strip().partition(" ")
            examples.append((tokens_of(sentence), class_of(label, classes, f"{folder.path / file}:{number}")))
        return examples

    files = {split: f"SST/{kind}/sentiment-{split}" for split in ("train", "dev", "test")}
    return lambda name, folder: folder.task(
        name, "classification", folder.splits(files, lambda file: rows(folder, file))
    )


@TASKS.register("TREC")
def trec(name: str, folder: TaskFolder) -> Task:
    """Read TREC with its six coarse classes.

    Raises:
        InputError: for a line not of the form ``CLASS:subclass question``.
    """
    classes = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

    def rows(file: str) -> list[tuple[Tokens, int]]:
        examples = []
        for number, line in enumerate(folder.lines(file, "latin-1"), 1):
            where = f"{folder.path / file}:{number}"
            label, colon, rest = line.partition(":")
            _, space, question = rest.partition(" ")
            if not colon or not space:
                raise InputError(f"{where}: not of the form CLASS:subclass question; fix or remove the line")
            examples.append((tokens_of(question), class_of(label, classes, where)))
        return examples

    files = {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"}
    return folder.task(name, "classification", folder.splits(files, rows))


TASKS.add("MR", two_files("MR/rt-polarity.pos", "MR/rt-polarity.neg"))
TASKS.add("CR", two_files("CR/custrev.pos", "CR/custrev.neg"))
# SentEval's order: its class 1 is "objective".
TASKS.add("SUBJ", two_files("SUBJ/subj.objective", "SUBJ/subj.subjective"))
TASKS.add("MPQA", two_files("MPQA/mpqa.pos", "MPQA/mpqa.neg"))
TASKS.add("SST2", sst("binary", ("0", "1")))
TASKS.add("SST5", sst("fine", ("0", "1", "2", "3", "4")))
