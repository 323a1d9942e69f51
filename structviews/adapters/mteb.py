"""A run as an encoder of MTEB, the Massive Text Embedding Benchmark (Muennighoff et al. 2023), version 2.

mteb.evaluate(MTEBEncoder("runs/dep-const"), mteb.get_tasks(["STS14", "Banking77Classification"]))
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from structviews.adapters import encodable
from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.results import model_checksum
from structviews.representation import Representation

try:
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ScoringFunction
except ImportError as error:
    raise ImportError(f"mteb cannot be imported ({error}): pip install 'structviews[mteb]'") from None

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser


class MTEBEncoder(AbsEncoder):
    """A run, for ``mteb.evaluate``.

    Each text is tokenised, parsed and encoded as one sentence. Tasks of type ``STS`` get the representation for
    similarity tasks.

    Args:
        run, parser, representation: see ``Embedder.load``.

    Raises:
        InputError: if it is not a run, or has no weights yet.
    """

    def __init__(self, run: str | Path, parser: "Parser | None" = None, representation: Representation | None = None):
        self.model = Embedder.load(run, parser, representation)
        self.mteb_model_meta = _meta(self.model.folder, self.model)

    def encode(self, inputs: Any, *, task_metadata: Any, **kwargs: Any) -> np.ndarray:
        """Vectors ``(n, d)``, float32, of all texts of a data loader.

        Args:
            inputs: batches whose key ``text`` has lists of strings.
            task_metadata: its type decides which representation.
            **kwargs: ``batch_size`` is how many sentences are encoded together. ``precision`` is refused; the others
                are of no matter to a run.

        Raises:
            InputError: for a text that cannot be parsed.
        """
        if kwargs.get("precision", "float32") != "float32":
            raise InputError(f"precision = {kwargs['precision']}: a run gives float32 vectors only: leave it out")
        embedder = self.model.for_similarity() if task_metadata.type == "STS" else self.model
        texts = encodable(text for batch in inputs for text in batch["text"])
        return embedder.encode(texts, kwargs.get("batch_size", 256))


def _meta(run: Path, embedder: Embedder) -> ModelMeta:
    """What MTEB's results say of the run; what it was trained on is for its owner to say."""
    known = {
        "name": f"structviews/{run.resolve().name}",
        "revision": model_checksum(run),
        "languages": ["eng-Latn"] if embedder.preparer.language == "en" else None,
        "embed_dim": embedder.dim,
        "framework": ["PyTorch"],
        "similarity_fn_name": ScoringFunction.COSINE,
        "use_instructions": False,
        # MTEB keeps results by name, revision and this: other vectors of the run are not taken for the same.
        "experiment_kwargs": {"vectors": embedder.description},
    }
    return ModelMeta.create_empty(known)
