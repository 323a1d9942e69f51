"""The texts that a run was trained on: a table that goes wherever the run goes, and its summary for the model card.

The table is of tab-separated values, with a row for every title, since licences such as CC BY ask whoever passes a text
on to name it.
"""

import re
from collections.abc import Iterable, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

from structviews.errors import InputError
from structviews.runtime.files import text_lines, write_bytes

# Titles of one source and licence that are named in the summary; of more, what they have in common.
NAMED = 3


class Source(NamedTuple):
    """A row of the table: a title, where it is from, and how many documents and sentences of it were read."""

    source: str
    title: str
    year: str
    licence: str
    attribution: str
    documents: int
    sentences: int


HEADER = "\t".join(Source._fields)


def read_sources(path: Path) -> list[Source]:
    """Read a table of sources.

    Raises:
        InputError: if it cannot be read, or is not such a table; the message names file and line.
    """
    header, *lines = text_lines(path)
    if header != HEADER or not lines:
        raise InputError(f"{path}: not a table of sources: give a first line of {', '.join(Source._fields)}, then rows")
    found = []
    for number, line in enumerate(lines, 2):
        row = line.split("\t")
        if len(row) != len(Source._fields) or not all(re.fullmatch(r"\d{1,15}", count) for count in row[-2:]):
            raise InputError(f"{path}:{number}: not {len(Source._fields)} values, the last two counts: fix the row")
        found.append(Source(row[0], row[1], row[2], row[3], row[4], int(row[5]), int(row[6])))
    return found


def write_sources(path: Path, sources: Iterable[Source]) -> None:
    """Write a table of sources."""
    rows = ["\t".join(map(str, row)) for row in sources]
    write_bytes(path, "".join(f"{line}\n" for line in (HEADER, *rows)).encode("utf-8"))


class Group(NamedTuple):
    """Titles of one source under one licence: their names, or what these have in common, and their sums."""

    titles: str
    licence: str
    documents: int
    sentences: int


def summed(sources: Iterable[Source]) -> list[Group]:
    """The sources in groups of one source and licence, that with the most sentences first."""
    found: dict[tuple[str, str], list[Source]] = {}
    for row in sources:
        found.setdefault((row.source, row.licence), []).append(row)
    groups = [
        Group(
            _together([row.title for row in rows]),
            licence,
            sum(row.documents for row in rows),
            sum(row.sentences for row in rows),
        )
        for (_, licence), rows in found.items()
    ]
    return sorted(groups, key=lambda group: -group.sentences)


def _together(titles: Sequence[str]) -> str:
    if len(titles) <= NAMED:
        return "; ".join(titles)
    common = commonprefix(titles).rstrip(" :")  # noqa: RUF071 - of titles, not of paths
    return f"{common} ({len(titles)} titles)".lstrip()
