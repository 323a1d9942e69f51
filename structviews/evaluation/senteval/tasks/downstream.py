"""SentEval's downstream tasks: MR, CR, SUBJ, MPQA, SST and TREC on sentences; MRPC, SICK, SNLI and STS on pairs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from structviews.errors import InputError
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import (
    PUBLISHED,
    Kind,
    Task,
    TaskFolder,
    class_of,
    examples_of,
    score_of,
    tokens_of,
)

# The data sets of each year, with their numbers of pairs with a score.
STS_SETS = {
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {"deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750, "tweet-news": 750},
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {"answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244, "question-question": 209},
}
Reader = Callable[[str, TaskFolder], Task]


def files_of(pattern: str, counts: dict[str, int]) -> dict[str, str]:
    """The file of each split, which is in its name; ``counts`` has their published numbers of examples."""
    files = {split: pattern.format(split) for split in counts}
    PUBLISHED.update(zip(files.values(), counts.values(), strict=True))
    return files


SST2 = files_of("SST/binary/sentiment-{}", {"train": 67349, "dev": 872, "test": 1821})
SST5 = files_of("SST/fine/sentiment-{}", {"train": 8544, "dev": 1101, "test": 2210})
MRPC = files_of("MRPC/msr_paraphrase_{}.txt", {"train": 4076, "test": 1725})
SNLI = files_of("SNLI/s1.{}", {"train": 549367, "dev": 9842, "test": 9824})
STS_B = files_of("STS/STSBenchmark/sts-{}.csv", {"train": 5749, "dev": 1500, "test": 1379})
STS = {year: files_of(f"STS/{year}-en-test/STS.input.{{}}.txt", counts) for year, counts in STS_SETS.items()}
# A data set of 2013 that SentEval lacks, since its licence does not let it be given away; read where it is there.
SMT = "SMT"
STS13_SMT = files_of("STS/STS13-en-test/STS.input.{}.txt", {SMT: 750})
TREC = {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"}
SICK = {"train": "SICK/SICK_train.txt", "dev": "SICK/SICK_trial.txt", "test": "SICK/SICK_test_annotated.txt"}
PUBLISHED |= zip((*TREC.values(), *SICK.values()), (5452, 500, 4500, 500, 4927), strict=True)


def file_per_class(positive: str, negative: str, counts: tuple[int, int]) -> Reader:
    """A reader of a binary task with a file for each class; sentences of ``positive`` are class 1."""
    PUBLISHED.update(zip((positive, negative), counts, strict=True))

    def read(name: str, folder: TaskFolder) -> Task:
        rows = []
        for file, label in ((positive, 1), (negative, 0)):
            lines = folder.lines(file, "latin-1")
            folder.check_complete(file, len(lines))
            rows += [(tokens_of(line), label) for _, line in lines]
        return folder.task(name, "classification", {"all": examples_of(rows)})

    return read


def tab_separated(
    kind: Kind,
    files: dict[str, str],
    columns: int,
    sentences: Sequence[int],
    target: int,
    *,
    classes: tuple[str, ...] = (),
    scores: tuple[float, float] = (0, 5),
    header: bool = False,
    gaps: bool = False,
    **options: Any,
) -> Reader:
    """A reader of tab-separated files, one for each split; ``options`` are further attributes of ``Task``.

    Rows have at least so many ``columns``; ``sentences`` and ``target`` are those of the one or two sentences and of
    the class or score. If there are ``gaps``, rows without a target are skipped.
    """

    def read(name: str, folder: TaskFolder) -> Task:
        def rows(file: str) -> Iterator[tuple[Any, ...]]:
            for where, row in folder.rows(file, columns, header):
                if (text := row[target].strip()) or not gaps:
                    value = class_of(text, classes, where) if classes else score_of(text, *scores, where)
                    yield *(tokens_of(row[i]) for i in sentences), value

        return folder.task(name, kind, folder.splits(files, rows), **options)

    return read


@TASKS.register("SST5")
def sst5(name: str, folder: TaskFolder) -> Task:
    """Read the Stanford Sentiment Treebank with five classes: the label, a space, the sentence."""

    def rows(file: str) -> Iterator[tuple[Any, ...]]:
        for where, line in folder.lines(file):
            label, _, sentence = line.strip().partition(" ")
            yield tokens_of(sentence), class_of(label, ("0", "1", "2", "3", "4"), where)

    return folder.task(name, "classification", folder.splits(SST5, rows))


@TASKS.register("TREC")
def trec(name: str, folder: TaskFolder) -> Task:
    """Read TREC with its six coarse classes: lines ``CLASS:subclass question``."""
    classes = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

    def rows(file: str) -> Iterator[tuple[Any, ...]]:
        for where, line in folder.lines(file, "latin-1"):
            label, colon, rest = line.partition(":")
            _, space, question = rest.partition(" ")
            if not colon or not space:
                raise InputError(f"{where}: not of the form CLASS:subclass question; fix or remove the line")
            yield tokens_of(question), class_of(label, classes, where)

    return folder.task(name, "classification", folder.splits(TREC, rows))


@TASKS.register("SNLI")
def snli(name: str, folder: TaskFolder) -> Task:
    """Read SNLI, inference between captions, from its line-aligned files ``s1``, ``s2`` and ``labels``."""
    classes = ("entailment", "neutral", "contradiction")

    def rows(file: str) -> Iterator[tuple[Any, ...]]:
        files = [file.replace("/s1.", f"/{part}.") for part in ("s1", "s2", "labels")]
        first, second, labels = map(folder.lines, files)
        folder.check_aligned(file, len(first), files[1], len(second))
        folder.check_aligned(file, len(first), files[2], len(labels))
        for (_, u), (_, v), (where, label) in zip(first, second, labels, strict=True):
            yield tokens_of(u), tokens_of(v), class_of(label.strip(), classes, where)

    return folder.task(name, "classification", folder.splits(SNLI, rows), inference=True)


def sts_year(name: str, folder: TaskFolder) -> Task:
    """Read the data sets of one year, pairs and scores in files of their own. Pairs without a score are skipped."""

    def rows(file: str) -> Iterator[tuple[Any, ...]]:
        scores = file.replace("STS.input.", "STS.gs.")
        pairs, gold = list(folder.rows(file, 2)), folder.lines(scores)
        folder.check_aligned(file, len(pairs), scores, len(gold))
        for (_, row), (where, score) in zip(pairs, gold, strict=True):
            if score.strip():
                yield tokens_of(row[0]), tokens_of(row[1]), score_of(score, 0, 5, where)

    also = STS13_SMT if name == "STS13" and (folder.path / STS13_SMT[SMT]).is_file() else {}
    return folder.task(name, "similarity", folder.splits(STS[name] | also, rows))


ENTAILMENT = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
for task, reader in {
    "MR": file_per_class("MR/rt-polarity.pos", "MR/rt-polarity.neg", (5331, 5331)),
    "CR": file_per_class("CR/custrev.pos", "CR/custrev.neg", (2406, 1366)),
    # SentEval's order: its class 1 is "objective".
    "SUBJ": file_per_class("SUBJ/subj.objective", "SUBJ/subj.subjective", (5000, 5000)),
    "MPQA": file_per_class("MPQA/mpqa.pos", "MPQA/mpqa.neg", (3311, 7293)),
    "SST2": tab_separated("classification", SST2, 2, (0,), 1, classes=("0", "1")),
    "MRPC": tab_separated(
        "classification", MRPC, 5, (3, 4), 0, classes=("0", "1"), header=True, metrics=("accuracy", "f1")
    ),
    "SICK-R": tab_separated("relatedness", SICK, 5, (1, 2), 3, scores=(1, 5), header=True),
    "SICK-E": tab_separated("classification", SICK, 5, (1, 2), 4, classes=ENTAILMENT, header=True),
    "SICK14": tab_separated("similarity", {"test": SICK["test"]}, 5, (1, 2), 3, scores=(1, 5), header=True),
    "STS-B": tab_separated("relatedness", STS_B, 7, (5, 6), 4, gaps=True),
    "STS-B-cos": tab_separated("similarity", {"test": STS_B["test"]}, 7, (5, 6), 4, gaps=True),
    **dict.fromkeys(STS_SETS, sts_year),
}.items():
    TASKS.register(task, reader)
