"""A run as a sentence-transformers module, for its evaluators, losses, trainers and everything else with a model.

model = SentenceTransformer(modules=[StructViewsModule("runs/dep-const")])
"""

from pathlib import Path
from typing import Any, Self

from structviews.encoding.embedder import Embedder
from structviews.encoding.sentence_encoder import SentenceEncoder
from structviews.encoding.word_limit import WordLimit
from structviews.hub.portable import check_whole
from structviews.parsing.parser import Parser

try:
    from sentence_transformers.base.modules import InputModule
except ImportError as error:
    raise ImportError(
        f"sentence-transformers cannot be imported ({error}): pip install 'structviews[sentence-transformers]'"
    ) from None


# Key under which ``preprocess`` passes sentences to ``forward``; trainers know columns of sentences by this suffix.
SENTENCES = "input_ids"


class StructViewsModule(InputModule):
    """A run as the first module of a ``SentenceTransformer``.

    Its weights are trained like those of any other module, unless frozen with ``requires_grad_(False)``.

    Args:
        run: folder made by ``train``, ``join`` or ``baseline``.
        similarity: whether to use the run's representation for similarity tasks.
        parser, max_tokens, overlong: see ``Embedder.load``, which raises the same errors.
    """

    save_in_root = False
    config_keys = ["similarity", "max_tokens", "overlong"]  # noqa: RUF012 - as the base class has it

    def __init__(
        self,
        run: str | Path,
        similarity: bool = False,
        parser: Parser | None = None,
        *,
        max_tokens: int = WordLimit.max_tokens,
        overlong: str = WordLimit.overlong,
    ):
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in sentence-transformers
        embedder = Embedder.load(run, parser, max_tokens=max_tokens, overlong=overlong)
        self.similarity = similarity
        self.max_tokens = max_tokens
        self.overlong = overlong
        self.encoder = SentenceEncoder(embedder.for_similarity() if similarity else embedder)

    def preprocess(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Parse sentences for ``forward``, prepending the prompt if there is one."""
        sentences = self._prepend_prompt(inputs, prompt) if prompt else inputs
        return {SENTENCES: self.encoder.prepare(sentences)}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add ``sentence_embedding``: vectors ``(n, d)``, float32."""
        return features | {"sentence_embedding": self.encoder(features[SENTENCES])}

    def get_embedding_dimension(self) -> int:
        """Dimensions d of a sentence's vector."""
        return self.encoder.dim

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Save the run with its current weights, without training state, logs and scores, outside of the run itself."""
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
        """Load a saved module, or any run, from a subfolder of a folder or of a repository on the Hub.

        Raises InputError if it is not a run, or if a run from the Hub would read other files of this machine.
        """
        location = (model_name_or_path, subfolder, token, cache_folder, revision, local_files_only)
        run = cls.load_dir_path(*location) or str(Path(model_name_or_path, subfolder))
        if not Path(model_name_or_path).exists():
            check_whole(Path(run))
        return cls(run, **cls.load_config(run))
