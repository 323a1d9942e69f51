"""Any local sentence-transformers model as a baseline."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.pooled import PooledEmbedder
from structviews.encoding.preparation import Preparer
from structviews.encoding.representation import Encoder
from structviews.errors import InputError
from structviews.pretrained.alignment import Spelling
from structviews.runs.settings_file import Parsed
from structviews.runs.weights import write_weights
from structviews.runs.which_vectors import Representation
from structviews.runtime.device import best_device, move
from structviews.runtime.files import file_hash

KIND = "sentence-transformers"


class TransformerBaseline(PooledEmbedder):
    """Vectors of a sentence-transformers model, which reads sentences as texts, as the view ``transformer`` does.

    Args:
        model: the model's folder. Nothing is downloaded, and no custom model code is run.
        parsed: description of the corpus that the components are fitted on.

    Raises:
        InputError: if sentence-transformers is not installed, or the folder is not one of its models.
    """

    poolings = ("vector",)

    def __init__(self, model: Path, parsed: Parsed):
        try:
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an extra
        except ImportError:
            raise InputError(f"{KIND} is not installed: pip install 'structviews[{KIND}]'") from None
        if not model.is_dir():
            raise InputError(f"{model}: no such folder: give the folder of a {KIND} model")
        try:
            self._model = SentenceTransformer(str(model), device=best_device().type, local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{model}: not a model that {KIND} can load: {reason}") from None
        self.model = model
        self.views = (model.resolve().name,)
        self.parsers = []
        self._spelling = Spelling()
        self.preparer = Preparer(parsed, any_language=True)
        self.representation = Representation()
        width = len(self._vectors(["a"])[0])
        self.encoders = [[Encoder("transformer", width, linear=False)]]
        self.components = {}

    @property
    def models(self) -> frozenset[Path]:
        """The model's folder."""
        return frozenset({self.model})

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return torch.device(self._model.device)

    def to(self, device: str | torch.device) -> Self:
        """Move the model; see ``Embedder.to``."""
        move(self._model, device)
        return self

    def fingerprint(self) -> str:
        """Hash of the model's files."""
        files = sorted(path for path in self.model.rglob("*") if path.is_file() and not path.name.startswith("."))
        text = "".join(f"{path.relative_to(self.model)} {file_hash(path)}\n" for path in files)
        return hashlib.sha256(text.encode()).hexdigest()

    def write(self, run: Path) -> dict[str, Any]:
        """Write a weights file that identifies the model; return its entries for the run's settings."""
        fingerprint = self.fingerprint()
        # The weights file holds no tensors; its notes identify the model that the scores belong to.
        write_weights(run, {}, {"kind": KIND, "model": fingerprint})
        return {"model": str(self.model.resolve()), "fingerprint": fingerprint}

    @classmethod
    def open(cls, run: Path, settings: dict[str, Any], parsed: Parsed) -> "TransformerBaseline":
        """Load a run that ``write`` wrote.

        Raises:
            InputError: if the model is missing or has changed.
        """
        embedder = cls(Path(settings["model"]), parsed)
        if embedder.fingerprint() != settings["fingerprint"]:
            raise InputError(f"{embedder.model}: not the model that {run} was made from: make the baseline again")
        return embedder

    def _vectors(self, texts: list[str]) -> np.ndarray:
        return self._model.encode(texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True)

    def _pool(
        self, sentences: Sequence[ParsedSentence], poolings: Sequence[str], chosen: Sequence[int]
    ) -> Iterable[tuple[str, Tensor]]:
        (encoder,) = self.encoders[0]
        vectors = self._vectors(self._spelling.texts([sentence.tokens for sentence in sentences]))
        for pooling in poolings:
            yield f"{encoder.name}.{pooling}", torch.from_numpy(vectors)
