"""A pool of sentences to search, with its vectors in a memory-mapped file next to it.

Shapes: n distinct sentences, d dimensions.
"""

import hashlib
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
from structviews.runtime.arrays import Array
from structviews.runtime.files import clear, file_hash, text_lines
from structviews.runtime.terminal import OnProgress

Rows = Sequence[int] | Array


class Pool:
    """The distinct sentences of a parsed corpus, or of a text with one sentence per line; InputError if there is none.

    If ``tokenised``, the lines, here and in ``read``, are words separated by white space.

    Attributes:
        corpus: the parsed corpus, if it is one; its sentences come with their trees.
        checksum: of the source and how it is read.
        texts: the n distinct sentences as text, in order of first appearance; equal texts are the same sentence.
        counts: (n,) number of occurrences of each.
        positions: (n,) first occurrence of each: line of a text, from 1, or sentence of a parsed corpus, from 0.
        lines, documents: (n,) line of the source text and document of that occurrence, from 1.
    """

    def __init__(self, path: Path, tokenised: bool = False):
        self.path, self._tokenised = path, tokenised
        self.corpus = ParsedCorpus.open(path) if path.is_dir() else None
        texts: list[str] = []
        places: list[tuple[Array, Array]] = []  # lines, and documents
        if self.corpus is not None:
            self.path, self.checksum, first = self.corpus.path, self.corpus.fingerprint, 0
            for shard in self.corpus.tables():
                texts += pc.binary_join(shard["tokens"].cast(pa.list_(pa.string())), " ").to_pylist()
                places.append((shard["line"].to_numpy(), shard["document"].to_numpy() + 1))
        else:
            texts = [" ".join(line.split()) for line in text_lines(path)]
            self.checksum, first = f"{file_hash(path)} {'tokenised' * tokenised}", 1
            blank = np.array([True, *(not text for text in texts)])
            places.append((np.arange(1, len(texts) + 1), np.cumsum(blank[:-1] & ~blank[1:])))
        counts = Counter(texts)
        first_of = {texts[i]: i for i in reversed(range(len(texts)))}
        del counts[""]  # blank lines, as between documents
        if not counts:
            raise InputError(f"{self.path}: empty: give a file or corpus with sentences")
        self.texts = list(counts)
        self.counts = np.fromiter(counts.values(), np.int64, len(counts))
        found = np.fromiter((first_of[text] for text in counts), np.int64, len(counts))
        self.positions = found + first
        self.lines, self.documents = (np.concatenate(each)[found] for each in zip(*places, strict=True))
        self._rows = {text: row for row, text in enumerate(self.texts)}

    def __len__(self) -> int:
        return len(self.texts)

    def rows_of(self, texts: Sequence[str]) -> Array:
        """The row of each text, -1 if it is not in the pool."""
        return np.array([self._rows.get(text, -1) for text in texts], dtype=np.int64)

    def shown(self, row: int) -> str:
        """A sentence as readers write it."""
        return plain_text(self.texts[row].split()) if self.corpus is not None else self.texts[row]

    def describe(self, row: int) -> str:
        """A sentence with its location and, if repeated, its number of further occurrences."""
        times = f" (and {self.counts[row] - 1:,} more)" if self.counts[row] > 1 else ""
        return f"{self.path}:{self.positions[row]}{times}  {self.texts[row]}"

    def sentences(self, start: int, stop: int) -> list[Sentence]:
        """Distinct sentences ``start`` to ``stop``, ready to encode."""
        if self.corpus is not None:
            return [self.corpus.sentence(int(position)) for position in self.positions[start:stop]]
        return [text.split() if self._tokenised else text for text in self.texts[start:stop]]

    def read(self, line: str) -> tuple[str, Sentence]:
        """A sentence from elsewhere, as text comparable with the pool's, and ready to encode."""
        words = line.split()
        if self.corpus is None:
            return " ".join(words), words if self._tokenised else " ".join(words)
        (sentence,) = Preparer(Parsed.of(self.corpus)).prepare([words if self._tokenised else line], ())
        return " ".join(sentence.tokens), sentence.tokens

    def encode(
        self, embedder: Embedder, rows: Rows, sentences: Sequence[Sentence], progress: OnProgress | None = None
    ) -> Array:
        """Vectors ``(n, d)`` of the sentences in these rows; InputError if one cannot be encoded to finite numbers."""
        with self.naming(rows):
            vectors = embedder.encode(sentences, show_progress_bar=progress)
            check_finite(vectors)
        return vectors

    @contextmanager
    def naming(self, rows: Rows) -> Iterator[None]:
        """Add the location to errors for sentences that cannot be encoded; ``rows`` are the rows being encoded."""
        try:
            yield
        except SentenceError as error:
            raise InputError(f"{self.path}:{self.positions[rows[error.index]]}: {error.reason}") from None


def vectors_path(pool: Pool, run: Path, embedder: Embedder) -> Path:
    """File of the pool's vectors by a run: in ``POOL.vectors``, named by the run and a hash of all inputs."""
    inputs = f"{model_checksum(run)} {embedder.description} {pool.checksum}"
    key = hashlib.sha256(inputs.encode()).hexdigest()[:16]
    return pool.path.with_name(f"{pool.path.name}.vectors") / f"{run.resolve().name}-{key}.npy"


def pool_vectors(pool: Pool, run: Path, embedder: Embedder, progress: OnProgress | None = None) -> Array:
    """The pool's vectors ``(n, d)``, float32, memory-mapped; encoded if the file does not exist yet.

    Vectors are written block by block to a temporary file, which is renamed when complete; an interrupted encoding
    resumes where it stopped. Digests of the blocks are checked before they are used; a damaged file is made again.
    InputError if a sentence cannot be encoded, a vector is not finite, or another process is writing the file.
    """
    path = vectors_path(pool, run, embedder)
    journal, partial = path.with_suffix(".digests"), path.with_name(f".{path.name}.partial")
    layout = Layout(len(pool), embedder.dim, AT_ONCE)

    def block(start: int, stop: int) -> Array:
        def show(done: int, total: int) -> None:
            if progress:
                progress(start + (stop - start) * done // total, len(pool))

        show(0, 1)  # before the first sentences are parsed
        return pool.encode(embedder, range(start, stop), pool.sentences(start, stop), show)

    vectors = read_blocks(path, journal, layout)
    clear(path)
    if vectors is None:  # missing, or damaged
        path.parent.mkdir(exist_ok=True)
        write_blocks(path, partial, journal, layout, block)
        vectors = read_blocks(path, journal, layout)
    if vectors is None:
        raise InputError(f"{path}: was changed while it was being written: run the same command again")
    return vectors
