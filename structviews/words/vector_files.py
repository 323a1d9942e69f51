"""Word-vector files: converted once, block by block, and memory-mapped from then on; a corpus' words in them.

Shapes: V words in the file, n words looked up, dim dimension of a vector.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.runtime.files import clear, digest, write_whole, writing
from structviews.runtime.terminal import OnProgress
from structviews.words.sub_words import SubWords
from structviews.words.vector_formats import Block, FastTextFile, VectorSource
from structviews.words.vocabulary import Vocabulary, spelt

STAMP_KEY = b"structviews.vectors"
STAMP_VERSION = 2
# In the metadata of a record batch: digests of its words and dimension, and of its vectors.
WORDS_KEY, VECTORS_KEY = b"words", b"vectors"
# Seconds to wait for another process that converts the same file.
PATIENCE = 3600
FINGERPRINT_ROWS = 1000
# Size of the vectors in one record batch of the Arrow file.
PART_BYTES = 2**25
# How an Arrow file is that cannot be read.
UNSOUND = (OSError, pa.ArrowException, KeyError, ValueError)


class Part(NamedTuple):
    """A record batch of an Arrow file: words ``(V,)``, memory-mapped vectors ``(V, dim)``, and the digest of these."""

    words: pa.Array
    vectors: np.ndarray
    digest: str


class WordVectors:
    """The distinct words ``(V,)`` of a vector file, and their vectors, which stay on disk until they are read.

    The ``words`` are in the order of the file; ``sub_words`` are the n-grams of which other words are composed, None if
    the file has none.
    """

    def __init__(self, path: Path, parts: Sequence[Part], sub_words: SubWords | None = None):
        self.path = path
        self.sub_words = sub_words
        self.dim: int = parts[0].vectors.shape[1]
        self.words: pa.Array = pa.chunked_array([part.words for part in parts]).combine_chunks()
        self._parts = list(parts)
        self._sound: set[int] = set()
        self._starts = np.cumsum([0, *(len(part.words) for part in parts)])

    @classmethod
    def open(cls, path: str | Path, progress: OnProgress | None = None) -> Self:
        """Open a vector file: GloVe text, word2vec text or binary, fastText ``.vec``, gzipped or not, or ``.bin``.

        The first call converts the file to a memory-mapped Arrow file, ``NAME.arrow`` in the same folder or, if that is
        not writable, in the user's cache folder; it is converted again if its size or modification time changes, or if
        the Arrow file is damaged. Only the words are held in memory. If a word occurs twice, its first vector is kept,
        with a warning. ``progress`` is called with the number of bytes read and their total during conversion.

        Raises InputError if the file cannot be read, has none of these formats, is truncated, or has vectors of
        different dimensions or with values that are NaN or infinite.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                model = FastTextFile.of(path, file)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}: give a file of word vectors") from None
        parts = _mapped(path) or _converted(path, progress)
        for arrow in _arrow_files(path):
            clear(arrow)
        return cls(path, parts, model.sub_words if model else None)

    def __reduce__(self) -> Any:
        return type(self).open, (self.path.absolute(),)  # pickled by its path: another process maps the file itself

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def uncased(self) -> bool:
        """Whether no word of the file has a capital letter, so that words are looked up in lower case."""
        # By str.lower, as words are looked up: Arrow's own knows letters that Python's does not.
        parts = (self.words[start : start + 4096].to_pylist() for start in range(0, len(self), 4096))
        return all(word == word.lower() for part in parts for word in part)

    def find(self, words: Iterable[str]) -> np.ndarray:
        """Indices of words in the file: ``(n,)`` int64, -1 for words it does not have."""
        return np.fromiter(map(self._index_of.get, spelt(words, self.uncased), repeat(-1)), np.int64)

    @cached_property
    def _index_of(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words.to_pylist())}

    def read(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Which words have a vector, ``(n,)`` bool, and these vectors ``(found, dim)``, float32.

        Words that the file does not have are composed of their n-grams if it has these.
        """
        indices = self.find(words)
        missing = np.flatnonzero(indices < 0)
        if self.sub_words is None or not len(missing):
            return indices >= 0, self.rows(indices[indices >= 0])
        composed, vectors = self.sub_words.read([*spelt((words[i] for i in missing.tolist()), self.uncased)])
        found = self.rows(indices)
        found[missing[composed]] = vectors
        has_vector = indices >= 0
        has_vector[missing[composed]] = True
        return has_vector, found[has_vector]

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Vectors ``(n, dim)``, float32, of the words at ``indices (n,)``; zeros for -1.

        Only these are read from disk, in file order. Raises IndexError if an index is out of range.
        """
        if len(indices) and not -1 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"indices {indices.min()} to {indices.max()}: the file has {len(self)} words")
        vectors = np.zeros((len(indices), self.dim), dtype=np.float32)
        order = np.argsort(indices, kind="stable")
        bounds = np.searchsorted(indices[order], self._starts)
        for number, (start, begin, end) in enumerate(zip(self._starts, bounds[:-1], bounds[1:], strict=False)):
            own = order[begin:end]
            if len(own):
                vectors[own] = self._sound_part(number).vectors[indices[own] - start]
        return vectors

    def _sound_part(self, number: int) -> Part:
        """A part whose digest was checked when it was first read; if it is wrong, all is converted again."""
        if number in self._sound:
            return self._parts[number]
        if digest(self._parts[number].vectors.data) != self._parts[number].digest:
            before = [(part.words, part.vectors.shape) for part in self._parts]
            parts = _converted(self.path, None, damaged=True)
            if [(part.words, part.vectors.shape) for part in parts] != before:
                raise InputError(f"{self.path}: changed while it was in use: run the command again")
            self._parts, self._sound = parts, set()
        self._sound.add(number)
        return self._parts[number]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the words and of about a thousand evenly spaced vectors; identifies the content."""
        digest = hashlib.sha256(f"{len(self)} {self.dim}\n".encode())
        for buffer in self.words.buffers()[1:]:
            digest.update(buffer)
        digest.update(self.rows(np.arange(0, len(self), max(1, len(self) // FINGERPRINT_ROWS))).tobytes())
        return digest.hexdigest()


def fixed_words(
    corpus: ParsedCorpus, vectors: WordVectors, unknown: np.random.Generator | None = None
) -> tuple[Vocabulary, np.ndarray]:
    """The words of a corpus that have a vector, and the table ``(words, dim)`` of these vectors.

    The first row is for all unknown words: zeros (multi-view, supplement 4) or, with a generator, drawn from U(0, 1),
    as the quick-thoughts authors' code does. Raises InputError if the file has no word of the corpus.
    """
    every = Vocabulary.of_corpus(corpus, uncased=vectors.uncased)
    indices = vectors.find(every.words[1:])
    if (indices < 0).all():
        raise InputError(f"{vectors.path}: has no word of {corpus.path}: give vectors for its language")
    found = np.concatenate([[True], indices >= 0])
    words = [word for word, keep in zip(every.words, found.tolist(), strict=True) if keep]
    occurrences = np.array(every.counts)
    counts = occurrences[found]
    counts[0] += occurrences[~found].sum()
    table = vectors.rows(np.concatenate([[-1], indices[indices >= 0]]))
    if unknown:
        table[0] = unknown.random(vectors.dim)
    return Vocabulary(words, counts, vectors.uncased), table


def save_vectors(path: Path, words: Sequence[str], vectors: np.ndarray) -> None:
    """Write words and vectors ``(V, dim)`` to a word2vec file: binary if its name ends in ``.bin``, else text.

    The text preserves them exactly, too. The file appears complete or not at all.
    """

    def write(file: BinaryIO) -> None:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors.astype("<f4"), strict=True):
            if path.suffix == ".bin":
                numbers = vector.tobytes()
            else:
                numbers = " ".join(pa.array(vector).cast(pa.string()).to_pylist()).encode()
            file.write(b"%b %b\n" % (word.encode(), numbers))

    write_whole(path, write)


def _stamp(path: Path) -> bytes:
    """Size and modification time of ``path``; an Arrow file with another stamp is out of date."""
    about = path.stat()
    return json.dumps({"version": STAMP_VERSION, "bytes": about.st_size, "modified": about.st_mtime_ns}).encode()


def _arrow_files(path: Path) -> tuple[Path, Path]:
    """Possible locations of the Arrow file: next to ``path``, or in the user's cache folder (XDG base directories)."""
    name = f"{path.name}.arrow"
    key = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return path.with_name(name), cache / "structviews" / f"{key}-{name}"


def arrow_file(path: Path) -> Path | None:
    """The Arrow file of a vector file that was opened before; None if there is none."""
    return next((arrow for arrow in _arrow_files(path) if arrow.exists()), None)


def check_arrow(arrow: Path, remedy: str) -> None:
    """Raise InputError unless an Arrow file has the words and vectors that were written."""
    with suppress(*UNSOUND):
        if all(digest(part.vectors.data) == part.digest for part in _parts(arrow)):
            return
    raise InputError(f"{arrow}: damaged: its vectors do not match their digests: {remedy}")


def _mapped(path: Path) -> list[Part] | None:
    """The memory-mapped Arrow file of ``path``; None if there is none that is up to date and sound."""
    stamp = _stamp(path)
    for arrow in _arrow_files(path):
        with suppress(*UNSOUND):
            return _parts(arrow, stamp)
    return None


def _parts(arrow: Path, stamp: bytes | None = None) -> list[Part]:
    """The record batches, with their words checked; vectors are checked when they are first read.

    Raises one of ``UNSOUND`` if they are damaged, or of another ``stamp``.
    """
    reader, parts = pa.ipc.open_file(pa.memory_map(str(arrow))), []
    if stamp and (reader.schema.metadata or {}).get(STAMP_KEY) != stamp:
        raise ValueError("of another version of the file")
    for number in range(reader.num_record_batches):
        batch, digests = reader.get_batch_with_custom_metadata(number)
        words, lists = batch["word"], batch["vector"]
        words.validate(full=True)
        lists.validate(full=True)
        kind = lists.type
        flat = pa.types.is_fixed_size_list(kind) and kind.value_type == pa.float32() and kind.list_size
        if digests is None or words.type != pa.string() or not flat or words.null_count or lists.null_count:
            raise ValueError(f"record batch {number} is not of words and vectors")
        if words_digest(words, kind.list_size) != digests[WORDS_KEY].decode():
            raise ValueError(f"record batch {number} is damaged")
        vectors = lists.flatten().to_numpy().reshape(len(words), -1)
        parts.append(Part(words, vectors, digests[VECTORS_KEY].decode()))
    if not parts:
        raise ValueError("no record batches")
    return parts


def words_digest(words: pa.Array, dim: int) -> str:
    """Digest of the words, without padding, and of the dimension of their vectors."""
    _, offsets, characters = words.buffers()
    ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    return digest((ends - ends[0]).data, np.frombuffer(characters, np.uint8)[ends[0] : ends[-1]].data, b"%d" % dim)


def _converted(path: Path, progress: OnProgress | None, damaged: bool = False) -> list[Part]:
    """Convert ``path`` to an Arrow file and map it, unless another process has done so; always if it is damaged."""
    beside, cached = _arrow_files(path)
    arrow = beside if os.access(path.parent, os.W_OK) else cached
    arrow.parent.mkdir(parents=True, exist_ok=True)
    # Several processes of a job may get here at once.
    with path.open("rb") as raw, writing(arrow, PATIENCE):
        parts = None if damaged else _mapped(path)
        if parts is None:
            stamp = _stamp(path)
            write_whole(arrow, lambda file: _convert(path, raw, stamp, file, progress))
            parts = _mapped(path)
    if parts is None:
        raise InputError(f"{path}: changed while it was being read: run the command again")
    return parts


def _convert(path: Path, raw: BinaryIO, stamp: bytes, file: BinaryIO, progress: OnProgress | None) -> None:
    seen, n_read = set[str](), 0
    source = FastTextFile.of(path, raw) or VectorSource.of(path, raw)
    fields = [("word", pa.string()), ("vector", pa.list_(pa.float32(), source.dim))]
    schema = pa.schema(fields, metadata={STAMP_KEY: stamp})
    total = path.stat().st_size
    with pa.ipc.new_file(file, schema) as writer:
        for block in _joined(source.read()):
            words, vectors = block
            n_read += len(words)
            new = []
            for i, word in enumerate(words.to_pylist()):
                if word not in seen:
                    seen.add(word)
                    new.append(i)
            if len(new) < len(words):
                words, vectors = words.take(pa.array(new, pa.int64())), vectors[new]
            if len(words):
                lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), source.dim)
                sealed = digest(np.ascontiguousarray(vectors).data)
                digests = {WORDS_KEY: words_digest(words, source.dim), VECTORS_KEY: sealed}
                writer.write_batch(pa.record_batch([words, lists], schema=schema), digests)
            if progress:
                progress(total * n_read // source.n_words if source.n_words else raw.tell(), total)
    if len(seen) < n_read:
        twice = n_read - len(seen)
        message = f"{path}: {twice:,} of {n_read:,} words are duplicates: the first vector of each word is kept"
        warnings.warn(message, stacklevel=4)


def _joined(blocks: Iterator[Block]) -> Iterator[Block]:
    """Merge blocks into larger ones, since ``rows`` loops over them."""
    words: list[pa.Array] = []
    vectors: list[np.ndarray] = []
    for block in blocks:
        words.append(block[0])
        vectors.append(block[1])
        if sum(each.nbytes for each in vectors) >= PART_BYTES:
            yield pa.concat_arrays(words), np.concatenate(vectors)
            words, vectors = [], []
    if words:
        yield pa.concat_arrays(words), np.concatenate(vectors)
