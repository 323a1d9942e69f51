"""Semantic textual similarity: STS Benchmark and STS 2012 to 2016."""

from collections.abc import Callable
from pathlib import Path

from structviews.errors import InputError
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.reading import (
    PUBLISHED,
    Kind,
    Task,
    TaskFolder,
    pairs_of,
    score_of,
    tokens_of,
)

STS_SETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}


_STS_COUNTS = {
    "STS12": (750, 750, 459, 750, 399),
    "STS13": (189, 750, 561),
    "STS14": (450, 300, 750, 750, 750, 750),
    "STS15": (375, 750, 375, 750, 750),
    "STS16": (254, 249, 230, 244, 209),
}

PUBLISHED |= {
    "STS/STSBenchmark/sts-train.csv": 5749,
    "STS/STSBenchmark/sts-dev.csv": 1500,
    "STS/STSBenchmark/sts-test.csv": 1379,
} | {
    f"STS/{year}-en-test/STS.input.{data_set}.txt": count
    for year, data_sets in STS_SETS.items()
    for data_set, count in zip(data_sets, _STS_COUNTS[year], strict=True)
}


def sts_benchmark(kind: Kind) -> Callable[[str, TaskFolder], Task]:
    """A reader of STS Benchmark; ``similarity`` reads the test split only. Pairs without a score are skipped."""

    def read(name: str, folder: TaskFolder) -> Task:
        splits = {}
        for split in ("test",) if kind == "similarity" else ("train", "dev", "test"):
            file = f"STS/STSBenchmark/sts-{split}.csv"
            rows = [
                (tokens_of(row[5]), tokens_of(row[6]), score_of(row[4], 0, 5, place))
                for place, row in folder.rows(file, 7)
                if row[4].strip()
            ]
            folder.check_complete(file, len(rows))
            splits[split] = pairs_of(rows)
        return Task(name, kind, splits, folder.checksums, folder.partial)

    return read


def sts_year(name: str, folder: TaskFolder) -> Task:
    """Read the data sets of one year. Pairs without a score are skipped.

    Raises:
        InputError: if pairs and scores are not aligned.
    """
    splits = {}
    for data_set in STS_SETS[name]:
        texts, scores = (f"STS/{name}-en-test/STS.{part}.{data_set}.txt" for part in ("input", "gs"))
        pairs = list(folder.rows(texts, 2))
        gold = folder.lines(scores)
        if len(pairs) != len(gold):
            raise InputError(
                f"{folder.path / scores}:{len(gold)}: {len(gold)} scores, but {len(pairs)} pairs in "
                f"{Path(texts).name}; the files must be aligned line by line"
            )
        rows = [
            (tokens_of(row[0]), tokens_of(row[1]), score_of(score, 0, 5, f"{folder.path / scores}:{number}"))
            for number, ((_, row), score) in enumerate(zip(pairs, gold, strict=True), 1)
            if score.strip()
        ]
        folder.check_complete(texts, len(rows))
        splits[data_set] = pairs_of(rows)
    return Task(name, "similarity", splits, folder.checksums, folder.partial)


TASKS.add("STS-B", sts_benchmark("relatedness"))
TASKS.add("STS-B-cos", sts_benchmark("similarity"))
for year in STS_SETS:
    TASKS.add(year, sts_year)
