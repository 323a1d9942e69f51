"""A run as a module of sentence-transformers, so that its evaluators and whatever else takes a model take it.

model = SentenceTransformer(modules=[StructviewsModule("runs/dep-const")])
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from structviews.adapters import encodable
from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.joined import LEFT_BEHIND

try:
    from sentence_transformers.base.modules import InputModule
except ImportError as error:
    raise ImportError(
        f"sentence-transformers cannot be imported ({error}): pip install 'structviews[sentence-transformers]'"
    ) from None

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser


class StructviewsModule(InputModule):
    """A run, as the first module of a ``SentenceTransformer``.

    Its encoders are not trained there: gradients end at the sentences' vectors. They run where ``Embedder`` puts
    them; the vectors go to the device of the ``SentenceTransformer``.

    Args:
        run: what ``train``, ``join`` or ``baseline`` made.
        similarity: whether sentences get the run's representation for similarity tasks.
        parser: gives trees to sentences that come without; by default the one of the training corpus.

    Raises:
        InputError: if it is not a run, or has no weights yet.
    """

    save_in_root = False
    config_keys = ["similarity"]  # noqa: RUF012 - as the base class has it

    def __init__(self, run: str | Path, similarity: bool = False, parser: "Parser | None" = None):
        super().__init__()
        embedder = Embedder.load(run, parser)
        self.run = Path(run).resolve()
        self.similarity = similarity
        self.embedder = embedder.for_similarity() if similarity else embedder
        # Moves with the model, and so tells where the modules behind this one want the vectors.
        self.register_buffer("place", torch.empty(0), persistent=False)

    def preprocess(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """What ``forward`` takes: the sentences, behind the prompt if there is one."""
        return {"sentences": encodable(self._prepend_prompt(inputs, prompt) if prompt else inputs)}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add ``sentence_embedding``, vectors ``(n, d)``, float32.

        Raises:
            InputError: for a sentence that cannot be parsed.
        """
        sentences = features["sentences"]
        vectors = self.embedder.encode(sentences, batch_size=len(sentences))
        return features | {"sentence_embedding": torch.from_numpy(vectors).to(self.place.device)}

    def get_embedding_dimension(self) -> int:
        """Length d of a sentence's vector."""
        return self.embedder.dim

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Copy the run into a folder, without its training states, logs and scores.

        Raises:
            InputError: if that folder is within the run.
        """
        folder = Path(output_path).resolve()
        if self.run in folder.parents:
            raise InputError(f"{folder}: within the run that would be copied there: save elsewhere")
        if folder != self.run:
            shutil.copytree(self.run, folder, ignore=shutil.ignore_patterns(*LEFT_BEHIND), dirs_exist_ok=True)
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", *args: Any, **kwargs: Any) -> Self:
        """Load what ``save`` wrote, or any run."""
        run = Path(model_name_or_path, subfolder)
        return cls(run, **cls.load_config(str(run)))
