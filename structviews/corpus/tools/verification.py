"""Verification of a parsed corpus: its files, its counts and every tree."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from structviews.corpus.format import MANIFEST, rows_of
from structviews.corpus.parsed_corpus import parse_manifest, read_manifest
from structviews.corpus.sentence import InvalidSentence
from structviews.corpus.shard_checks import (
    OTHER_COLUMNS,
    DamagedCorpus,
    Place,
    kept_in,
    malformed,
    misplaced,
    whole_shard,
)
from structviews.corpus.writer import Totals


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
            last = max([last, *places_of(table[-1:])])
        progress(number, len(manifest["shards"]))
    if all_read:
        yield from miscounted(manifest, totals.counted)


def faults_of(table: pa.Table, last: Place) -> Iterator[str]:
    """Faults of a shard's sentences, given the place of the last sentence before the shard."""
    for row in np.flatnonzero(misplaced(table, last)).tolist():
        yield f"{named(table, row)}: its place does not follow that of the previous sentence"
    for row in np.flatnonzero(malformed(table)).tolist():
        yield f"{named(table, row)}: {reason(table[row : row + 1])}"


def named(table: pa.Table, row: int) -> str:
    """The description of a sentence in a fault."""
    document, position, line = (table[name][row].as_py() for name in ("document", "position", "line"))
    return f"row {row} (document {document}, position {position}, line {line})"


def reason(table: pa.Table) -> str:
    """What is wrong with the only sentence of a table."""
    try:
        list(rows_of(table))
    except InvalidSentence as error:
        return str(error)
    return "its heights do not match its trees"


def places_of(table: pa.Table) -> list[Place]:
    """Document and position of each sentence."""
    return list(zip(table["document"].to_pylist(), table["position"].to_pylist(), strict=True))


def miscounted(manifest: dict[str, Any], counted: dict[str, Any]) -> Iterator[str]:
    """Counts in the manifest that differ from those of the shards."""
    for name, found in counted.items():
        if manifest[name] != found:
            said, there = (len(value) if isinstance(value, list) else value for value in (manifest[name], found))
            yield f"{MANIFEST}: {name}: {said}, but the shards have {there}"
