"""Writing a parsed corpus: first the shards, each atomically, then the manifest."""

import hashlib
from collections.abc import Iterable, Sequence
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
    has_values,
    narrow,
    note,
    shard_name,
    skipped_of,
)
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.shard_checks import ShardEntry, whole_shard
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
    return _write_encoded(folder, number, encode_shard(rows, skipped, form))


def write_batch(folder: Path, number: int, batch: pa.RecordBatch, skipped: Sequence[Skipped], form: Form) -> ShardEntry:
    """Write one shard with the columns of ``batch_of`` atomically and return its entry; see ``encode_shard``."""
    return _write_encoded(folder, number, encode_batch(batch, skipped, form))


def _write_encoded(folder: Path, number: int, content: pa.Buffer) -> ShardEntry:
    entry = entry_of(number, content)
    write_entry(folder, entry, content)
    return entry


def write_entry(folder: Path, entry: ShardEntry, content: pa.Buffer) -> None:
    """Write a shard's bytes atomically."""
    write_bytes(folder / entry["name"], content)


def entry_of(number: int, content: pa.Buffer) -> ShardEntry:
    """The manifest's entry of a shard, from the bytes that its file is to have."""
    rows = pa.ipc.open_file(content).read_all().num_rows
    digest = hashlib.sha256(content).hexdigest()
    return ShardEntry(name=shard_name(number), rows=rows, bytes=content.size, sha256=digest)


def write_manifest(folder: Path, shards: Sequence[ShardEntry], job: dict[str, Any]) -> None:
    """Complete a corpus: summarise its shards and write the manifest.

    Args:
        folder: folder with the shards.
        shards: their entries, in order.
        job: how the shards were made (sources, settings, tokeniser, parser), copied into the manifest.

    Raises:
        DamagedCorpus: if a shard is not what its entry says.
    """
    totals = Totals()
    for entry in shards:
        totals.add(whole_shard(folder / entry["name"], entry))
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
        counted["has_dependencies"] &= has_values(table["heads"])
        counted["has_constituents"] &= has_values(table["labels"])
        counted["skipped"] += (note(skip, with_text=False) for skip in skipped_of(table))


def what_made(corpus: "ParsedCorpus") -> dict[str, Any]:
    """The part of a corpus's manifest that says how it was made and from what."""
    return {key: value for key, value in corpus.manifest.items() if key not in COUNTED}


def write_subset(corpus: "ParsedCorpus", rows: np.ndarray, folder: Path) -> None:
    """Write a corpus with some sentences of another, with their trees and places.

    Args:
        corpus: the source corpus.
        rows: ``(k,)`` sentence numbers, ascending.
        folder: folder to create.
    """
    folder.mkdir()
    starts = np.cumsum([0, *corpus.shard_rows])
    shards = np.searchsorted(starts, rows, side="right") - 1
    writer = ShardWriter(folder, Form.of(corpus.manifest))
    for source in np.unique(shards):
        writer.add(corpus.shard(int(source)).take(rows[shards == source] - starts[source]))
    writer.finish(what_made(corpus))


class ShardWriter:
    """Writes rows of existing shards as the shards of a new corpus, all full except the last.

    Args:
        folder: existing folder.
        form: form of the shards.
    """

    def __init__(self, folder: Path, form: Form) -> None:
        self._folder = folder
        self._form = form
        self._waiting = [form.plain.empty_table()]
        self._skipped: list[Skipped] = []
        self._shards: list[ShardEntry] = []

    def add(self, table: pa.Table, skipped: Iterable[Skipped] = ()) -> None:
        """Append rows, in the order of the new corpus, and the sentences skipped among them."""
        # Decode to plain strings, since every shard has its own dictionary.
        self._waiting.append(table.replace_schema_metadata().cast(self._form.plain))
        self._skipped += skipped
        if sum(map(len, self._waiting)) >= SHARD_ROWS:
            rows = pa.concat_tables(self._waiting)
            n_full = len(rows) // SHARD_ROWS
            for start in range(0, n_full * SHARD_ROWS, SHARD_ROWS):
                self._write(rows.slice(start, SHARD_ROWS))
            self._waiting = [rows.slice(n_full * SHARD_ROWS)]

    def finish(self, job: dict[str, Any]) -> None:
        """Write the remaining rows and the manifest; see ``write_manifest``."""
        rows = pa.concat_tables(self._waiting)
        if len(rows) or self._skipped or not self._shards:
            self._write(rows)
        write_manifest(self._folder, self._shards, job)

    def _write(self, rows: pa.Table) -> None:
        columns = {name: rows[name].combine_chunks() for name in rows.column_names}
        columns |= {name: renamed(columns[name]) for name in NAMES}
        kind = self._form.numbers(pc.max(pc.list_value_length(rows["tokens"])).as_py() or 0)
        columns |= {name: columns[name].cast(pa.list_(kind)) for name in NUMBERS}
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        self._shards.append(write_batch(self._folder, len(self._shards), batch, self._skipped, self._form))
        self._skipped = []


def renamed(lists: pa.ListArray) -> pa.ListArray:
    """Dictionary-encode lists of plain strings; see ``strings``."""
    ends = np.cumsum(pc.list_value_length(lists).to_numpy())
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], ends]), pa.int32()), narrow(lists.flatten().dictionary_encode())
    )
