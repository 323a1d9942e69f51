"""Vectors that were made elsewhere, as a run: what ``structviews eval --vectors`` scores."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save
from torch import Tensor

from structviews.cache import file_hash, write_whole
from structviews.checkpoint import WEIGHTS
from structviews.config import CONFIG, KIND, Parsed, read_settings, run_kind, write_settings
from structviews.embedder import PooledEmbedder, component_key
from structviews.errors import InputError
from structviews.preparation import Preparer
from structviews.representation import Encoder, Representation
from structviews.runs import new_run
from structviews.sentence import ParsedSentence
from structviews.sentence_vectors import Tokens, check_known, read_vectors

GIVEN = "vectors"
FINGERPRINT = "fingerprint"


class GivenVectors(PooledEmbedder):
    """Looks up the vectors of sentences by their words.

    Args:
        file: ``X.npy``, with ``X.txt`` beside it (``structviews.sentence_vectors``).

    Raises:
        InputError: if the two are not vectors and their sentences.
    """

    poolings = ("vector",)

    def __init__(self, file: Path):
        self.file = file
        self._rows, self._vectors = read_vectors(file)
        self.views = (file.stem,)
        self.needs = frozenset({"tokens"})
        self.parsers = []
        self.preparer = Preparer(Parsed())
        self.representation = Representation()
        self.encoders = [[Encoder("given", self._vectors.shape[1], linear=False)]]
        self.components = {}

    @classmethod
    def open(cls, run: Path) -> "GivenVectors":
        """Load what ``given_run`` made.

        Raises:
            InputError: if the vectors have gone or changed.
        """
        settings = read_settings(run)
        file = Path(str(settings.get(GIVEN, "")))
        embedder = cls(file)
        if fingerprint(file) != settings.get(FINGERPRINT):
            raise InputError(f"{file}: not the vectors that {run} was made with: give them to eval --vectors again")
        return embedder

    def check(self, sentences: Sequence[Tokens], task: str) -> None:
        """Raise InputError unless there are vectors for all sentences of a task."""
        where = self.file.with_suffix(".txt")
        check_known(
            sentences, self._rows, task, where, "encode what structviews sentences writes, or choose with --tasks"
        )

    def _pool(self, sentences: Sequence[ParsedSentence], poolings: Sequence[str]) -> Iterable[tuple[str, Tensor]]:
        tokens = [sentence.tokens for sentence in sentences]
        self.check(tokens, "these")
        vectors = self._vectors[[self._rows[each] for each in tokens]].astype(np.float32)
        for pooling in poolings:
            yield component_key(self.encoders[0][0], pooling), torch.from_numpy(vectors)


def given_run(file: Path, out: Path) -> Path:
    """The run of some vectors; if ``out`` is one of the same file already, it is brought up to date.

    Raises:
        InputError: if they are no vectors, or ``out`` is something else.
    """
    file = file.resolve()
    GivenVectors(file)
    settings: dict[str, Any] = {KIND: GIVEN, "views": [file.stem], GIVEN: str(file), FINGERPRINT: fingerprint(file)}
    # It has no weights of ours, and the file says whose scores are in the run. One key: of several, safetensors
    # writes any order, and the same vectors are to have the same file.
    content = save({}, metadata={GIVEN: settings[FINGERPRINT]})
    if (out / CONFIG).is_file() and run_kind(out) == GIVEN and read_settings(out).get(GIVEN) == str(file):
        _fill(out, settings, content)
    else:
        with new_run(out) as folder:
            _fill(folder, settings, content)
    return out


def _fill(folder: Path, settings: dict[str, Any], weights: bytes) -> None:
    write_whole(folder / WEIGHTS, lambda stream: stream.write(weights))
    write_settings(folder, settings)


def fingerprint(file: Path) -> str:
    """Of the vectors and their sentences."""
    return f"{file_hash(file)} {file_hash(file.with_suffix('.txt'))}"
