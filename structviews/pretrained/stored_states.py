"""A frozen model's vectors of all words or sentences of a parsed corpus, in float16: computed once, read each epoch.

They lie beside the corpus, in ``CORPUS.states/ENCODER-KEY``: a sealed file per shard. Each says which shard of which
corpus it is of and what decided its vectors, so a job that was stopped goes on with what is there, and none is taken
for another's.

Shapes: n words, or sentences, of a shard; d dimension of a vector.
"""

import json
import shlex
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

from structviews.corpus.parsed_corpus import OPEN_SHARDS, ParsedCorpus
from structviews.errors import InputError
from structviews.pretrained import alignment
from structviews.runtime.files import creating, digest
from structviews.runtime.seals import damaged, read_head, read_tensors, write_arrays

if TYPE_CHECKING:
    from structviews.pretrained.sentence_models import Teacher
    from structviews.pretrained.states import FrozenEncoder
    from structviews.runtime.terminal import OnProgress

# A model that does not learn: the first has a vector for each word, the second for each sentence.
Frozen: TypeAlias = "FrozenEncoder | Teacher"
STATES = "states"
REMEDY = "it is made again when it is needed"
HALF = 2  # bytes of a number


class StoredStates:
    """The vectors of a corpus's words or sentences, opened for reading.

    A file's content is checked when it is first read. One that is damaged is made again, with a warning.
    """

    def __init__(self, corpus: ParsedCorpus, encoder: Frozen):
        self.path = folder_of(corpus, encoder)
        self._corpus = corpus
        self._encoder = encoder
        self._verified: set[int] = set()
        self.shard = lru_cache(OPEN_SHARDS)(self._shard)

    @classmethod
    def find(cls, corpus: ParsedCorpus, encoder: Frozen) -> Self | None:
        """The states of a corpus if all of them have been computed, else None."""
        stored = cls(corpus, encoder)
        return stored if all(stored.file(number).is_file() for number in range(corpus.n_shards)) else None

    @classmethod
    def of_teacher(cls, corpus: ParsedCorpus, teacher: Frozen) -> Self:
        """A teacher's vectors of a corpus's sentences; InputError if it has not read all of them."""
        stored = cls.find(corpus, teacher)
        if stored is None:
            command = f"structviews corpus states {shlex.quote(str(corpus.path))} --teacher {shlex.quote(teacher.name)}"
            raise InputError(f"{corpus.path}: the teacher has not read all its sentences yet: run `{command}`")
        return stored

    def file(self, number: int) -> Path:
        """The file of a shard."""
        return self.path / f"shard-{number:05d}.safetensors"

    def n_rows(self, number: int) -> int:
        """Number of vectors of a shard."""
        if not self._encoder.per_word:
            return self._corpus.shard_rows[number]
        lists: pa.ListArray = self._corpus.shard(number)["tokens"].chunk(0)
        return int(lists.offsets[len(lists)].as_py())

    def _shard(self, number: int) -> np.ndarray:
        try:
            return self.read(number)
        except InputError as error:
            warnings.warn(str(error), stacklevel=2)
            self.compute(number)
            return self.read(number)

    def read(self, number: int) -> np.ndarray:
        """As ``shard``, but raise InputError if they are missing or damaged."""
        path = self.file(number)
        found, notes = read_tensors(path, REMEDY, check=number not in self._verified)
        shapes = [each.shape for each in found.values()]
        if notes != self._notes(number) or shapes != [(self.n_rows(number), self._encoder.dim)]:
            raise damaged(path, "it is not of this shard of the corpus", REMEDY)
        self._verified.add(number)
        return found[STATES].numpy()

    def compute(self, number: int) -> None:
        """Compute the vectors ``(n, d)``, float16, of a shard, and write them; InputError if one is beyond float16."""
        states = self._encoder.states(self._corpus.shard(number)["tokens"].to_pylist()).cpu().numpy()
        with np.errstate(over="ignore"):
            half = states.astype(np.float16)
        if not np.isfinite(half).all():
            fault = "a state exceeds the range of float16"
            raise InputError(f"{self._encoder.name}: {fault}: choose other layers or another model")
        write_arrays(self.file(number), {STATES: half}, self._notes(number))

    def _notes(self, number: int) -> dict[str, Any]:
        """What decides the vectors of a shard, as in a JSON document."""
        return versions(self._corpus) | self._encoder.about | {"shard": number}


def versions(corpus: ParsedCorpus) -> dict[str, Any]:
    """What decides all vectors of a corpus, beside the encoder."""
    return {"corpus": corpus.fingerprint, "alignment": alignment.VERSION}


def folder_of(corpus: ParsedCorpus, encoder: Frozen) -> Path:
    """Where the states of a corpus are; another corpus, encoder or alignment has another folder."""
    about = json.dumps(encoder.about, sort_keys=True).encode()
    key = digest(corpus.fingerprint.encode(), about, bytes([alignment.VERSION]))[:8]
    path = corpus.path.resolve()
    return path.with_name(f"{path.name}.{STATES}") / f"{Path(encoder.name).name}-{key}"


def outdated(corpus: ParsedCorpus) -> dict[Path, int]:
    """The folders of states of earlier versions of the corpus, or of earlier rules of alignment, and their bytes."""
    found, path, current = {}, corpus.path.resolve(), versions(corpus)
    for folder in sorted(path.with_name(f"{path.name}.{STATES}").glob("*/")):
        files = sorted(folder.glob("shard-*.safetensors"))
        with suppress(InputError):  # a damaged file does not say of what it is
            notes = read_head(files[0], REMEDY).notes if files else {}
            if "corpus" in notes and not all(notes.get(name) == value for name, value in current.items()):
                found[folder] = sum(file.stat().st_size for file in files)
    return found


def store_states(
    corpus: ParsedCorpus, encoder: Frozen, announce: Callable[[int, int], None], progress: "OnProgress | None" = None
) -> Path:
    """Compute the vectors of a corpus's words or sentences that are not there yet; return their folder.

    Before the first is computed, ``announce`` is called with the number of vectors that are left, and the bytes that
    they take; ``progress`` with the sentences done and their total. Raises InputError if another process computes the
    same, the disk has too little space, or a vector is beyond float16.
    """
    stored = StoredStates(corpus, encoder)
    with creating(stored.path, "copy the corpus to a folder where you may write"):
        stored.path.mkdir(exist_ok=True)
        left = []
        for number in range(corpus.n_shards):
            try:
                stored.read(number)
            except InputError:
                left.append(number)
        rows = sum(map(stored.n_rows, left))
        needed, free = HALF * rows * encoder.dim, shutil.disk_usage(stored.path).free
        announce(rows, needed)
        if needed > free:
            fault = f"takes {needed / 1e9:,.2f} GB, and the disk has {free / 1e9:,.2f} GB"
            raise InputError(f"{stored.path}: {fault}: make room, or put the corpus on another disk")
        done = len(corpus) - sum(corpus.shard_rows[number] for number in left)
        for number in left:
            stored.compute(number)
            done += corpus.shard_rows[number]
            if progress:
                progress(done, len(corpus))
    return stored.path
