"""A run as a module of sentence-transformers, for its evaluators, losses, trainers and whatever else takes a model.

model = SentenceTransformer(modules=[StructViewsModule("runs/dep-const")])
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from structviews.adapters import encodable
from structviews.embedder import Embedder
from structviews.hub.portable import check_whole
from structviews.sentence_encoder import SentenceEncoder

try:
    from sentence_transformers.base.modules import InputModule
except ImportError as error:
    raise ImportError(
        f"sentence-transformers cannot be imported ({error}): pip install 'structviews[sentence-transformers]'"
    ) from None

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser

# Under which a batch's sentences go from ``preprocess`` to ``forward``: the trainers know a column of sentences by a
# name that ends like this.
SENTENCES = "input_ids"


class StructViewsModule(InputModule):
    """A run, as the first module of a ``SentenceTransformer``.

    Its weights are trained there like those of any other module, unless ``requires_grad_(False)`` says otherwise.

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
        self.similarity = similarity
        self.encoder = SentenceEncoder(embedder.for_similarity() if similarity else embedder)

    def preprocess(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """What ``forward`` takes: the sentences with their trees, behind the prompt if there is one.

        Raises:
            InputError: for a sentence that cannot be parsed.
        """
        sentences = encodable(self._prepend_prompt(inputs, prompt) if prompt else inputs)
        return {SENTENCES: self.encoder.prepare(sentences)}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add ``sentence_embedding``, vectors ``(n, d)``, float32."""
        return features | {"sentence_embedding": self.encoder(features[SENTENCES])}

    def get_embedding_dimension(self) -> int:
        """Length d of a sentence's vector."""
        return self.encoder.dim

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the run with the weights that it has now, without its training states, logs and scores.

        Raises:
            InputError: if that folder is within the run.
        """
        self.encoder.save(output_path)
        self.save_config(output_path)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        init_defaults: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Load what ``save`` wrote, or any run, from disk or from the Hub.

        Args:
            model_name_or_path: a folder, or a repository of the Hub.
            subfolder: in it.
            token, cache_folder, revision, local_files_only: for the Hub.
            init_defaults, **kwargs: what only other modules take.

        Raises:
            InputError: if it is not a run, or one from the Hub would read other files of this machine.
        """
        place = (model_name_or_path, subfolder, token, cache_folder, revision, local_files_only)
        run = cls.load_dir_path(*place) or str(Path(model_name_or_path, subfolder))
        if not Path(model_name_or_path).exists():
            check_whole(Path(run))
        return cls(run, **cls.load_config(run))
