"""A pool of sentences to search, with its vectors in a memory-mapped file next to it.

Shapes: n distinct sentences, d dimensions.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import plain_text
from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Preparer, Sentence, SentenceError
from structviews.encoding.representation import check_finite
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import Parsed
from structviews.runtime.array_files import AT_ONCE, Layout, read_blocks, write_blocks
from structviews.runtime.files import clear, file_hash, text_lines
from structviews.runtime.terminal import OnProgress


class Pool(ABC):
    """The distinct sentences of a source.

    Attributes:
        path: path of the source.
        checksum: checksum of the source and how it is read.
        texts: the n distinct sentences as text, in order of first appearance; equal texts are the same sentence.
        places: (n,) first occurrence of each: line of a text, from 1, or sentence of a parsed corpus, from 0.
        counts: (n,) number of occurrences of each.
        lines: (n,) line of the source text with the first occurrence of each, from 1.
        documents: (n,) document with the first occurrence of each, from 1.
    """

    lines: np.ndarray
    documents: np.ndarray

    def __init__(self, path: Path, checksum: str, texts: Sequence[str], first: int):
        self.path = path
        self.checksum = checksum
        counts = Counter(texts)
        places = dict(zip(reversed(texts), range(first + len(texts) - 1, first - 1, -1), strict=True))
        del counts[""]  # blank lines, as between documents
        if not counts:
            raise InputError(f"{path}: empty: give a file or corpus with sentences")
        self.texts = list(counts)
        self.counts = np.fromiter(counts.values(), np.int64, len(counts))
        self.places = np.fromiter((places[text] for text in counts), np.int64, len(counts))
        self._rows = {text: row for row, text in enumerate(self.texts)}

    def __len__(self) -> int:
        return len(self.texts)

    def rows_of(self, texts: Sequence[str]) -> np.ndarray:
        """The row of each text, -1 if it is not in the pool."""
        return np.array([self._rows.get(text, -1) for text in texts], dtype=np.int64)

    def describe(self, row: int) -> str:
        """A sentence with its location and, if repeated, its number of further occurrences."""
        times = f" (and {self.counts[row] - 1:,} more)" if self.counts[row] > 1 else ""
        return f"{self.path}:{self.places[row]}{times}  {self.texts[row]}"

    @contextmanager
    def naming(self, rows: Sequence[int] | np.ndarray) -> Iterator[None]:
        """Add the location to errors for sentences that cannot be encoded; ``rows`` are the rows being encoded."""
        try:
            yield
        except SentenceError as error:
            raise InputError(f"{self.path}:{self.places[rows[error.index]]}: {error.reason}") from None

    def shown(self, row: int) -> str:
        """A sentence as readers write it."""
        return self.texts[row]

    @abstractmethod
    def sentences(self, start: int, stop: int) -> list[Sentence]:
        """Distinct sentences ``start`` to ``stop``, ready to encode."""

    @abstractmethod
    def read(self, line: str) -> tuple[str, Sentence]:
        """A sentence from elsewhere, as text comparable with the pool's, and ready to encode."""


def open_pool(path: Path, tokenised: bool = False) -> Pool:
    """A pool from a parsed corpus, or from a text file with one sentence per line.

    Args:
        path: folder of the corpus, or text file.
        tokenised: whether lines, here and in ``Pool.read``, are already tokenised (separated by white space).

    Raises:
        InputError: if it cannot be read or is empty.
    """
    return CorpusPool(path, tokenised) if path.is_dir() else TextPool(path, tokenised)


class TextPool(Pool):
    """A text with one sentence per line; see ``open_pool``."""

    def __init__(self, path: Path, tokenised: bool = False):
        self._tokenised = tokenised
        texts = [" ".join(line.split()) for line in text_lines(path)]
        checksum = f"{file_hash(path)} {'tokenised' * tokenised}"
        super().__init__(path, checksum, texts, first=1)
        blank = np.array([True, *(not text for text in texts)])
        self.lines = self.places
        self.documents = np.cumsum(blank[:-1] & ~blank[1:])[self.places - 1]

    def sentences(self, start: int, stop: int) -> list[Sentence]:
        return [text.split() if self._tokenised else text for text in self.texts[start:stop]]

    def read(self, line: str) -> tuple[str, Sentence]:
        text = " ".join(line.split())
        return text, text.split() if self._tokenised else text


class CorpusPool(Pool):
    """A parsed corpus: its sentences come with their trees; see ``open_pool``."""

    def __init__(self, path: Path, tokenised: bool = False):
        self._corpus = corpus = ParsedCorpus.open(path)
        self._tokenised = tokenised
        texts: list[str] = []
        columns: dict[str, list[np.ndarray]] = {"line": [], "document": []}
        for shard in corpus.tables():
            texts += pc.binary_join(shard["tokens"].cast(pa.list_(pa.string())), " ").to_pylist()
            for name, parts in columns.items():
                parts.append(shard[name].to_numpy())
        super().__init__(corpus.path, corpus.fingerprint, texts, first=0)
        self.lines = np.concatenate(columns["line"])[self.places]
        self.documents = np.concatenate(columns["document"])[self.places] + 1

    def shown(self, row: int) -> str:
        return plain_text(self.texts[row].split())

    def sentences(self, start: int, stop: int) -> list[Sentence]:
        return [self._corpus.sentence(int(place)) for place in self.places[start:stop]]

    def read(self, line: str) -> tuple[str, Sentence]:
        (sentence,) = Preparer(Parsed.of(self._corpus)).prepare([line.split() if self._tokenised else line], ())
        tokens = sentence.tokens
        return " ".join(tokens), tokens


def vectors_path(pool: Pool, run: Path, embedder: Embedder) -> Path:
    """File of the pool's vectors by a run: in ``POOL.vectors``, named by the run and a hash of all inputs."""
    made_of = f"{model_checksum(run)} {embedder.description} {pool.checksum}"
    key = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    return pool.path.with_name(f"{pool.path.name}.vectors") / f"{run.resolve().name}-{key}.npy"


def pool_vectors(pool: Pool, run: Path, embedder: Embedder, progress: OnProgress | None = None) -> np.ndarray:
    """The pool's vectors ``(n, d)``, float32, memory-mapped; encoded if the file does not exist yet.

    Vectors are written block by block to a temporary file, which is renamed when complete; an interrupted encoding
    resumes where it stopped. Digests of the blocks are checked before they are used; a damaged file is made again.

    Args:
        pool: the sentences.
        run: the run's folder.
        embedder: the run's embedder, with the desired representation.
        progress: called with the number of encoded sentences and their total.

    Raises:
        InputError: if a sentence cannot be encoded, a vector is not finite, or another process is writing the file.
    """
    path = vectors_path(pool, run, embedder)
    journal, partial = path.with_suffix(".digests"), path.with_name(f".{path.name}.partial")
    layout = Layout(len(pool), embedder.dim, AT_ONCE)
    vectors = read_blocks(path, journal, layout)
    clear(path)
    if vectors is None:  # missing, or damaged
        path.parent.mkdir(exist_ok=True)
        write_blocks(path, partial, journal, layout, lambda start, stop: _block(pool, embedder, start, stop, progress))
        vectors = read_blocks(path, journal, layout)
    if vectors is None:
        raise InputError(f"{path}: was changed while it was being written: run the same command again")
    return vectors


def _block(pool: Pool, embedder: Embedder, start: int, stop: int, progress: OnProgress | None) -> np.ndarray:
    def show(done: int, total: int) -> None:
        if progress:
            progress(start + (stop - start) * done // total, len(pool))

    show(0, 1)  # before the first sentences are parsed
    with pool.naming(range(start, stop)):
        vectors = embedder.encode(pool.sentences(start, stop), show_progress_bar=show)
        check_finite(vectors)
    return vectors
