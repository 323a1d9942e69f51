"""Tasks on pairs of sentences: MRPC, SICK, SNLI, and STS."""

from collections.abc import Callable
from pathlib import Path

from structviews.errors import InputError
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import (
    PUBLISHED,
    Kind,
    Task,
    TaskFolder,
    Tokens,
    class_of,
    score_of,
    tokens_of,
)

Pairs = list[tuple[Tokens, Tokens, float]]
STS_SETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
STS_COUNTS = {
    "STS12": (750, 750, 459, 750, 399),
    "STS13": (189, 750, 561),
    "STS14": (450, 300, 750, 750, 750, 750),
    "STS15": (375, 750, 375, 750, 750),
    "STS16": (254, 249, 230, 244, 209),
}
PUBLISHED |= {
    "MRPC/msr_paraphrase_train.txt": 4076,
    "MRPC/msr_paraphrase_test.txt": 1725,
    "SICK/SICK_train.txt": 4500,
    "SICK/SICK_trial.txt": 500,
    "SICK/SICK_test_annotated.txt": 4927,
    "SNLI/s1.train": 549367,
    "SNLI/s1.dev": 9842,
    "SNLI/s1.test": 9824,
    "STS/STSBenchmark/sts-train.csv": 5749,
    "STS/STSBenchmark/sts-dev.csv": 1500,
    "STS/STSBenchmark/sts-test.csv": 1379,
} | {
    f"STS/{year}-en-test/STS.input.{data_set}.txt": count
    for year, data_sets in STS_SETS.items()
    for data_set, count in zip(data_sets, STS_COUNTS[year], strict=True)
}


@TASKS.register("MRPC")
def mrpc(name: str, folder: TaskFolder) -> Task:
    """Read MRPC, paraphrase detection in news; scored by accuracy and F1."""

    def rows(file: str) -> Pairs:
        lines = folder.rows(file, 5, header=True)
        return [(tokens_of(row[3]), tokens_of(row[4]), class_of(row[0], ("0", "1"), where)) for where, row in lines]

    files = {split: f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")}
    return folder.task(name, "classification", folder.splits(files, rows), metrics=("accuracy", "f1"))


def sick(kind: Kind) -> Callable[[str, TaskFolder], Task]:
    """A reader of SICK, pairs of captions, for one kind of task; ``similarity`` reads the test split only."""
    classes = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
    files = {"train": "SICK/SICK_train.txt", "dev": "SICK/SICK_trial.txt", "test": "SICK/SICK_test_annotated.txt"}
    if kind == "similarity":
        files = {"test": files["test"]}

    def target(row: list[str], where: str) -> float:
        return class_of(row[4].strip(), classes, where) if kind == "classification" else score_of(row[3], 1, 5, where)

    def read(name: str, folder: TaskFolder) -> Task:
        def rows(file: str) -> Pairs:
            lines = folder.rows(file, 5, header=True)
            return [(tokens_of(row[1]), tokens_of(row[2]), target(row, where)) for where, row in lines]

        return folder.task(name, kind, folder.splits(files, rows))

    return read


@TASKS.register("SNLI")
def snli(name: str, folder: TaskFolder) -> Task:
    """Read SNLI, inference between captions, from its line-aligned files ``s1``, ``s2`` and ``labels``."""
    classes = ("entailment", "neutral", "contradiction")

    def rows(file: str) -> Pairs:
        others = [file.replace("/s1.", f"/{name}.") for name in ("s2", "labels")]
        first, second, labels = (folder.lines(each) for each in (file, *others))
        for other, lines in zip(others, (second, labels), strict=True):
            if len(lines) != len(first):
                raise InputError(
                    f"{folder.path / other}:{len(lines)}: {len(lines)} lines, but {len(first)} in "
                    f"{Path(file).name}; the files must be aligned line by line"
                )
        return [
            (tokens_of(u), tokens_of(v), class_of(label.strip(), classes, f"{folder.path / others[1]}:{number}"))
            for number, (u, v, label) in enumerate(zip(first, second, labels, strict=True), 1)
        ]

    files = {split: f"SNLI/s1.{split}" for split in ("train", "dev", "test")}
    return folder.task(name, "classification", folder.splits(files, rows), inference=True)


def sts_benchmark(kind: Kind) -> Callable[[str, TaskFolder], Task]:
    """A reader of STS Benchmark; ``similarity`` reads the test split only. Pairs without a score are skipped."""
    splits = ("test",) if kind == "similarity" else ("train", "dev", "test")

    def read(name: str, folder: TaskFolder) -> Task:
        def rows(file: str) -> Pairs:
            return [
                (tokens_of(row[5]), tokens_of(row[6]), score_of(row[4], 0, 5, where))
                for where, row in folder.rows(file, 7)
                if row[4].strip()
            ]

        files = {split: f"STS/STSBenchmark/sts-{split}.csv" for split in splits}
        return folder.task(name, kind, folder.splits(files, rows))

    return read


def sts_year(name: str, folder: TaskFolder) -> Task:
    """Read the data sets of one year. Pairs without a score are skipped.

    Raises:
        InputError: if pairs and scores are not aligned.
    """

    def rows(file: str) -> Pairs:
        scores = file.replace("STS.input.", "STS.gs.")
        pairs, gold = list(folder.rows(file, 2)), folder.lines(scores)
        if len(pairs) != len(gold):
            raise InputError(
                f"{folder.path / scores}:{len(gold)}: {len(gold)} scores, but {len(pairs)} pairs in "
                f"{Path(file).name}; the files must be aligned line by line"
            )
        return [
            (tokens_of(row[0]), tokens_of(row[1]), score_of(score, 0, 5, f"{folder.path / scores}:{number}"))
            for number, ((_, row), score) in enumerate(zip(pairs, gold, strict=True), 1)
            if score.strip()
        ]

    files = {data_set: f"STS/{name}-en-test/STS.input.{data_set}.txt" for data_set in STS_SETS[name]}
    return folder.task(name, "similarity", folder.splits(files, rows))


TASKS.add("SICK-R", sick("relatedness"))
TASKS.add("SICK-E", sick("classification"))
TASKS.add("SICK14", sick("similarity"))
TASKS.add("STS-B", sts_benchmark("relatedness"))
TASKS.add("STS-B-cos", sts_benchmark("similarity"))
for year in STS_SETS:
    TASKS.add(year, sts_year)
