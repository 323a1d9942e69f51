"""Reading a parsed corpus: only files that are exactly those of the manifest, whose digest seals them.

That all sentences are trees is proved when the manifest is written, and by ``verify``; the digests carry it over.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NotRequired, Self, TypedDict

import pyarrow as pa
import pyarrow.ipc

from structviews.corpus import layout
from structviews.corpus.layout import Count, Form, Row, Skipped
from structviews.corpus.relations import has_relations
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.runtime.documents import CHECKSUM, checked, checksum, parse_json
from structviews.runtime.files import file_hash
from structviews.runtime.wording import reason

# Every open shard holds a file descriptor, and a large corpus can have thousands of shards.
OPEN_SHARDS = 64
SHARD_ROWS = 1000  # maximum rows per shard, so that reading one takes little memory and time
OTHER_COLUMNS = "its columns are not those that the manifest names"


class ShardEntry(TypedDict):
    """A shard in the manifest: its file, its number of rows, its size and its digest."""

    name: str
    rows: int
    bytes: int
    sha256: str


class Named(TypedDict):
    """A parser's or a tokeniser's entry in the manifest; further keys are its own."""

    name: str
    language: NotRequired[str]


class Perturbed(TypedDict):
    """Of what corpus rules made this one, by its fingerprint, and which of the rules keep the meaning.

    Each row's ``document`` is the index of its source sentence in that corpus, and ``position`` that of its rule among
    the ``rules`` of the settings.
    """

    corpus: str
    keeps: list[bool]


class Manifest(TypedDict):
    """The content of ``manifest.json``."""

    documents: Count
    sentences: Count
    tokens: Count
    has_dependencies: bool
    has_constituents: bool
    skipped: list[Skipped]
    shards: list[ShardEntry]
    parser: Named
    tokeniser: Named
    settings: dict[str, Any]
    sources: list[dict[str, Any]]
    models: NotRequired[str]
    repaired: NotRequired[dict[str, Count]]
    kept: NotRequired[list[str]]
    perturbed: NotRequired[Perturbed]


class DamagedCorpus(InputError):  # noqa: N818 - named for the state of the corpus
    """A corpus whose files have changed since they were written; ``fault`` is the file and what is wrong with it."""

    def __init__(self, path: Path, what: str) -> None:
        self.fault = f"{path.name}: {what}"
        super().__init__(f"{path} is damaged: {what}: copy {path.parent} again, or delete it and parse the text again")


class ParsedCorpus:
    """A complete parsed corpus on disk, opened for reading.

    Opening checks the manifest and the shards' sizes; a shard's digest and its Arrow buffers are checked the first
    time it is read, before anything computes with them.

    Attributes:
        path, manifest: its folder, and the content of ``manifest.json``.
        fingerprint: hash of the manifest, and so of the whole content.
        n_shards, shard_rows: number of shards, and of sentences of each, which may be 0.
        parser: name, version, settings and model hash of the parser that produced the trees.
        has_dependencies, has_constituents: whether every sentence has such a tree.
        kept: which of ``layout.OPTIONAL`` it has: the text of treebank files, or the parser's confidence.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], fingerprint: str) -> None:
        self.path, self.manifest, self.fingerprint = path, manifest, fingerprint
        self.shard_rows: list[int] = [shard["rows"] for shard in manifest["shards"]]
        self.n_shards = len(self.shard_rows)
        self.parser: dict[str, Any] = manifest["parser"]
        self.has_dependencies: bool = manifest["has_dependencies"]
        self.has_constituents: bool = manifest["has_constituents"]
        self.kept: list[str] = manifest.get("kept", [])
        self._starts = list(accumulate(self.shard_rows, initial=0))
        self._verified: set[int] = set()
        self.shard = lru_cache(OPEN_SHARDS)(self.shard)  # type: ignore[method-assign]

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a folder; raises InputError if it is no corpus, unfinished, damaged, or of another format version."""
        path = Path(path)
        corpus = cls(path, *read_manifest(path))
        for shard in corpus.manifest["shards"]:
            check_size(path / shard["name"], shard["bytes"])
        return corpus

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Row]:
        for table in self.tables():
            yield from layout.rows_of(table)

    @property
    def skipped(self) -> list[Skipped]:
        """The sentences of the source that were left out, in order."""
        return [Skipped(**skip) for skip in self.manifest["skipped"]]

    def require(self, tree: str) -> None:
        """Raise InputError unless all sentences have such trees, for ``labelled`` with relations, as the first tell."""
        if tree == "labelled":
            self.require("dependency")
            first = next((table for table in self.tables() if len(table)), None)
            names = first["relations"].chunk(0).values.dictionary.to_pylist() if first else []
            if not has_relations(names):
                raise InputError(
                    f"{self.path}: its dependency trees have no relations of Universal Dependencies (parser "
                    f"{self.parser['name']}): choose a view that reads none, such as dep, or parse the text again with "
                    "another --parser, such as builtin"
                )
        elif not {"dependency": self.has_dependencies, "constituency": self.has_constituents}[tree]:
            raise InputError(
                f"{self.path} has no {tree} trees (parser {self.parser['name']}): "
                f"choose other views, or parse the text again with another --parser, such as builtin"
            )

    def shard(self, number: int) -> pa.Table:
        """Shard ``number`` as a memory-mapped table; raises InputError if it is missing or damaged."""
        entry = self.manifest["shards"][number]
        path = self.path / entry["name"]
        if number in self._verified:
            return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table = whole_shard(path, entry)
        if table.column_names[len(layout.COLUMNS) :] != self.kept:
            raise DamagedCorpus(path, OTHER_COLUMNS)
        self._verified.add(number)
        return table

    def tables(self) -> Iterator[pa.Table]:
        """The shards in order."""
        return map(self.shard, range(self.n_shards))

    def row(self, index: int) -> Row:
        """Sentence ``index`` of the corpus (from 0) with its place in the source."""
        if not 0 <= index < len(self):
            raise InputError(f"{self.path} has no sentence {index}: its {len(self)} sentences are numbered from 0")
        number = bisect_right(self._starts, index) - 1
        return next(layout.rows_of(self.shard(number).slice(index - self._starts[number], 1)))

    def sentence(self, index: int) -> ParsedSentence:
        """Sentence ``index`` of the corpus (from 0)."""
        return self.row(index).sentence


def read_manifest(path: Path) -> tuple[dict[str, Any], str]:
    """The manifest of the corpus ``path``, checked, and the SHA-256 of its file.

    Raises InputError if there is none, or it is not of this format version; DamagedCorpus if its content has changed.
    """
    file = path / layout.MANIFEST
    if not file.is_file():
        if (path / layout.JOB).is_file():
            raise InputError(f"{path} is unfinished: run the command that made it once more to finish it")
        if path.exists():
            raise InputError(f"{path} is not a parsed corpus (no {layout.MANIFEST}): make one with `structviews parse`")
        raise InputError(f"{path} does not exist: make a parsed corpus with `structviews parse`")
    text = file.read_bytes()
    try:
        manifest: Any = parse_json(text, object, "it", "damaged")
    except InputError as error:
        raise DamagedCorpus(file, _cause(error)) from None
    if not isinstance(manifest, dict) or manifest.get("format") != layout.FORMAT:
        raise InputError(f"{file} is not the manifest of a parsed corpus: make one with `structviews parse`")
    version = manifest.get("format_version")
    if version != layout.FORMAT_VERSION:
        raise InputError(
            f"{file} has format version {version}, but this version of structviews reads {layout.FORMAT_VERSION}: "
            f"parse the text again with another --out"
        )
    if manifest.get(CHECKSUM) != checksum(manifest):
        raise DamagedCorpus(file, "its checksum does not match its content")
    try:
        checked(manifest, Manifest, "it", "damaged")
    except InputError as error:
        raise DamagedCorpus(file, _cause(error)) from None
    for shard in manifest["shards"]:
        if not layout.SHARD_NAME.fullmatch(shard["name"]):
            raise DamagedCorpus(file, f"{shard['name']!r} is not the name of a shard")
    return manifest, hashlib.sha256(text).hexdigest()


def _cause(error: InputError) -> str:
    """What is wrong, without the source and the remedy that ``runtime.documents`` adds."""
    return str(error).removeprefix("it: ").removesuffix(": damaged")


def check_size(path: Path, size: int) -> None:
    """Raise DamagedCorpus unless the shard exists and has the size in the manifest."""
    if not path.is_file():
        raise DamagedCorpus(path, "the file is missing")
    if path.stat().st_size != size:
        raise DamagedCorpus(path, f"it has {path.stat().st_size} bytes, but the manifest says {size}")


def whole_shard(path: Path, entry: ShardEntry) -> pa.Table:
    """A shard's content, memory-mapped; DamagedCorpus unless its file is exactly the manifest's and a parsed corpus."""
    check_size(path, entry["bytes"])
    if file_hash(path) != entry["sha256"]:
        raise DamagedCorpus(path, "its checksum does not match the manifest")
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise DamagedCorpus(path, f"it cannot be read ({reason(error)})") from None
    plain = list(table.schema.types)  # as in ``Form.plain``, whatever the width of numbers and indices
    for i, kind in enumerate(plain):
        if pa.types.is_list(kind):
            value = kind.value_type
            are_names = pa.types.is_dictionary(value) and value.value_type == pa.string()
            of_kind = pa.string() if are_names else pa.uint16() if value in (pa.uint8(), pa.uint16()) else pa.null()
            plain[i] = pa.list_(of_kind)
    kept = tuple(name for name in layout.OPTIONAL if name in table.column_names)
    found = pa.schema(zip(table.column_names, plain, strict=True))
    if found != Form(kept=kept).plain or layout.SKIPPED_KEY not in (table.schema.metadata or {}):
        raise DamagedCorpus(path, "its columns are not those of a parsed corpus")
    if any(column.num_chunks != 1 for column in table.columns):
        raise DamagedCorpus(path, "it is not one record batch")
    for array in (column.chunk(0) for column in table.columns):
        values = array.values if pa.types.is_list(array.type) else array
        names = values.dictionary if pa.types.is_dictionary(values.type) else values
        if array.null_count or values.null_count or names.null_count:
            raise DamagedCorpus(path, "a value is missing")
    try:
        layout.skipped_of(table)
    except InputError as error:
        raise DamagedCorpus(path, str(error)) from None
    if table.num_rows != entry["rows"]:
        raise DamagedCorpus(path, f"it has {table.num_rows} rows, but the manifest says {entry['rows']}")
    return table


def find_corpus(*, none: str = "make one with `structviews parse`", several: str = "choose one with --corpus") -> Path:
    """The only ``*.parsed`` folder here; else an InputError with the remedy ``none`` or ``several``."""
    found = sorted(path for path in Path().glob("*.parsed") if path.is_dir())
    if not found:
        raise InputError(f"no *.parsed folder in {Path.cwd()}: {none}")
    if len(found) > 1:
        raise InputError(f"several parsed corpora ({', '.join(map(str, found))}): {several}")
    return found[0]
