"""A sentence-transformers model as it is published: the baseline of that name, and the teacher of the objective.

Nothing here runs code of others, and a model is loaded when it is first asked for vectors.

Shapes: n sentences, T dimension of the model's vectors.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from structviews.errors import InputError
from structviews.pretrained.alignment import as_texts
from structviews.pretrained.encoder_name import HUB_ID, TeacherModel
from structviews.pretrained.loading import without_notices
from structviews.runtime.device import best_device, move, multiplies_half
from structviews.runtime.files import file_hash
from structviews.runtime.wording import network_reason, reason

TRANSFORMER = "sentence-transformers"
CARD = "README.md"
# What a model is read from; weights of other formats may hold code.
FILES = ("*.json", "*.txt", "*.model", "*.safetensors")


class PublishedModel:
    """A sentence-transformers model in a folder, which reads sentences as texts, as the view ``transformer`` does.

    Raises InputError if there is no such folder; once the model is needed, if sentence-transformers is not installed,
    or the folder is not one of its models.
    """

    def __init__(self, folder: Path):
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder: give the folder of a {TRANSFORMER} model")
        self.folder = folder

    @cached_property
    def network(self) -> Any:
        """The loaded ``SentenceTransformer``."""
        try:
            import transformers  # noqa: PLC0415 - an extra
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415
        except ImportError:
            raise InputError(f"{TRANSFORMER} is not installed: pip install 'structviews[{TRANSFORMER}]'") from None
        try:
            with without_notices(transformers):
                return SentenceTransformer(str(self.folder), device=best_device().type, local_files_only=True)
        except Exception as error:  # transformers, safetensors and the modules that it names each have their own
            fault = f"not a model that {TRANSFORMER} can load: {reason(error)}"
            raise InputError(f"{self.folder}: {fault}: restore its files, or give another model") from None

    def release(self) -> None:
        """Let go of the loaded model; it is loaded again when it is needed."""
        self.__dict__.pop("network", None)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return torch.device(self.network.device)

    def to(self, device: str | torch.device) -> None:
        """Move the model."""
        move(self.network, device)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the files that a model has, without its card and what other programs keep there."""
        text = ""
        for path in sorted({path for pattern in FILES for path in self.folder.rglob(pattern)}):
            relative = path.relative_to(self.folder)
            if path.is_file() and not any(part.startswith(".") for part in relative.parts):
                text += f"{relative.as_posix()} {file_hash(path)}\n"
        return hashlib.sha256(text.encode()).hexdigest()

    def vectors(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The vectors ``(n, T)``, float32, of sentences, on the model's device."""
        found = self.network.encode(as_texts(sentences), show_progress_bar=False, convert_to_tensor=True)
        return torch.as_tensor(found).float()


class Teacher:
    """A model whose vectors of sentences others are trained to agree with; its name is for messages and runs."""

    per_word: ClassVar[bool] = False

    def __init__(self, name: str, model: PublishedModel):
        self.name = name
        self.model = model

    @classmethod
    def open(cls, name: str) -> Self:
        """Find ``FOLDER_OR_HUB_ID``, and fetch it from the Hub if it is not here; InputError if it cannot be loaded."""
        return cls(name, PublishedModel(Path(name) if Path(name).is_dir() else _fetched(name)))

    @cached_property
    def dim(self) -> int:
        """Dimension T of a vector."""
        return self.states([["a"]]).shape[1]

    @property
    def about(self) -> dict[str, Any]:
        """What decides the vectors, as in a JSON document."""
        return {"teacher": self.model.fingerprint, "dim": self.dim}

    @property
    def described(self) -> TeacherModel:
        """What a run says of its teacher; the licence is that of the model's own card."""
        name = Path(self.name).resolve().name if Path(self.name).is_dir() else self.name
        about = TeacherModel(name=name, files=self.model.fingerprint, dim=self.dim)
        card = self.model.folder / CARD
        text = card.read_text("utf-8", errors="replace") if card.is_file() else ""
        if found := re.search(r"^license:[ \t]*[\"']?([\w.+-]+)[\"']?[ \t]*$", text, re.MULTILINE):
            about["licence"] = found[1]
        return about

    @torch.no_grad()
    def states(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The vector of each sentence, ``(n, T)``, float32; products are in bf16 where that is faster."""
        device = self.model.device
        with torch.autocast(device.type, torch.bfloat16, enabled=multiplies_half(device)):
            return self.model.vectors(sentences)


def _fetched(name: str) -> Path:
    """The folder of a model that is named by its id on the Hugging Face Hub, without weights that hold code."""
    why = "no such folder"
    if HUB_ID.fullmatch(name):
        try:
            from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
        except ImportError:
            why = "no such folder, and huggingface_hub is not installed"
        else:
            for here in (True, False):  # what was fetched before is still the same model
                try:
                    folder = Path(snapshot_download(name, local_files_only=here, allow_patterns=[*FILES, CARD]))
                except Exception as error:  # so many are those of the Hub's client and the network
                    told = network_reason(error) or reason(error)
                    why = f"neither a folder here nor a model of the Hugging Face Hub ({told})"
                    continue
                if any(folder.rglob("*.safetensors")):
                    return folder
                why = "no model of the Hugging Face Hub with weights in safetensors"
    raise InputError(f"teacher = {name}: {why}: give the folder of a {TRANSFORMER} model, or its id on the Hub")
