"""Verification of a parsed corpus: its files, its counts and every tree."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from structviews.corpus.format import MANIFEST, rows_of
from structviews.corpus.parsed_corpus import (
    OTHER_COLUMNS,
    DamagedCorpus,
    kept_in,
    parse_manifest,
    read_manifest,
    whole_shard,
)
from structviews.corpus.sentence import InvalidSentence
from structviews.corpus.tree_arrays import malformed
from structviews.corpus.writer import Totals
from structviews.runtime.arrays import Array

Position = tuple[int, int]


def verify_corpus(path: Path, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Check a corpus and yield one line per fault.

    Checks the size, checksum and schema of each shard, the order of the sentences, the trees and heights of every
    sentence, and the counts in the manifest.

    Args:
        path: the corpus.
        progress: called with the number of shards done and their total.

    Raises:
        InputError: if it is not a parsed corpus, or has another format version.
    """
    try:
        manifest = parse_manifest(path, read_manifest(path))
    except DamagedCorpus as damage:
        yield damage.fault
        return
    totals, last, all_read = Totals(), (-1, -1), True
    for number, entry in enumerate(manifest["shards"], 1):
        try:
            table = whole_shard(path / entry["name"], entry)
        except DamagedCorpus as damage:
            all_read = False
            yield damage.fault
        else:
            totals.add(table)
            if kept_in(table.schema) != manifest.get("kept", []):
                yield f"{entry['name']}: {OTHER_COLUMNS}"
            yield from (f"{entry['name']}: {fault}" for fault in faults_of(table, last))
            last = max([last, *((row["document"], row["position"]) for row in table[-1:].to_pylist())])
        progress(number, len(manifest["shards"]))
    if all_read:
        yield from miscounted(manifest, totals.counted)


def faults_of(table: pa.Table, last: Position) -> Iterator[str]:
    """Faults of a shard's sentences, given document and position of the last sentence before the shard."""
    checks: list[tuple[Array, Callable[[pa.Table], str]]] = [
        (misplaced(table, last), lambda _: "its place does not follow that of the previous sentence"),
        (malformed(table), why_malformed),
    ]
    for wrong, reason in checks:
        for row in np.flatnonzero(wrong).tolist():
            document, position, line = (table[name][row].as_py() for name in ("document", "position", "line"))
            where = f"row {row} (document {document}, position {position}, line {line})"
            yield f"{where}: {reason(table[row : row + 1])}"


def misplaced(table: pa.Table, last: Position) -> Array:
    """Whether ``(B,)`` each sentence fails to follow the previous one; ``last`` is the one before the shard."""
    document, position = (
        np.diff(table[name].to_numpy(), prepend=np.int32(before))
        for name, before in zip(("document", "position"), last, strict=True)
    )
    negative = (table["position"].to_numpy() < 0) | (table["line"].to_numpy() < 1)
    wrong: Array = negative | (document < 0) | ((document == 0) & (position <= 0))
    return wrong


def why_malformed(table: pa.Table) -> str:
    """What is wrong with the only sentence of a table."""
    try:
        for row in rows_of(table):
            replace(row.sentence)  # validates it
    except InvalidSentence as error:
        return str(error)
    return "its heights do not match its trees"


def miscounted(manifest: dict[str, Any], counted: dict[str, Any]) -> Iterator[str]:
    """Counts in the manifest that differ from those of the shards."""
    for name, found in counted.items():
        if manifest[name] != found:
            said, there = (len(value) if isinstance(value, list) else value for value in (manifest[name], found))
            yield f"{MANIFEST}: {name}: {said}, but the shards have {there}"
