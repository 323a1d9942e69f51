"""Reading SentEval's folders (Conneau and Kiela, 2018).

SentEval's download script tokenises every file (PTB or Moses tokens, separated by spaces) and its readers
split them on white space. The readers here do the same: a sentence is a tuple of the task's own tokens.
"""

import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from structviews.errors import InputError

Tokens = tuple[str, ...]
Kind = Literal["classification", "relatedness", "similarity", "structure"]


@dataclass(frozen=True)
class Examples:
    """``n`` sentences, or pairs of them, with targets (n,): int64 classes from 0, or float64 gold scores.

    ``second`` is empty for single-sentence tasks. A task of structure has ``Task.choices`` pairs for each target.
    """

    first: tuple[Tokens, ...]
    second: tuple[Tokens, ...]
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Task:
    """One task as read from its files; relatedness is supervised, similarity and structure are not."""

    name: str
    kind: Kind
    splits: dict[str, Examples]  # "all"; "train" and "test"; "train", "dev" and "test"; or a year's data sets
    checksums: dict[str, str]  # SHA-256 of each file, by its path in the folder
    partial: dict[str, str]  # files with fewer examples than published, with counts; empty unless these are allowed
    metrics: tuple[str, ...] = ("accuracy",)  # of a task with classes
    choices: int = 1  # of a task of structure, pairs of which the one numbered by the target has the highest cosine
    inference: bool = False  # use the pair features of SentEval's snli.py: both vectors, difference and product

    def sentences(self) -> list[Tokens]:
        """The distinct sentences in order of appearance: by split, first sentences before second ones."""
        parts = (part for examples in self.splits.values() for part in (examples.first, examples.second))
        return list(dict.fromkeys(sentence for part in parts for sentence in part))


# Number of examples in each published file (for STS, of pairs with a score); a module of tasks adds its own.
PUBLISHED: dict[str, int] = {}


@dataclass
class TaskFolder:
    """A SentEval folder that records the checksums of what was read, and which files were partial."""

    path: Path
    allow_partial: bool
    checksums: dict[str, str] = field(default_factory=dict)
    partial: dict[str, str] = field(default_factory=dict)

    def lines(self, name: str, encoding: str = "utf-8-sig") -> list[tuple[str, str]]:
        """The lines of a file, each with its location, ``file:line``.

        They are split at newlines only, not at other Unicode line breaks; carriage returns stay.
        """
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
            raise InputError(f"{path}:{line}: a zero byte, so this is not {encoding} text; convert the file")
        lines = text.removesuffix("\n").split("\n") if text else []
        return [(f"{path}:{number}", line) for number, line in enumerate(lines, 1)]

    def rows(self, name: str, columns: int, header: bool = False) -> Iterator[tuple[str, list[str]]]:
        """The tab-separated rows of a file, each with its location, ``file:line``."""
        for i, (where, line) in enumerate(self.lines(name)):
            row = line.split("\t")
            if len(row) < columns:
                raise InputError(f"{where}: {len(row)} tab-separated columns, not {columns}; fix or remove the line")
            if i or not header:
                yield where, row

    def check_aligned(self, first: str, n: int, second: str, m: int) -> None:
        """Reject two files of n and m lines of which each line belongs to the same one of the other."""
        if n != m:
            unlike = f"{m} lines, but {n} in {Path(first).name}"
            raise InputError(f"{self.path / second}:{m}: {unlike}; the files must be aligned line by line")

    def check_complete(self, name: str, examples: int) -> None:
        """Reject a truncated file. Copies in circulation differ by a few lines, so up to 1 % may be missing."""
        if not examples:
            raise InputError(f"{self.path / name}:1: no examples; download the whole file")
        if examples < 0.99 * PUBLISHED[name]:
            self.partial[name] = f"{examples:,} of {PUBLISHED[name]:,} examples"
            if not self.allow_partial:
                remedy = "download the whole file, or score the partial task with --partial"
                end = f"{self.path / name}:{len(self.lines(name))}"
                raise InputError(f"{end}: the file ends after {self.partial[name]}; {remedy}")

    def splits(self, files: dict[str, str], rows: Callable[[str], Iterable[tuple[Any, ...]]]) -> dict[str, Examples]:
        """The examples of each split's file, which must be complete; ``rows`` reads a file as ``examples_of`` takes."""
        found = {}
        for split, file in files.items():
            examples = list(rows(file))
            self.check_complete(file, len(examples))
            found[split] = examples_of(examples)
        return found

    def task(self, name: str, kind: Kind, splits: dict[str, Examples], **options: Any) -> Task:
        """The task with these splits; ``options`` are further attributes of ``Task``."""
        return Task(name, kind, splits, self.checksums, self.partial, **options)


def tokens_of(text: str) -> Tokens:
    """Tokens of a tokenised sentence; a full stop if it is empty, as in SentEval's own encoders."""
    # Interned, so that each word type is stored once: the probing tasks have millions of tokens.
    return tuple(map(sys.intern, text.split())) or (".",)


def class_of(label: str, classes: tuple[str, ...], where: str) -> int:
    """Index of a label among the classes; InputError for another label, with ``where``, its ``file:line``."""
    if label not in classes:
        raise InputError(f"{where}: label {label!r} is not one of {', '.join(classes)}; correct it")
    return classes.index(label)


def score_of(text: str, low: float, high: float, where: str) -> float:
    """A gold score; InputError unless it is from ``low`` to ``high``, with ``where``, its ``file:line``."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not low <= score <= high:
        raise InputError(f"{where}: score {text!r} is not a number from {low:g} to {high:g}; correct it")
    return score


def examples_of(rows: Sequence[tuple[Any, ...]]) -> Examples:
    """Examples from rows of one sentence or two and a class (int) or score (float)."""
    *sentences, targets = zip(*rows, strict=True)
    return Examples(sentences[0], sentences[1] if len(sentences) > 1 else (), np.array(targets))
