"""data/ holds what its README says, in the formats that the commands read."""

import re
from pathlib import Path

import pytest

from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.parsing.sources import open_source
from structviews.parsing.treebank import read_treebank

DATA = Path(__file__).parents[1] / "data"
README = (DATA / "README.md").read_text("utf-8")


def numbers(line):
    """The numbers of a row of the README's first table."""
    (row,) = re.findall(rf"^\| \[`{line}`\].*$", README, re.MULTILINE)
    return [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) (?:sentences|documents)", row)]


def test_the_corpus():
    source = open_source(
        [str(DATA / "corpus.txt")], parser="trivial:balanced", layout=None, tokenised=False, max_tokens=120
    )
    text = (DATA / "corpus.txt").read_text("ascii")
    documents = [part for part in text.split("\n\n") if part.strip()]
    sentences = [line for line in text.splitlines() if line.strip()]
    assert [len(sentences), len(documents)] == numbers("corpus.txt")
    assert "one sentence per line" in source.note


def test_the_treebank():
    sentences = list(read_treebank([DATA / "treebank/sample.conllu", DATA / "treebank/sample.ptb"]))
    assert [len(sentences), len({each.document for each in sentences})] == numbers("treebank/")
    assert all(each.sentence.has_dependencies and each.sentence.has_constituents for each in sentences)


@pytest.mark.parametrize("name", ["MR", "SST2", "SST5", "TREC", "MRPC", "SICK-R", "SICK-E", "SNLI", "STS-B", "STS13"])
def test_a_task_of_each_format(name):
    assert name in TASKS
    task = read_task(name, DATA / "senteval", allow_partial=True)
    assert all(len(examples) for examples in task.splits.values())


def test_the_probing_task():
    task = read_task("length_classes", None, probing=DATA / "probing")
    assert {split: len(examples) for split, examples in task.splits.items()} == {"train": 180, "dev": 60, "test": 60}
