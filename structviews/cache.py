"""The parsed corpus on disk: a folder of Arrow IPC files, one row a sentence, and a manifest.

Shards are written first, each whole or not at all; the manifest is written last, so a folder
with a manifest is a whole corpus. The schema is in ``docs/design.md``.
"""

import hashlib
import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from structviews.errors import InputError
from structviews.sentence import ParsedSentence, heights_below

FORMAT = "structviews parsed corpus"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
JOB = "job.json"
# The manifest's only path: the folder of the parser's models, where the user named one.
MODELS = "models"

# The columns: places, and lists of names and of small numbers. Names are kept once in a shard, and what refers to
# them, as all numbers, takes no more bytes than it needs.
PLACES = {"document": pa.int32(), "position": pa.int32(), "line": pa.int64()}
NAMES = ("tokens", "tags", "relations", "labels")
NUMBERS = ("heads", "left", "right", "dep_height", "const_height")
COLUMNS = (*PLACES, "tokens", "tags", "heads", "relations", "left", "right", "labels", "dep_height", "const_height")
PLAIN = pa.schema(
    [(name, PLACES.get(name, pa.list_(pa.string() if name in NAMES else pa.uint16()))) for name in COLUMNS]
)
# So many words have node numbers that fit in a byte.
BYTE_WORDS = 128
# What a manifest says of its shards; the rest says what made them.
COUNTED = {"documents", "sentences", "tokens", "has_dependencies", "has_constituents", "shards", "skipped", "checksum"}
SKIPPED_KEY = b"structviews.skipped"
SENTENCE_FIELDS = ("tokens", "tags", "heads", "relations", "left", "right", "labels")
# The most rows that a shard has, so that reading one takes little memory and time.
SHARD_ROWS = 1000
# Every open shard holds a file descriptor, and a large corpus has thousands of shards.
OPEN_SHARDS = 64


@dataclass(frozen=True, slots=True)
class Row:
    """One sentence of a parsed corpus and where it stood in the source.

    Attributes:
        document: document number in the corpus, from 0.
        position: index of the sentence in its document in the source, from 0; a skipped sentence
            leaves a gap.
        line: line in the source file, from 1.
        sentence: the words and their trees.
    """

    document: int
    position: int
    line: int
    sentence: ParsedSentence


@dataclass(frozen=True, slots=True)
class Skipped:
    """A sentence of the source that is not in the corpus, and why; places as in :class:`Row`."""

    document: int
    position: int
    line: int
    reason: str


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.arrow"


@dataclass(frozen=True)
class Form:
    """How the shards of a corpus are written.

    Attributes:
        longest: the most words that a sentence may have, so that numbers have one width in all shards; None: each
            shard has the width that it needs.
        compression: ``zstd``, or None: then files are read where they lie.
    """

    longest: int | None = None
    compression: str | None = None

    @classmethod
    def of(cls, job: dict[str, Any]) -> Self:
        """The form of the corpus that a manifest describes, or a job that makes one."""
        settings = job.get("settings", {})
        return cls(settings.get("max_tokens"), settings.get("compression"))

    def numbers(self, longest: int) -> pa.DataType:
        """The type of the numbers of words and nodes in a shard whose longest sentence has so many words."""
        return pa.uint8() if (self.longest or longest) <= BYTE_WORDS else pa.uint16()


BY_ROWS = Form()


def write_shard(
    folder: Path, number: int, rows: Sequence[Row], skipped: Sequence[Skipped], form: Form = BY_ROWS
) -> None:
    """Write one shard, whole or not at all; see ``encode_shard``."""
    write_encoded(folder, number, encode_shard(rows, skipped, form))


def write_batch(folder: Path, number: int, batch: pa.RecordBatch, skipped: Sequence[Skipped], form: Form) -> None:
    """Write one shard with the columns that ``batch_of`` makes, whole or not at all; see ``encode_shard``."""
    write_encoded(folder, number, encode_batch(batch, skipped, form))


def write_encoded(folder: Path, number: int, content: pa.Buffer) -> None:
    """Write one shard that ``encode_shard`` made, whole or not at all."""
    write_whole(folder / shard_name(number), lambda file: file.write(content))


def encode_shard(rows: Sequence[Row], skipped: Sequence[Skipped], form: Form = BY_ROWS) -> pa.Buffer:
    """The bytes of a shard's file; equal arguments give equal bytes.

    The skipped sentences travel in the shard's schema metadata, so that the two cannot come apart.
    """
    return encode_batch(batch_of(rows, form), skipped, form)


def encode_batch(batch: pa.RecordBatch, skipped: Sequence[Skipped], form: Form) -> pa.Buffer:
    """The bytes of a shard with the columns that ``batch_of`` makes; see ``encode_shard``."""
    notes = json.dumps([asdict(skip) for skip in skipped])
    batch = batch.replace_schema_metadata({SKIPPED_KEY: notes})
    options = pa.ipc.IpcWriteOptions(compression=form.compression)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def batch_of(rows: Sequence[Row], form: Form = BY_ROWS) -> pa.RecordBatch:
    """The rows in columns."""
    sentences = [row.sentence for row in rows]
    kind = form.numbers(max((len(sentence.tokens) for sentence in sentences), default=0))
    lists = {name: [getattr(sentence, name) for sentence in sentences] for name in SENTENCE_FIELDS}
    heads, left, right, labels = (lists[name] for name in ("heads", "left", "right", "labels"))
    columns = {name: pa.array([getattr(row, name) for row in rows], place) for name, place in PLACES.items()}
    columns |= {name: strings(lists[name]) for name in NAMES}
    columns |= {name: numbers(lists[name], flat(lists[name]), kind) for name in ("heads", "left", "right")}
    columns["dep_height"] = numbers(heads, heights_below(dependency_parents(heads)), kind)
    columns["const_height"] = numbers(labels, heights_below(constituency_parents(left, right, labels)), kind)
    return pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS], names=list(COLUMNS))


def flat(lists: Sequence[Sequence[int]]) -> np.ndarray:
    """The numbers of all lists, one list after the other."""
    return np.fromiter(chain.from_iterable(lists), np.int64)


def numbers(lists: Sequence[Sequence[Any]], values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Small numbers, those of all lists in turn, as one Arrow array of lists that are as long as ``lists``."""
    return pa.ListArray.from_arrays(offsets(lists), pa.array(values).cast(kind))


def strings(lists: Sequence[Sequence[str]]) -> pa.Array:
    """Lists of strings as one Arrow array over a dictionary in order of first appearance."""
    ids = {text: i for i, text in enumerate(dict.fromkeys(chain.from_iterable(lists)))}
    indices = np.fromiter(map(ids.__getitem__, chain.from_iterable(lists)), np.int32)
    values = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(list(ids), pa.string()))
    return pa.ListArray.from_arrays(offsets(lists), narrow(values))


def narrow(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same strings, with indices no wider than the dictionary needs."""
    kind = next(k for k in (pa.int8(), pa.int16(), pa.int32()) if len(values.dictionary) <= 2 ** (k.bit_width - 1))
    return pa.DictionaryArray.from_arrays(values.indices.cast(kind), values.dictionary)


def offsets(lists: Sequence[Sequence[Any]]) -> pa.Array:
    """Where each list starts in the concatenation of all, and the end of the last."""
    return pa.array(np.cumsum([0, *map(len, lists)]), pa.int32())


def dependency_parents(heads: Sequence[Sequence[int]]) -> np.ndarray:
    """The parent of every word, words of all sentences numbered in turn; -1 for a root."""
    counts = np.array([len(each) for each in heads], dtype=np.int64)
    words = flat(heads)
    return np.where(words > 0, words - 1 + np.repeat(np.cumsum(counts) - counts, counts), -1)


def constituency_parents(
    left: Sequence[Sequence[int]], right: Sequence[Sequence[int]], labels: Sequence[Sequence[str]]
) -> np.ndarray:
    """The parent of every node of binary trees, nodes of all sentences numbered in turn; -1 for a root."""
    counts = np.array([len(each) for each in labels], dtype=np.int64)
    inner = counts // 2
    ends = np.cumsum(counts)
    # Internal nodes are the last ones of their sentence.
    nodes = np.arange(inner.sum()) + np.repeat(ends - np.cumsum(inner), inner)
    parents = np.full(counts.sum(), -1)
    for children in (left, right):
        parents[flat(children) + np.repeat(ends - counts, inner)] = nodes
    return parents


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Make ``path`` appear with all its content on disk, or not at all, also over a power cut."""
    # The process id keeps apart two writers, should a killed one linger while its successor starts.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON with sorted keys, whole or not at all; equal content gives equal bytes."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def write_manifest(folder: Path, n_shards: int, job: dict[str, Any]) -> None:
    """Make the folder a whole corpus: gather what its shards hold and write the manifest.

    Args:
        folder: where shards ``0 .. n_shards - 1`` are.
        n_shards: number of shards.
        job: what made the shards (sources, settings, tokeniser, parser), taken over as it is.
    """
    totals, shards = Totals(), []
    for number in range(n_shards):
        path = folder / shard_name(number)
        table = read_shard(path)
        totals.add(table)
        shards.append(describe_shard(path, table))
    manifest = {**job, **totals.counted, "shards": shards}
    write_json(folder / MANIFEST, {**manifest, "checksum": checksum(manifest)})


class Totals:
    """What shards hold, gathered one by one in their order.

    Attributes:
        counted: the part of the manifest that says so.
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
        """Count the next shard."""
        counted, documents = self.counted, table["document"].to_numpy()
        # A document may go on from the shard before.
        counted["documents"] += int(np.count_nonzero(np.diff(documents, prepend=self._last_document)))
        self._last_document = documents[-1] if len(documents) else self._last_document
        counted["sentences"] += table.num_rows
        counted["tokens"] += pc.sum(pc.list_value_length(table["tokens"])).as_py() or 0
        counted["has_dependencies"] &= has_values(table["heads"])
        counted["has_constituents"] &= has_values(table["labels"])
        counted["skipped"] += map(asdict, skipped_of(table))


def skipped_of(table: pa.Table) -> list[Skipped]:
    """The sentences that were skipped where a shard's are from."""
    return [Skipped(**skip) for skip in json.loads(table.schema.metadata[SKIPPED_KEY])]


def what_made(corpus: "ParsedCorpus") -> dict[str, Any]:
    """The part of a corpus' manifest that says what it was made from and how."""
    return {key: value for key, value in corpus.manifest.items() if key not in COUNTED}


def write_subset(corpus: "ParsedCorpus", rows: np.ndarray, folder: Path) -> None:
    """Make a corpus of some of another one's sentences, with their trees and places.

    Args:
        corpus: the other one.
        rows: (k,) numbers of sentences, ascending.
        folder: is made.
    """
    folder.mkdir()
    starts = np.cumsum([0, *corpus.shard_rows])
    shards = np.searchsorted(starts, rows, side="right") - 1
    writer = ShardWriter(folder, Form.of(corpus.manifest))
    for source in np.unique(shards):
        writer.add(corpus.shard(int(source)).take(rows[shards == source] - starts[source]))
    writer.finish(what_made(corpus))


class ShardWriter:
    """Rows of a corpus as shards of a new one, all full but the last.

    Args:
        folder: is there.
        form: of the shards, as the corpus has it.
    """

    def __init__(self, folder: Path, form: Form) -> None:
        self._folder = folder
        self._form = form
        self._waiting = [PLAIN.empty_table()]
        self._skipped: list[Skipped] = []
        self._n_shards = 0

    def add(self, table: pa.Table, skipped: Iterable[Skipped] = ()) -> None:
        """Take rows in the order that the corpus is to have, and sentences that were skipped there."""
        # As strings, since shards number the same words otherwise.
        self._waiting.append(table.replace_schema_metadata().cast(PLAIN))
        self._skipped += skipped
        if sum(map(len, self._waiting)) >= SHARD_ROWS:
            rows = pa.concat_tables(self._waiting)
            n_full = len(rows) // SHARD_ROWS
            for start in range(0, n_full * SHARD_ROWS, SHARD_ROWS):
                self._write(rows.slice(start, SHARD_ROWS))
            self._waiting = [rows.slice(n_full * SHARD_ROWS)]

    def finish(self, job: dict[str, Any]) -> None:
        """Write what is left, and the manifest; see ``write_manifest``."""
        rows = pa.concat_tables(self._waiting)
        if len(rows) or self._skipped or not self._n_shards:
            self._write(rows)
        write_manifest(self._folder, self._n_shards, job)

    def _write(self, rows: pa.Table) -> None:
        columns = {name: rows[name].combine_chunks() for name in COLUMNS}
        columns |= {name: renamed(columns[name]) for name in NAMES}
        kind = self._form.numbers(pc.max(pc.list_value_length(rows["tokens"])).as_py() or 0)
        columns |= {name: columns[name].cast(pa.list_(kind)) for name in NUMBERS}
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        write_batch(self._folder, self._n_shards, batch, self._skipped, self._form)
        self._skipped = []
        self._n_shards += 1


def renamed(lists: pa.ListArray) -> pa.ListArray:
    """Lists of strings with a dictionary of their own; see ``strings``."""
    ends = np.cumsum(pc.list_value_length(lists).to_numpy())
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], ends]), pa.int32()), narrow(lists.flatten().dictionary_encode())
    )


def has_values(lists: pa.ChunkedArray) -> bool:
    """Whether every list has something in it."""
    return pc.all(pc.greater(pc.list_value_length(lists), 0), min_count=0).as_py()


def describe_shard(path: Path, table: pa.Table) -> dict[str, Any]:
    """A shard's entry in the manifest."""
    return {"name": path.name, "rows": table.num_rows, "bytes": path.stat().st_size, "sha256": file_hash(path)}


def checksum(manifest: dict[str, Any]) -> str:
    """Hash of a manifest's content but for the checksum itself."""
    content = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_shard(path: Path) -> pa.Table:
    """A shard as a memory-mapped table, with one chunk."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


class ParsedCorpus:
    """A whole parsed corpus on disk, opened for reading.

    Opening checks the manifest and the shards' sizes; a shard's checksum is verified the first
    time it is read.

    Attributes:
        path: its folder.
        manifest: what ``manifest.json`` says.
        fingerprint: hash of the manifest, and so of the whole content.
        shard_rows: number of sentences of each shard; a shard may have none.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], fingerprint: str) -> None:
        self.path = path
        self.manifest = manifest
        self.fingerprint = fingerprint
        self.shard_rows: list[int] = [shard["rows"] for shard in manifest["shards"]]
        self._starts = list(accumulate(self.shard_rows, initial=0))
        self._verified: set[int] = set()
        self._open = lru_cache(OPEN_SHARDS)(self._read_shard)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the corpus in the folder ``path``.

        Raises:
            InputError: if it is not there, not whole, of another format version or damaged.
        """
        path = Path(path)
        text = read_manifest(path)
        corpus = cls(path, parse_manifest(path, text), hashlib.sha256(text).hexdigest())
        for shard in corpus.manifest["shards"]:
            check_size(path / shard["name"], shard["bytes"])
        return corpus

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Row]:
        for number in range(self.n_shards):
            yield from rows_of(self.shard(number))

    @property
    def n_shards(self) -> int:
        return len(self.shard_rows)

    @property
    def parser(self) -> dict[str, Any]:
        """Name, version, settings and model hash of the parser that made the trees."""
        return self.manifest["parser"]

    @property
    def has_dependencies(self) -> bool:
        return self.manifest["has_dependencies"]

    @property
    def has_constituents(self) -> bool:
        return self.manifest["has_constituents"]

    @property
    def skipped(self) -> list[Skipped]:
        """The sentences of the source that are not in the corpus, in order."""
        return [Skipped(**skip) for skip in self.manifest["skipped"]]

    def require(self, tree: Literal["dependency", "constituency"]) -> None:
        """Raise InputError unless every sentence has this kind of tree."""
        if not {"dependency": self.has_dependencies, "constituency": self.has_constituents}[tree]:
            raise InputError(
                f"{self.path} has no {tree} trees (parser {self.parser['name']}): "
                f"choose views without them, or parse the text again with another --parser, or with --dep and --const"
            )

    def shard(self, number: int) -> pa.Table:
        """Shard ``number`` as a memory-mapped table of ``SCHEMA``.

        Raises:
            InputError: if its content is not what was written.
        """
        return self._open(number)

    def tables(self) -> Iterator[pa.Table]:
        """The shards in order."""
        return map(self.shard, range(self.n_shards))

    def _read_shard(self, number: int) -> pa.Table:
        entry = self.manifest["shards"][number]
        path = self.path / entry["name"]
        if number not in self._verified:
            check_content(path, entry)
            self._verified.add(number)
        return read_shard(path)

    def row(self, index: int) -> Row:
        """Sentence ``index`` of the corpus (from 0) with its place in the source."""
        if not 0 <= index < len(self):
            raise InputError(f"{self.path} has no sentence {index}: it has {len(self)}, numbered from 0")
        number = bisect_right(self._starts, index) - 1
        return next(rows_of(self.shard(number).slice(index - self._starts[number], 1)))

    def sentence(self, index: int) -> ParsedSentence:
        """Sentence ``index`` of the corpus (from 0)."""
        return self.row(index).sentence


def rows_of(table: pa.Table) -> Iterator[Row]:
    """The rows of a table of ``SCHEMA``."""
    places = (table[name].to_pylist() for name in ("document", "position", "line"))
    fields = ((tuple(each) for each in table[name].to_pylist()) for name in SENTENCE_FIELDS)
    for document, position, line, *sentence in zip(*places, *fields, strict=True):
        yield Row(document, position, line, ParsedSentence(*sentence))


def read_manifest(path: Path) -> bytes:
    """The manifest's bytes; InputError says why there is none."""
    if (path / MANIFEST).is_file():
        return (path / MANIFEST).read_bytes()
    if (path / JOB).is_file():
        raise InputError(f"{path} is unfinished: give its `structviews parse` command again to finish it")
    if path.exists():
        raise InputError(f"{path} is not a parsed corpus (no {MANIFEST}): make one with `structviews parse`")
    raise InputError(f"{path} does not exist: make a parsed corpus with `structviews parse`")


def parse_manifest(path: Path, text: bytes) -> dict[str, Any]:
    """The manifest's content, checked."""
    try:
        manifest = json.loads(text)
    except ValueError as error:
        raise DamagedCorpus(path / MANIFEST, f"not JSON ({error})") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path / MANIFEST} is not the manifest of a parsed corpus: make one with `structviews parse`")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path / MANIFEST} has format version {version}, this structviews reads {FORMAT_VERSION}: "
            f"parse the text again to another --out"
        )
    if manifest.get("checksum") != checksum(manifest):
        raise DamagedCorpus(path / MANIFEST, "its checksum is not that of its content")
    return manifest


def check_size(path: Path, size: int) -> None:
    """Raise InputError unless the shard is there with the size the manifest gives."""
    if not path.is_file():
        raise DamagedCorpus(path, "the file is missing")
    if path.stat().st_size != size:
        raise DamagedCorpus(path, f"{path.stat().st_size} bytes where the manifest has {size}")


def check_content(path: Path, entry: dict[str, Any]) -> None:
    """Raise InputError unless a shard is there and its bytes are those of its entry in the manifest."""
    check_size(path, entry["bytes"])
    if file_hash(path) != entry["sha256"]:
        raise DamagedCorpus(path, "its checksum is not the manifest's")


class DamagedCorpus(InputError):  # noqa: N818 - says what it is
    """A corpus that is not what was written.

    Attributes:
        fault: where and what, without the remedy.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.fault = f"{path.name}: {what}"
        super().__init__(f"{path} is damaged: {what}; delete {path.parent} and parse the text again, or copy it again")


def find_corpus(folder: str | Path = ".") -> Path:
    """The only ``*.parsed`` folder in ``folder``.

    Raises:
        InputError: if there is none, or several.
    """
    found = sorted(path for path in Path(folder).glob("*.parsed") if path.is_dir())
    if not found:
        raise InputError(f"no *.parsed folder in {Path(folder).resolve()}: make one with `structviews parse`")
    if len(found) > 1:
        raise InputError(f"several parsed corpora ({', '.join(map(str, found))}): name one with --corpus")
    return found[0]


def new_job(**fields: Any) -> dict[str, Any]:
    """The head of a manifest: format, version and what makes the corpus."""
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **fields}


def reasons(skipped: Iterable[Skipped]) -> dict[str, int]:
    """How many sentences were skipped for each reason, the most frequent first."""
    return dict(Counter(skip.reason for skip in skipped).most_common())
