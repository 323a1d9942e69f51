"""An encoder's states of all words of a parsed corpus, on disk in float16: computed once, read in each epoch.

They lie beside the corpus, in ``CORPUS.states/ENCODER-KEY``: a sealed file per shard, and a manifest that comes last.
Each file says which shard of which corpus it is of and what decided its states, so a job that was stopped goes on with
what is there, and none is taken for another's.

Shapes: n words of a shard, d dimension of a state.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict

import numpy as np
import pyarrow as pa

from structviews.corpus.format import Count
from structviews.corpus.parsed_corpus import OPEN_SHARDS, ParsedCorpus
from structviews.errors import InputError
from structviews.pretrained import alignment
from structviews.pretrained.encoder_name import Identity
from structviews.pretrained.frozen import FrozenEncoder
from structviews.runtime.documents import read_sealed, write_json
from structviews.runtime.files import creating, digest
from structviews.runtime.seals import damaged, map_arrays, read_head, write_arrays

if TYPE_CHECKING:
    from structviews.runtime.terminal import OnProgress

MANIFEST = "states.json"
STATES = "states"
REMEDY = "make it again with `structviews corpus states`"
HALF = 2  # bytes of a number


class Manifest(TypedDict):
    """The content of ``states.json``."""

    of: dict[str, Any]
    shards: Count
    words: Count


class StoredStates:
    """The states of a corpus, opened for reading; a file's content is checked when it is first read.

    Args:
        path: their folder.
        corpus: the corpus.
        identity: what decided them.
    """

    def __init__(self, path: Path, corpus: ParsedCorpus, identity: Identity):
        self.path = path
        self._corpus = corpus
        self._identity = identity
        self._verified: set[int] = set()
        self.shard = lru_cache(OPEN_SHARDS)(self._shard)

    @classmethod
    def find(cls, corpus: ParsedCorpus, encoder: FrozenEncoder) -> Self | None:
        """The states of a corpus if all of them have been computed, else None.

        Raises:
            InputError: if their manifest is damaged.
        """
        path = folder_of(corpus, encoder)
        if not (path / MANIFEST).is_file():
            return None
        manifest: Manifest = read_sealed(path / MANIFEST, Manifest, REMEDY)
        if manifest["of"] != _about(corpus, encoder.identity):
            raise damaged(path / MANIFEST, "it is of another corpus or encoder", REMEDY)
        return cls(path, corpus, encoder.identity)

    def _shard(self, number: int) -> np.ndarray:
        """The states ``(n, d)`` of a shard, memory-mapped.

        Raises:
            InputError: if they are missing or damaged.
        """
        path = _file(self.path, number)
        found = map_arrays(path, REMEDY, check=number not in self._verified)
        n = _n_words(self._corpus, number)
        is_right = read_head(path, REMEDY).notes == _notes(self._corpus, self._identity, number)
        if not is_right or [each.shape for each in found.values()] != [(n, self._identity.dim)]:
            raise damaged(path, "it is not of this shard of the corpus", REMEDY)
        self._verified.add(number)
        return found[STATES]


def folder_of(corpus: ParsedCorpus, encoder: FrozenEncoder) -> Path:
    """Where the states of a corpus are; another corpus, encoder or alignment has another folder."""
    key = digest(corpus.fingerprint.encode(), encoder.identity.digest, bytes([alignment.VERSION]))[:8]
    path = corpus.path.resolve()
    return path.with_name(f"{path.name}.{STATES}") / f"{Path(encoder.name).name}-{key}"


def outdated(corpus: ParsedCorpus) -> dict[Path, int]:
    """The folders of states that nothing reads any more, and their bytes.

    They are of earlier versions of the corpus, or of earlier rules of alignment.
    """
    found, path = {}, corpus.path.resolve()
    current = {"corpus": corpus.fingerprint, "alignment": alignment.VERSION}
    for folder in sorted(path.with_name(f"{path.name}.{STATES}").glob("*/")):
        files = sorted(folder.glob("shard-*.safetensors"))
        with suppress(InputError):  # a damaged file does not say of what it is
            notes = read_head(files[0], REMEDY).notes if files else {}
            if "corpus" in notes and not all(notes.get(name) == value for name, value in current.items()):
                found[folder] = sum(file.stat().st_size for file in files)
    return found


def is_part(file: Path) -> bool:
    """Whether a file is one of some corpus' states, by where it lies."""
    return file.resolve().parent.parent.suffix == f".{STATES}"


def store_states(
    corpus: ParsedCorpus, encoder: FrozenEncoder, told: Callable[[int, int], None], progress: "OnProgress | None" = None
) -> Path:
    """Compute the states of all words of a corpus, or the rest of them where a call was stopped; return their folder.

    Args:
        corpus: the corpus.
        encoder: the encoder.
        told: called before the first is computed with the number of words that are left, and the bytes that they take.
        progress: called with the number of sentences done and their total.

    Raises:
        InputError: if another process computes the same, the disk has no room, or a state is beyond float16.
    """
    path = folder_of(corpus, encoder)
    with creating(path, "copy the corpus to a folder where you may write"):
        path.mkdir(exist_ok=True)
        reading = StoredStates(path, corpus, encoder.identity)
        left = [number for number in range(corpus.n_shards) if not _is_whole(reading, number)]
        words = sum(_n_words(corpus, number) for number in left)
        told(words, HALF * words * encoder.dim)
        _check_room(path, HALF * words * encoder.dim)
        done = len(corpus) - sum(corpus.shard_rows[number] for number in left)
        for number in left:
            (path / MANIFEST).unlink(missing_ok=True)
            notes = _notes(corpus, encoder.identity, number)
            write_arrays(_file(path, number), {STATES: _computed(corpus, number, encoder)}, notes)
            done += corpus.shard_rows[number]
            if progress:
                progress(done, len(corpus))
        about = Manifest(of=_about(corpus, encoder.identity), shards=corpus.n_shards, words=corpus.manifest["tokens"])
        write_json(path / MANIFEST, about)
    return path


def _is_whole(states: StoredStates, number: int) -> bool:
    try:
        states.shard(number)
    except InputError:
        return False
    return True


def _check_room(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path).free
    if needed > free:
        raise InputError(
            f"{path}: takes {needed / 1e9:,.2f} GB, and the disk has {free / 1e9:,.2f} GB: make room, put the corpus "
            "on another disk, or train without stored states"
        )


def _computed(corpus: ParsedCorpus, number: int, encoder: FrozenEncoder) -> np.ndarray:
    """The states ``(n, d)``, float16, of a shard."""
    states = encoder.states(corpus.shard(number)["tokens"].to_pylist()).cpu().numpy()
    with np.errstate(over="ignore"):
        half = states.astype(np.float16)
    if not np.isfinite(half).all():
        raise InputError(
            f"{encoder.name}: a state is beyond float16 numbers: choose other layers, or train without stored states"
        )
    return half


def _n_words(corpus: ParsedCorpus, number: int) -> int:
    lists: pa.ListArray = corpus.shard(number)["tokens"].chunk(0)
    return int(lists.offsets[len(lists)].as_py())


def _file(path: Path, number: int) -> Path:
    return path / f"shard-{number:05d}.safetensors"


def _about(corpus: ParsedCorpus, identity: Identity) -> dict[str, Any]:
    """What decides the states, as in a JSON document."""
    about = {**identity._asdict(), "layers": list(identity.layers)}
    return {"corpus": corpus.fingerprint, "alignment": alignment.VERSION, **about}


def _notes(corpus: ParsedCorpus, identity: Identity, number: int) -> dict[str, Any]:
    return {**_about(corpus, identity), "shard": number}
