"""Readers of SentEval's task folders (Conneau and Kiela, 2018).

SentEval's download script tokenises every file (PTB or Moses tokens, apart with spaces) and its readers
split them on white space. So do these: every sentence here is a tuple of the task's own tokens.
"""

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from structviews.errors import InputError

Tokens = tuple[str, ...]
Kind = Literal["classification", "relatedness", "similarity"]


@dataclass(frozen=True)
class Examples:
    """``n`` sentences, or pairs of sentences, and what they should be given.

    Attributes:
        first: ``n`` sentences.
        second: ``n`` sentences, or empty where an example is a single sentence.
        targets: (n,) int64 classes from 0, or float64 gold scores.
    """

    first: tuple[Tokens, ...]
    second: tuple[Tokens, ...]
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Task:
    """One task as its files have it.

    Attributes:
        name: such as ``SICK-R``.
        kind: ``classification``, ``relatedness`` (supervised scores) or ``similarity`` (unsupervised).
        splits: ``all``, or ``train`` and ``test``, or ``train``, ``dev`` and ``test``; for similarity the
            data sets of the year.
        checksums: SHA-256 of every file, by its path in the folder.
        partial: files that hold fewer examples than published, each with its counts; only filled when
            incomplete tasks were asked for.
        metrics: what a classification task is scored by.
        inference: a pair's features are those of SentEval's ``snli.py``: both vectors, their product and difference.
    """

    name: str
    kind: Kind
    splits: dict[str, Examples]
    checksums: dict[str, str]
    partial: dict[str, str]
    metrics: tuple[str, ...] = ("accuracy",)
    inference: bool = False

    def sentences(self) -> list[Tokens]:
        """The distinct sentences in order of appearance: split by split, first sentences before second ones."""
        parts = (part for examples in self.splits.values() for part in (examples.first, examples.second))
        return list(dict.fromkeys(sentence for part in parts for sentence in part))


@dataclass
class _Folder:
    """A SentEval folder; remembers what was read from it."""

    path: Path
    allow_partial: bool
    checksums: dict[str, str] = field(default_factory=dict)
    partial: dict[str, str] = field(default_factory=dict)

    def lines(self, name: str, encoding: str = "utf-8-sig") -> list[str]:
        """The lines of a file; only a newline ends a line, whatever Unicode says. A carriage return stays."""
        path = self.path / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}; add the file") from None
        self.checksums[name] = hashlib.sha256(data).hexdigest()
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(f"{path}:{line}: byte {error.start} is not UTF-8; convert the file") from None
        if "\0" in text:
            line = text.count("\n", 0, text.index("\0")) + 1
            raise InputError(f"{path}:{line}: a zero byte, so not text in {encoding}; convert the file")
        lines = text.split("\n")
        return lines if lines[-1] else lines[:-1]

    def rows(self, name: str, columns: int, header: bool = False) -> Iterator[tuple[str, list[str]]]:
        """The tab-separated rows of a file, each with its place, ``file:line``."""
        for number, line in enumerate(self.lines(name), 1):
            place = f"{self.path / name}:{number}"
            row = line.split("\t")
            if len(row) < columns:
                raise InputError(f"{place}: {len(row)} tab-separated columns of {columns}; mend or remove the line")
            if number > 1 or not header:
                yield place, row

    def check_complete(self, name: str, examples: int) -> None:
        """Refuse a file that was cut short. Copies in circulation differ by a few lines, so 1 % is allowed."""
        published = PUBLISHED[name]
        if not examples:
            raise InputError(f"{self.path / name}:1: no examples; fetch the whole file")
        if examples >= 0.99 * published:
            return
        counts = f"{examples:,} of {published:,} examples"
        if not self.allow_partial:
            raise InputError(
                f"{self.path / name}:{len(self.lines(name))}: the file ends after {counts}; fetch the whole file, "
                "or score what there is with --partial"
            )
        self.partial[name] = counts


def read_task(name: str, folder: Path | None, allow_partial: bool = False, probing: Path | None = None) -> Task:
    """Read one task: of ``TASKS`` from a folder in SentEval's layout, any other from a folder of probing tasks.

    Args:
        name: the task.
        folder: the directory that holds ``MR/``, ``STS/`` and so on (SentEval's ``data/downstream``).
        allow_partial: accept files with fewer examples than published, noting them in ``Task.partial``.
        probing: the directory of probing tasks (SentEval's ``data/probing``), see ``probing_files``.

    Raises:
        InputError: for an unknown task, or a file that is missing, cut short, misaligned, wrongly encoded
            or has an impossible label; the message names file and line.
    """
    check_tasks([name], folder, probing)
    root, read = (folder, TASKS[name]) if name in TASKS else (probing, _probing)
    return read(name, _Folder(Path(root or ""), allow_partial))


def check_tasks(tasks: Sequence[str], folder: Path | None, probing: Path | None = None) -> None:
    """Raise InputError unless every name is a known task, and there is a folder to read it from."""
    files = probing_files(probing) if probing else PROBING
    for name in tasks:
        if name not in TASKS and name not in files:
            raise InputError(f"unknown task {name!r}; known are {', '.join((*TASKS, *files))}")
        if name in TASKS and folder is None:
            raise InputError(f"{name}: one of SentEval's tasks; give the folder that has them with --senteval")
        if name in files and probing is None:
            raise InputError(f"{name}: a probing task; give the folder that has its file with --probing")


def probing_files(folder: Path) -> dict[str, str]:
    """The probing tasks in a folder, and the file of each.

    Every ``.txt`` is one: SentEval's ten files under SentEval's names, any other under the file's own name.

    Raises:
        InputError: if the folder does not exist, has no ``.txt``, or one that is called like another task.
    """
    try:
        found = sorted(path.name for path in Path(folder).iterdir() if path.suffix == ".txt")
    except OSError as error:
        raise InputError(
            f"{folder}: {(error.strerror or 'cannot be read').lower()}; give a folder of probing tasks"
        ) from None
    if not found:
        raise InputError(f"{folder}: no .txt in it; give a folder of probing tasks, such as SentEval's data/probing")
    files = {name: file for name, file in PROBING.items() if file in found}
    for file in found:
        name = file.removesuffix(".txt")
        if name in TASKS or name in PROBING:
            raise InputError(f"{Path(folder) / file}: {name} is the name of another task; give the file another name")
        if file not in PROBING.values():
            files[name] = file
    return files


def _tokens(text: str) -> Tokens:
    # SentEval's own encoders give an empty sentence a full stop. One string for a word, however often it occurs:
    # the probing tasks have millions of words.
    return tuple(map(sys.intern, text.split())) or (".",)


def _class(label: str, classes: tuple[str, ...], place: str) -> int:
    if label not in classes:
        raise InputError(f"{place}: label {label!r} is not one of {', '.join(classes)}; correct it")
    return classes.index(label)


def _score(text: str, low: float, high: float, place: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not low <= score <= high:
        raise InputError(f"{place}: score {text!r} is not a number from {low:g} to {high:g}; correct it")
    return score


def _examples(rows: list[tuple[Tokens, Tokens, float]] | list[tuple[Tokens, Tokens, int]]) -> Examples:
    first, second, targets = zip(*rows, strict=True)
    return Examples(first, second, np.array(targets))


def _singles(rows: list[tuple[Tokens, int]]) -> Examples:
    sentences, labels = zip(*rows, strict=True)
    return Examples(sentences, (), np.array(labels, dtype=np.int64))


def _two_files(positive: str, negative: str) -> Callable[[str, _Folder], Task]:
    def read(name: str, folder: _Folder) -> Task:
        rows = []
        for file, label in ((positive, 1), (negative, 0)):
            sentences = [(_tokens(line), label) for line in folder.lines(file, "latin-1")]
            folder.check_complete(file, len(sentences))
            rows += sentences
        return Task(name, "classification", {"all": _singles(rows)}, folder.checksums, folder.partial)

    return read


def _sst(kind: str, classes: tuple[str, ...]) -> Callable[[str, _Folder], Task]:
    def rows(folder: _Folder, file: str) -> Iterator[tuple[str, str, str]]:
        """Place, sentence and label; the binary files have the label last, the fine ones first."""
        if kind == "binary":
            yield from ((place, row[0], row[1].strip()) for place, row in folder.rows(file, 2))
            return
        for number, line in enumerate(folder.lines(file), 1):
            label, _, sentence = line.strip().partition(" ")
            yield f"{folder.path / file}:{number}", sentence, label

    def read(name: str, folder: _Folder) -> Task:
        splits = {}
        for split in ("train", "dev", "test"):
            file = f"SST/{kind}/sentiment-{split}"
            examples = [(_tokens(text), _class(label, classes, place)) for place, text, label in rows(folder, file)]
            folder.check_complete(file, len(examples))
            splits[split] = _singles(examples)
        return Task(name, "classification", splits, folder.checksums, folder.partial)

    return read


def _trec(name: str, folder: _Folder) -> Task:
    classes = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    splits = {}
    for split, file in (("train", "TREC/train_5500.label"), ("test", "TREC/TREC_10.label")):
        rows = []
        for number, line in enumerate(folder.lines(file, "latin-1"), 1):
            place = f"{folder.path / file}:{number}"
            label, colon, rest = line.partition(":")
            _, space, question = rest.partition(" ")
            if not colon or not space:
                raise InputError(f"{place}: not of the form CLASS:subclass question; mend or remove the line")
            rows.append((_tokens(question), _class(label, classes, place)))
        folder.check_complete(file, len(rows))
        splits[split] = _singles(rows)
    return Task(name, "classification", splits, folder.checksums, folder.partial)


def _mrpc(name: str, folder: _Folder) -> Task:
    splits = {}
    for split in ("train", "test"):
        file = f"MRPC/msr_paraphrase_{split}.txt"
        rows = [
            (_tokens(row[3]), _tokens(row[4]), _class(row[0], ("0", "1"), place))
            for place, row in folder.rows(file, 5, header=True)
        ]
        folder.check_complete(file, len(rows))
        splits[split] = _examples(rows)
    return Task(name, "classification", splits, folder.checksums, folder.partial, metrics=("accuracy", "f1"))


def _snli(name: str, folder: _Folder) -> Task:
    classes = ("entailment", "neutral", "contradiction")
    splits = {}
    for split in ("train", "dev", "test"):
        files = [f"SNLI/{part}.{split}" for part in ("s1", "s2", "labels")]
        first, second, labels = (folder.lines(file) for file in files)
        for file, lines in zip(files[1:], (second, labels), strict=True):
            if len(lines) != len(first):
                raise InputError(
                    f"{folder.path / file}:{len(lines)}: {len(lines)} lines for {len(first)} in {Path(files[0]).name}; "
                    "line i of one belongs to line i of the other"
                )
        folder.check_complete(files[0], len(first))
        rows = [
            (_tokens(u), _tokens(v), _class(label.strip(), classes, f"{folder.path / files[2]}:{number}"))
            for number, (u, v, label) in enumerate(zip(first, second, labels, strict=True), 1)
        ]
        splits[split] = _examples(rows)
    return Task(name, "classification", splits, folder.checksums, folder.partial, inference=True)


def _sick(kind: Kind) -> Callable[[str, _Folder], Task]:
    classes = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")

    parts = {"train": "train", "dev": "trial", "test": "test_annotated"}

    def target(row: list[str], place: str) -> float | int:
        return _class(row[4].strip(), classes, place) if kind == "classification" else _score(row[3], 1, 5, place)

    def read(name: str, folder: _Folder) -> Task:
        splits = {}
        for split in ("test",) if kind == "similarity" else parts:
            file = f"SICK/SICK_{parts[split]}.txt"
            rows = [
                (_tokens(row[1]), _tokens(row[2]), target(row, place))
                for place, row in folder.rows(file, 5, header=True)
            ]
            folder.check_complete(file, len(rows))
            splits[split] = _examples(rows)
        return Task(name, kind, splits, folder.checksums, folder.partial)

    return read


def _sts_benchmark(kind: Kind) -> Callable[[str, _Folder], Task]:
    def read(name: str, folder: _Folder) -> Task:
        splits = {}
        for split in ("test",) if kind == "similarity" else ("train", "dev", "test"):
            file = f"STS/STSBenchmark/sts-{split}.csv"
            rows = [
                (_tokens(row[5]), _tokens(row[6]), _score(row[4], 0, 5, place))
                for place, row in folder.rows(file, 7)
                if row[4].strip()
            ]
            folder.check_complete(file, len(rows))
            splits[split] = _examples(rows)
        return Task(name, kind, splits, folder.checksums, folder.partial)

    return read


def _sts_year(name: str, folder: _Folder) -> Task:
    splits = {}
    for data_set in STS_SETS[name]:
        texts, scores = (f"STS/{name}-en-test/STS.{part}.{data_set}.txt" for part in ("input", "gs"))
        pairs = list(folder.rows(texts, 2))
        gold = folder.lines(scores)
        if len(pairs) != len(gold):
            raise InputError(
                f"{folder.path / scores}:{len(gold)}: {len(gold)} lines of scores for {len(pairs)} pairs in "
                f"{Path(texts).name}; line i of one belongs to line i of the other"
            )
        rows = [
            (_tokens(row[0]), _tokens(row[1]), _score(score, 0, 5, f"{folder.path / scores}:{number}"))
            for number, ((_, row), score) in enumerate(zip(pairs, gold, strict=True), 1)
            if score.strip()
        ]
        folder.check_complete(texts, len(rows))
        splits[data_set] = _examples(rows)
    return Task(name, "similarity", splits, folder.checksums, folder.partial)


def _probing(name: str, folder: _Folder) -> Task:
    """``part, label, ..., sentence`` with tabs between; the classes are the training part's labels, sorted.

    An example of ``PAIRS`` ends with two sentences.
    """
    file = probing_files(folder.path)[name]
    parts = {"tr": "train", "va": "dev", "te": "test"}
    width = 2 if name in PAIRS else 1
    rows: dict[str, list[tuple[str, str, list[Tokens]]]] = {part: [] for part in parts}
    for place, row in folder.rows(file, 2 + width):
        if row[0] not in parts:
            raise InputError(f"{place}: part {row[0]!r} is not one of {', '.join(parts)}; correct it")
        rows[row[0]].append((place, row[1], [_tokens(text) for text in row[-width:]]))
    for part, lines in rows.items():
        if not lines:
            end = f"{folder.path / file}:{sum(map(len, rows.values()))}"
            raise InputError(f"{end}: the file ends without a line of part {part!r}; fetch the whole file")
    classes = {label: number for number, label in enumerate(sorted({label for _, label, _ in rows["tr"]}))}
    if len(classes) < 2:
        raise InputError(f"{folder.path / file}: one class only, {next(iter(classes))!r}; a task needs several")
    for place, label, _ in (line for lines in rows.values() for line in lines):
        if label not in classes:
            raise InputError(f"{place}: label {label!r} is none of part 'tr'; correct it")
    splits = {}
    for part, split in parts.items():
        sentences = [tuple(texts) for texts in zip(*(texts for _, _, texts in rows[part]), strict=True)]
        targets = np.array([classes[label] for _, label, _ in rows[part]], dtype=np.int64)
        splits[split] = Examples(sentences[0], sentences[1] if width == 2 else (), targets)
    return Task(name, "classification", splits, folder.checksums, folder.partial)


# Probing tasks about two sentences.
PAIRS = ("tree_edit",)
# SentEval's probing tasks (Conneau et al. 2018) by the names and files of senteval/probing.py.
PROBING = {
    "Length": "sentence_length.txt",
    "WordContent": "word_content.txt",
    "Depth": "tree_depth.txt",
    "TopConstituents": "top_constituents.txt",
    "BigramShift": "bigram_shift.txt",
    "Tense": "past_present.txt",
    "SubjNumber": "subj_number.txt",
    "ObjNumber": "obj_number.txt",
    "OddManOut": "odd_man_out.txt",
    "CoordinationInversion": "coordination_inversion.txt",
}
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
# Examples that the published files hold (pairs with a score, for STS).
PUBLISHED = {
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
    for data_set, count in zip(data_sets, _STS_COUNTS[year], strict=True)
}

TASKS: dict[str, Callable[[str, _Folder], Task]] = {
    "MR": _two_files("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
    "CR": _two_files("CR/custrev.pos", "CR/custrev.neg"),
    # SentEval's order: its class 1 is "objective".
    "SUBJ": _two_files("SUBJ/subj.objective", "SUBJ/subj.subjective"),
    "MPQA": _two_files("MPQA/mpqa.pos", "MPQA/mpqa.neg"),
    "SST2": _sst("binary", ("0", "1")),
    "SST5": _sst("fine", ("0", "1", "2", "3", "4")),
    "TREC": _trec,
    "MRPC": _mrpc,
    "SICK-R": _sick("relatedness"),
    "SICK-E": _sick("classification"),
    "SNLI": _snli,
    "STS-B": _sts_benchmark("relatedness"),
    "STS-B-cos": _sts_benchmark("similarity"),
    **dict.fromkeys(STS_SETS, _sts_year),
    "SICK14": _sick("similarity"),
}
