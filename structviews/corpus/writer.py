"""Writing a parsed corpus: first the shards, each atomically, then the manifest."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from structviews.corpus.format import (
    BY_ROWS,
    MANIFEST,
    NAMES,
    NUMBERS,
    Form,
    Row,
    Skipped,
    encode_batch,
    encode_shard,
    list_array,
    narrow,
    note,
    shard_name,
    skipped_of,
)
from structviews.corpus.parsed_corpus import DamagedCorpus, ParsedCorpus, ShardEntry, whole_shard
from structviews.corpus.tree_arrays import malformed
from structviews.runtime.documents import write_json
from structviews.runtime.files import write_bytes

# Manifest keys that count what is there; all others describe how it was made.
COUNTED = {"documents", "sentences", "tokens", "has_dependencies", "has_constituents", "shards", "skipped", "repaired"}
COUNTED |= {"checksum"}
# Maximum rows per shard, so that reading one takes little memory and time.
SHARD_ROWS = 1000


def write_shard(
    folder: Path, number: int, rows: Sequence[Row], skipped: Sequence[Skipped], form: Form = BY_ROWS
) -> ShardEntry:
    """Write one shard atomically and return its entry; see ``encode_shard``."""
    return write_encoded(folder, number, encode_shard(rows, skipped, form))


def write_encoded(folder: Path, number: int, content: pa.Buffer) -> ShardEntry:
    """Write a shard from the bytes of its file, as ``write_shard`` does."""
    entry = entry_of(number, content)
    write_bytes(folder / entry["name"], content)
    return entry


def entry_of(number: int, content: pa.Buffer) -> ShardEntry:
    """The manifest's entry of a shard, from the bytes that its file is to have."""
    rows = pa.ipc.open_file(content).read_all().num_rows
    digest = hashlib.sha256(content).hexdigest()
    return ShardEntry(name=shard_name(number), rows=rows, bytes=content.size, sha256=digest)


def write_manifest(folder: Path, shards: Sequence[ShardEntry], job: dict[str, Any]) -> None:
    """Complete a corpus: check every sentence of its shards, summarise them and write the manifest.

    Args:
        folder: folder with the shards.
        shards: their entries, in order.
        job: how the shards were made (sources, settings, tokeniser, parser), copied into the manifest.

    Raises:
        DamagedCorpus: if a shard is not what its entry says, or one of its sentences is not valid.
    """
    totals = Totals()
    for entry in shards:
        table = whole_shard(folder / entry["name"], entry)
        if len(wrong := np.flatnonzero(malformed(table))):
            fault = f"{len(wrong)} of its sentences are invalid, the first in row {wrong[0]}"
            raise DamagedCorpus(folder / entry["name"], fault)
        totals.add(table)
    write_json(folder / MANIFEST, {**job, **totals.counted, "shards": list(shards)})


class Totals:
    """Totals over shards, added in order.

    Attributes:
        counted: the totals, as in the manifest.
    """

    def __init__(self) -> None:
        self.counted: dict[str, Any] = {
            "documents": 0,
            "sentences": 0,
            "tokens": 0,
            "has_dependencies": True,
            "has_constituents": True,
            "skipped": [],
        }
        self._last_document = -1

    def add(self, table: pa.Table) -> None:
        """Add the next shard."""
        counted, documents = self.counted, table["document"].to_numpy()
        # A document may continue from the previous shard.
        counted["documents"] += int(np.count_nonzero(np.diff(documents, prepend=self._last_document)))
        self._last_document = documents[-1] if len(documents) else self._last_document
        counted["sentences"] += table.num_rows
        counted["tokens"] += pc.sum(pc.list_value_length(table["tokens"])).as_py() or 0
        for key, column in (("has_dependencies", "heads"), ("has_constituents", "labels")):
            counted[key] &= bool(pc.list_value_length(table[column]).to_numpy().all())
        counted["skipped"] += (note(skip, with_text=False) for skip in skipped_of(table))


def provenance(corpus: ParsedCorpus) -> dict[str, Any]:
    """The part of a corpus's manifest that says how it was made and from what."""
    return {key: value for key, value in corpus.manifest.items() if key not in COUNTED}


def write_subset(corpus: ParsedCorpus, rows: np.ndarray, folder: Path) -> None:
    """Write a corpus with some sentences of another, with their trees and positions; its shards are full but the last.

    Args:
        corpus: the source corpus.
        rows: ``(k,)`` sentence numbers, ascending.
        folder: folder to create.
    """
    folder.mkdir()
    form = Form.of(corpus.manifest)
    starts = np.cumsum([0, *corpus.shard_rows])
    shards = np.searchsorted(starts, rows, side="right") - 1
    waiting, entries = form.plain.empty_table(), list[ShardEntry]()

    def write_some() -> None:
        nonlocal waiting
        content = encode_batch(_as_batch(waiting.slice(0, SHARD_ROWS), form), [], form)
        entries.append(write_encoded(folder, len(entries), content))
        waiting = waiting.slice(SHARD_ROWS)

    for source in np.unique(shards):
        taken = corpus.shard(int(source)).take(rows[shards == source] - starts[source])
        # Decoded to plain strings, since every shard has its own dictionary.
        waiting = pa.concat_tables([waiting, taken.replace_schema_metadata().cast(form.plain)])
        while len(waiting) >= SHARD_ROWS:
            write_some()
    if len(waiting) or not entries:
        write_some()
    write_manifest(folder, entries, provenance(corpus))


def _as_batch(rows: pa.Table, form: Form) -> pa.RecordBatch:
    """Rows with plain strings and wide numbers as the record batch of a shard."""
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    for name in NAMES:
        sizes = pc.list_value_length(columns[name]).to_numpy()
        columns[name] = list_array(narrow(columns[name].flatten().dictionary_encode()), sizes)
    kind = form.numbers(pc.max(pc.list_value_length(rows["tokens"])).as_py() or 0)
    columns |= {name: columns[name].cast(pa.list_(kind)) for name in NUMBERS}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
