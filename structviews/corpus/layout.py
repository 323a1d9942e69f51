"""The files of a parsed corpus: its columns and the encoding of its shards. The schema is in ``docs/cache.md``."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Annotated, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from msgspec import Meta

from structviews.corpus.sentence import CONFIDENCE, ParsedSentence
from structviews.corpus.tree_arrays import constituency_parents, dependency_parents, heights
from structviews.runtime.documents import parse_json

Count = Annotated[int, Meta(ge=0)]

FORMAT = "structviews parsed corpus"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
# While a corpus is being parsed: what is to be parsed and how, and the entries of the shards that are finished.
JOB = "job.json"
FINISHED = "finished.jsonl"
SHARD_NAME = re.compile(r"shard-\d{5,}\.arrow")
# Manifest key of the folder of the parser's models, if the user gave one; the only path in a manifest.
MODELS = "models"
# Manifest key of a corpus that rules made of another one; see ``parsed_corpus.Perturbed``.
PERTURBED = "perturbed"

# The columns: places, and lists of names and of small numbers. Names are dictionary-encoded per shard; their indices
# and all numbers use the narrowest integer type that fits.
PLACES = {"document": pa.int32(), "position": pa.int32(), "line": pa.int64()}
NAMES = ("tokens", "tags", "relations", "labels")
NUMBERS = ("heads", "left", "right", "dep_height", "const_height")
COLUMNS = (*PLACES, "tokens", "tags", "heads", "relations", "left", "right", "labels", "dep_height", "const_height")
LISTS = ParsedSentence.__slots__[:-1]
# Further ones that a corpus may keep. From treebank files: each sentence's part of the text of these files, so that
# they can be given back; nothing but export and the tools for whole corpora reads them. From a parser: its confidence.
FILE_TEXTS = ("conllu", "ptb")
SURE = "confidence"
OPTIONAL = dict.fromkeys(FILE_TEXTS, pa.string()) | {SURE: pa.list_(pa.float32(), len(CONFIDENCE))}
BYTE_WORDS = 128  # the node numbers of a sentence with at most this many words fit in a byte
SKIPPED_KEY = b"structviews.skipped"


@dataclass(frozen=True, slots=True)
class Row:
    """One sentence of a parsed corpus and its place in the source."""

    document: int  # number of the document in the corpus, from 0
    position: int  # index of the sentence in its source document, from 0; skipped sentences leave gaps
    line: int  # line in the source file, from 1
    sentence: ParsedSentence
    conllu: str = ""  # its part of the text of such a treebank file, if the corpus keeps that
    ptb: str = ""

    @property
    def confidence(self) -> tuple[float, ...]:
        """That of the sentence."""
        return self.sentence.confidence


@dataclass(frozen=True, slots=True)
class Skipped:
    """A sentence of the source that was left out, and the reason; the rest as in :class:`Row`."""

    document: Count
    position: Count
    line: Count
    reason: str
    conllu: str = ""
    ptb: str = ""


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.arrow"


@dataclass(frozen=True)
class Form:
    """How the shards of a corpus are encoded."""

    longest: int | None = None  # most words of a sentence, which fix the integer width; None: each shard's narrowest
    compression: str | None = None  # zstd, or None for uncompressed files, which are memory-mapped without a copy
    kept: tuple[str, ...] = ()  # which of the ``OPTIONAL`` columns there are

    @classmethod
    def of(cls, job: dict[str, Any]) -> Self:
        """The form of the corpus that a manifest or a job describes."""
        settings = job.get("settings", {})
        return cls(settings.get("max_tokens"), settings.get("compression"), tuple(job.get("kept", ())))

    @property
    def plain(self) -> pa.Schema:
        """The columns, with names as strings and the widest numbers."""
        lists = {name: pa.list_(pa.string() if name in NAMES else pa.uint16()) for name in COLUMNS}
        return pa.schema({**lists, **PLACES, **{name: OPTIONAL[name] for name in self.kept}})

    def numbers(self, longest: int) -> pa.DataType:
        """The integer type of word and node numbers in a shard whose longest sentence has ``longest`` words."""
        return pa.uint8() if (self.longest or longest) <= BYTE_WORDS else pa.uint16()


def encode_shard(batch: pa.RecordBatch, skipped: Sequence[Skipped], form: Form) -> pa.Buffer:
    """The bytes of a shard file with the columns of ``batch_of``; equal arguments give equal bytes."""
    # Skipped sentences are in the shard's schema metadata, so that the two cannot get separated.
    batch = batch.replace_schema_metadata({SKIPPED_KEY: json.dumps([note(skip) for skip in skipped])})
    options = pa.ipc.IpcWriteOptions(compression=form.compression)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def note(skip: Skipped, *, with_text: bool = True) -> dict[str, Any]:
    """A skipped sentence as in a file, with or without its text."""
    texts = (name for name in FILE_TEXTS if with_text and getattr(skip, name))
    return {name: getattr(skip, name) for name in ("document", "position", "line", "reason", *texts)}


def batch_of(rows: Sequence[Row], form: Form) -> pa.RecordBatch:
    """The rows as a record batch."""
    sentences = [row.sentence for row in rows]
    kind = form.numbers(max((len(sentence.tokens) for sentence in sentences), default=0))
    lists = {name: [getattr(sentence, name) for sentence in sentences] for name in LISTS}
    sizes = {name: np.array([len(each) for each in values], np.int64) for name, values in lists.items()}
    flat = {name: np.fromiter(chain.from_iterable(lists[name]), np.int64) for name in ("heads", "left", "right")}
    columns = {name: pa.array([getattr(row, name) for row in rows], place) for name, place in PLACES.items()}
    columns |= {name: list_array(encoded(lists[name]), sizes[name]) for name in NAMES}
    columns |= {name: list_array(pa.array(values).cast(kind), sizes[name]) for name, values in flat.items()}
    lengths = (sizes["labels"][sizes["labels"] > 0] + 1) // 2
    for name, like, parents in (
        ("dep_height", "heads", dependency_parents(flat["heads"], sizes["heads"])),
        ("const_height", "labels", constituency_parents(flat["left"], flat["right"], lengths)),
    ):
        columns[name] = list_array(pa.array(heights(parents)).cast(kind), sizes[like])
    columns |= {name: pa.array([getattr(row, name) for row in rows], OPTIONAL[name]) for name in form.kept}
    names = [*COLUMNS, *form.kept]
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def list_array(values: pa.Array, sizes: np.ndarray) -> pa.Array:
    """Lists of these sizes, whose values are concatenated."""
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32()), values)


def encoded(lists: Sequence[Sequence[str]]) -> pa.Array:
    """The strings of all lists, dictionary-encoded, the dictionary in order of first appearance."""
    ids = {text: i for i, text in enumerate(dict.fromkeys(chain.from_iterable(lists)))}
    indices = np.fromiter(map(ids.__getitem__, chain.from_iterable(lists)), np.int32)
    return narrow(pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(list(ids), pa.string())))


def narrow(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same strings with the narrowest index type that fits the dictionary."""
    kind = next(k for k in (pa.int8(), pa.int16(), pa.int32()) if len(values.dictionary) <= 2 ** (k.bit_width - 1))
    return pa.DictionaryArray.from_arrays(values.indices.cast(kind), values.dictionary)


def skipped_of(table: pa.Table) -> list[Skipped]:
    """The skipped sentences recorded in a shard."""
    notes = parse_json(table.schema.metadata[SKIPPED_KEY], list[Skipped], "skipped sentences", "parse again")
    return [Skipped(**skip) for skip in notes]


def rows_of(table: pa.Table) -> Iterator[Row]:
    """The rows of a shard's table, which was checked when it was written."""
    places = (table[name].to_pylist() for name in ("document", "position", "line"))
    fields = ((tuple(each) for each in table[name].to_pylist()) for name in LISTS)
    texts = (table[name].to_pylist() if name in table.column_names else repeat("", len(table)) for name in FILE_TEXTS)
    sure = map(tuple, table[SURE].to_pylist()) if SURE in table.column_names else repeat((), len(table))
    for document, position, line, conllu, ptb, own, *sentence in zip(*places, *texts, sure, *fields, strict=True):
        tree = ParsedSentence.unchecked(*sentence, confidence=own)
        yield Row(document, position, line, tree, conllu, ptb)


def new_job(**fields: Any) -> dict[str, Any]:
    """The head of a manifest: format, version and how the corpus is made."""
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **fields}
