"""External vectors as a run, for ``structviews eval --vectors``."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds import KINDS
from structviews.encoding.preparation import Preparer
from structviews.encoding.representation import Encoder
from structviews.encoding.sentence_vectors import Tokens, check_known, read_vectors
from structviews.errors import InputError
from structviews.parsing.parser import Parser
from structviews.runs.folder import CONFIG
from structviews.runs.settings_file import KIND, Parsed, read_settings, run_kind, write_settings
from structviews.runs.weights import write_weights
from structviews.runs.which_vectors import Representation
from structviews.runtime.files import file_hash, new_folder
from structviews.views.view import Encoded

GIVEN = "vectors"
FINGERPRINT = "fingerprint"


@KINDS.register(GIVEN)
class GivenVectors(Embedder):
    """Looks up the vectors of sentences by their tokens, in ``X.npy`` and ``X.txt``; see ``read_vectors``."""

    poolings = ("vector",)

    def __init__(self, file: Path):
        self.file = file
        self._rows, self._vectors = read_vectors(file)
        self.views = (file.stem,)
        self.preparer = Preparer(Parsed())
        self.representation = Representation()
        self.encoders = [[Encoder("given", self._vectors.shape[1])]]

    @classmethod
    def open(cls, run: Path, settings: Mapping[str, Any], parser: Parser | None = None) -> Self:
        """Load a run that ``given_run`` made; InputError if the vectors are missing or have changed."""
        file = Path(str(settings.get(GIVEN, "")))
        embedder = cls(file)
        if fingerprint(file) != settings.get(FINGERPRINT):
            raise InputError(f"{file}: not the vectors that {run} was made from: run eval --vectors again")
        return embedder

    def check(self, sentences: Sequence[Tokens], task: str) -> None:
        """Raise InputError unless all sentences of a task have vectors."""
        remedy = "encode the output of structviews tasks sentences, or limit --tasks"
        check_known(sentences, self._rows, task, self.file.with_suffix(".txt"), remedy)

    def encode_batch(
        self, chosen: Sequence[int], sentences: Sequence[ParsedSentence], states: bool
    ) -> list[list[Encoded]]:
        """See ``Embedder``."""
        tokens = [sentence.tokens for sentence in sentences]
        self.check(tokens, "the input")
        vectors = self._vectors[[self._rows[each] for each in tokens]].astype(np.float32)
        return [[Encoded(torch.from_numpy(vectors))]]


def given_run(file: Path, out: Path) -> Path:
    """Create a run from a file of vectors, or update ``out`` if it is already a run of this file.

    Raises:
        InputError: if the file has no valid vectors, or ``out`` is something else.
    """
    file = file.resolve()
    GivenVectors(file)
    settings: dict[str, Any] = {KIND: GIVEN, GIVEN: str(file), FINGERPRINT: fingerprint(file)}
    settings["views"] = {"names": [file.stem]}
    is_same = (out / CONFIG).is_file() and run_kind(out) == GIVEN and read_settings(out).get(GIVEN) == str(file)
    with nullcontext(out) if is_same else new_folder(out) as folder:
        # The weights file holds no tensors; its notes identify the vectors that the scores belong to.
        write_weights(folder, {}, {GIVEN: settings[FINGERPRINT]})
        write_settings(folder, settings)
    return out


def fingerprint(file: Path) -> str:
    """Hash of the vectors and their sentences."""
    return f"{file_hash(file)} {file_hash(file.with_suffix('.txt'))}"
