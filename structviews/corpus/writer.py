"""Writing parsed corpora, from sentences, from a part of another or from several, and checking every tree of one."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from structviews.corpus import layout, parsed_corpus
from structviews.corpus.layout import Form
from structviews.corpus.parsed_corpus import DamagedCorpus, ParsedCorpus, ShardEntry
from structviews.corpus.sentence import InvalidSentence
from structviews.corpus.tree_arrays import malformed
from structviews.errors import InputError
from structviews.runtime.arrays import Array
from structviews.runtime.documents import write_json
from structviews.runtime.files import new_folder, write_whole

# Manifest keys that count what is there; all others describe how it was made.
COUNTED = {"documents", "sentences", "tokens", "has_dependencies", "has_constituents", "skipped", "repaired"}
COUNTED |= {"shards", "checksum"}
KEPT = {layout.SURE: "the parser's confidence"}


def write_shard(folder: Path, number: int, content: pa.Buffer) -> ShardEntry:
    """Write one shard atomically from ``encode_shard``'s bytes, and return its entry."""
    entry = entry_of(number, content)
    write_whole(folder / entry["name"], content)
    return entry


def entry_of(number: int, content: pa.Buffer) -> ShardEntry:
    """The manifest's entry of a shard, from the bytes that its file is to have."""
    rows = pa.ipc.open_file(content).read_all().num_rows
    digest = hashlib.sha256(content).hexdigest()
    return ShardEntry(name=layout.shard_name(number), rows=rows, bytes=content.size, sha256=digest)


def write_manifest(folder: Path, shards: Sequence[ShardEntry], job: dict[str, Any]) -> None:
    """Complete a corpus: check every sentence of its shards, summarise them and write the manifest.

    ``job`` says how they were made (sources, settings, tokeniser, parser). DamagedCorpus if a shard is not what its
    entry says, or one of its sentences is not valid.
    """
    totals = Totals()
    for entry in shards:
        table = parsed_corpus.whole_shard(folder / entry["name"], entry)
        if len(wrong := np.flatnonzero(malformed(table))):
            fault = f"{len(wrong)} of its sentences are invalid, the first in row {wrong[0]}"
            raise DamagedCorpus(folder / entry["name"], fault)
        totals.add(table)
    write_json(folder / layout.MANIFEST, {**job, **totals.counted, "shards": list(shards)})


class Totals:
    """Totals over shards, added in order: ``counted``, as in the manifest."""

    def __init__(self) -> None:
        self.counted: dict[str, Any] = dict.fromkeys(("documents", "sentences", "tokens"), 0)
        self.counted |= {"has_dependencies": True, "has_constituents": True, "skipped": []}
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
        counted["skipped"] += (layout.note(skip, with_text=False) for skip in layout.skipped_of(table))


def write_subset(corpus: ParsedCorpus, rows: np.ndarray, folder: Path) -> None:
    """Write the sentences ``rows (k,)``, ascending, of another corpus, with trees and places, to a new folder."""
    folder.mkdir()
    form = Form.of(corpus.manifest)
    starts = np.cumsum([0, *corpus.shard_rows])
    shards = np.searchsorted(starts, rows, side="right") - 1
    waiting, entries = form.plain.empty_table(), list[ShardEntry]()

    def write_some() -> None:
        nonlocal waiting
        columns = {name: waiting[name][: parsed_corpus.SHARD_ROWS].combine_chunks() for name in waiting.column_names}
        entries.append(write_shard(folder, len(entries), layout.encode_shard(in_form(columns, form), [], form)))
        waiting = waiting.slice(parsed_corpus.SHARD_ROWS)

    for source in np.unique(shards):
        taken = corpus.shard(int(source)).take(rows[shards == source] - starts[source])
        # Decoded to plain strings, since every shard has its own dictionary.
        waiting = pa.concat_tables([waiting, taken.replace_schema_metadata().cast(form.plain)])
        while len(waiting) >= parsed_corpus.SHARD_ROWS:
            write_some()
    if len(waiting) or not entries:
        write_some()
    write_manifest(folder, entries, {key: value for key, value in corpus.manifest.items() if key not in COUNTED})


def in_form(columns: dict[str, pa.Array], form: Form) -> pa.RecordBatch:
    """Columns as the record batch of a shard: strings dictionary-encoded, numbers as wide as the form says."""
    for name in layout.NAMES:
        if columns[name].type.value_type == pa.string():
            sizes = pc.list_value_length(columns[name]).to_numpy()
            columns[name] = layout.list_array(layout.narrow(columns[name].flatten().dictionary_encode()), sizes)
    kind = form.numbers(pc.max(pc.list_value_length(columns["tokens"])).as_py() or 0)
    columns |= {name: columns[name].cast(pa.list_(kind)) for name in layout.NUMBERS}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def merge(corpora: Sequence[ParsedCorpus], out: Path, progress: Callable[[int, int], None]) -> ParsedCorpus:
    """Concatenate corpora, renumbering their documents.

    Sentences keep their trees and their positions in their documents; ``line`` refers to the document's own source.
    In the manifest, ``merged`` lists the sources and the first document of each corpus. Raises InputError if they are
    not at least two with the same parser, tokeniser and kinds of trees, or ``out`` already exists.
    """
    check_alike(corpora)
    manifests = [corpus.manifest for corpus in corpora]
    limits: list[Any] = [manifest["settings"].get("max_tokens") for manifest in manifests]
    settings = {  # that all share, and the largest limit on sentence length
        key: value
        for key, value in manifests[0]["settings"].items()
        if all(other["settings"].get(key) == value for other in manifests)
    } | ({} if None in limits else {"max_tokens": max(limits)})
    form = Form.of({"settings": settings})
    first, parts, shards = 0, list[dict[str, Any]](), list[ShardEntry]()
    with new_folder(out) as folder:
        for corpus, manifest in zip(corpora, manifests, strict=True):
            own = {"first_document": 0, "settings": manifest["settings"], "sources": manifest["sources"]}
            for part in manifest.get("merged", [own]):
                parts.append(part | {"first_document": first + part["first_document"]})
            last = first - 1
            for table in corpus.tables():
                skipped = [replace(skip, document=skip.document + first) for skip in layout.skipped_of(table)]
                columns = {name: table[name].chunk(0) for name in table.column_names}
                columns["document"] = pc.add(columns["document"], pa.scalar(first, pa.int32()))
                last = max([last, *(skip.document for skip in skipped), *columns["document"][-1:].to_pylist()])
                content = layout.encode_shard(in_form(columns, form), skipped, form)
                shards.append(write_shard(folder, len(shards), content))
                progress(len(shards), sum(each.n_shards for each in corpora))
            first = last + 1
        sources = [source for manifest in manifests for source in manifest["sources"]]
        made_by = {kind: manifests[0][kind] for kind in ("parser", "tokeniser")}
        job = layout.new_job(**made_by, settings=settings, sources=sources, merged=parts)
        # The parsers are the same, so any corpus's models folder will do.
        job |= next(({layout.MODELS: each[layout.MODELS]} for each in manifests if layout.MODELS in each), {})
        repaired = sum((Counter(manifest.get("repaired", {})) for manifest in manifests), Counter[str]())
        optional = {"repaired": dict(repaired), "kept": corpora[0].kept}
        write_manifest(folder, shards, job | {key: value for key, value in optional.items() if value})
    return ParsedCorpus.open(out)


def check_alike(corpora: Sequence[ParsedCorpus]) -> None:
    """Raise InputError unless the corpora have the same parser, tokeniser and kinds of trees."""
    if len(corpora) < 2:
        raise InputError(f"{len(corpora)} corpora: give at least two to merge")
    first, *others = corpora
    for other in others:
        for kind in ("parser", "tokeniser", "has_dependencies", "has_constituents", "kept"):
            one, another = (({"kept": []} | each.manifest)[kind] for each in (first, other))
            if one != another:
                raise InputError(
                    f"{other.path} has {difference(kind, another, one)}, but {first.path} has "
                    f"{difference(kind, one, another)}: parse one of them again with the other's settings"
                )


def difference(kind: str, this: Any, other: Any) -> str:
    """One manifest's value of ``kind``, with the detail in which it differs from another's."""
    if isinstance(this, bool):
        trees = {"has_dependencies": "dependency", "has_constituents": "constituency"}[kind]
        return f"{trees} trees" if this else f"no {trees} trees"
    if kind == "kept":
        return " and ".join(KEPT.get(name, f"the text of {name} files") for name in this) or "only trees"
    name = next(key for key in ("name", *this, *other) if this.get(key) != other.get(key))
    return f"{kind} {this['name']}" if name == "name" else f"{kind} {this['name']} with {name} {this.get(name)}"


def verify_corpus(path: Path, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Check a corpus and yield one line per fault; InputError if it is none, or has another format version.

    Checks the size, checksum and schema of each shard, the order of the sentences, the trees and heights of every
    sentence, and the counts in the manifest. ``progress`` is called with the shards that are done and their total.
    """
    try:
        manifest, _ = parsed_corpus.read_manifest(path)
    except DamagedCorpus as damage:
        yield damage.fault
        return
    totals, last, all_read = Totals(), (-1, -1), True
    for number, entry in enumerate(manifest["shards"], 1):
        try:
            table = parsed_corpus.whole_shard(path / entry["name"], entry)
        except DamagedCorpus as damage:
            all_read = False
            yield damage.fault
        else:
            totals.add(table)
            if table.column_names[len(layout.COLUMNS) :] != manifest.get("kept", []):
                yield f"{entry['name']}: {parsed_corpus.OTHER_COLUMNS}"
            checks: list[tuple[Array, Callable[[pa.Table], str]]] = [
                (misplaced(table, last), lambda _: "its place does not follow that of the previous sentence"),
                (malformed(table), why_malformed),
            ]
            for wrong, why in checks:
                for row in np.flatnonzero(wrong).tolist():
                    document, position, line = (table[name][row].as_py() for name in ("document", "position", "line"))
                    where = f"row {row} (document {document}, position {position}, line {line})"
                    yield f"{entry['name']}: {where}: {why(table[row : row + 1])}"
            last = max([last, *((row["document"], row["position"]) for row in table[-1:].to_pylist())])
        progress(number, len(manifest["shards"]))
    for name, found in totals.counted.items() if all_read else ():
        if manifest[name] != found:
            said, there = (len(value) if isinstance(value, list) else value for value in (manifest[name], found))
            yield f"{layout.MANIFEST}: {name}: {said}, but the shards have {there}"


def misplaced(table: pa.Table, last: tuple[int, int]) -> Array:
    """Whether ``(B,)`` each sentence fails to follow the previous one; ``last`` is the one before the shard."""
    document, position = (
        np.diff(table[name].to_numpy(), prepend=np.int32(before))
        for name, before in zip(("document", "position"), last, strict=True)
    )
    negative = (table["position"].to_numpy() < 0) | (table["line"].to_numpy() < 1)
    return negative | (document < 0) | ((document == 0) & (position <= 0))


def why_malformed(table: pa.Table) -> str:
    """What is wrong with the only sentence of a table."""
    try:
        for row in layout.rows_of(table):
            replace(row.sentence)  # validates it
    except InvalidSentence as error:
        return str(error)
    return "its heights do not match its trees"
