"""A run as an encoder for MTEB, the Massive Text Embedding Benchmark (Muennighoff et al. 2023), version 2.

mteb.evaluate(MTEBEncoder("runs/dep-const"), mteb.get_tasks(["STS14", "Banking77Classification"]))
"""

from pathlib import Path
from typing import Any

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.word_limit import BATCH_SIZE
from structviews.errors import InputError
from structviews.parsing.parser import Parser
from structviews.runs.folder import model_checksum
from structviews.runs.which_vectors import Representation

try:
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ScoringFunction
except ImportError as error:
    raise ImportError(f"mteb cannot be imported ({error}): pip install 'structviews[mteb]'") from None


class MTEBEncoder(AbsEncoder):
    """A run as an encoder for ``mteb.evaluate``.

    Each text is tokenised, parsed and encoded as one sentence. Tasks of type ``STS`` get the representation for
    similarity tasks. The arguments are those of ``Embedder.load``.
    """

    def __init__(
        self, run: str | Path, parser: Parser | None = None, representation: Representation | None = None, **kwargs: Any
    ):
        self.model = Embedder.load(run, parser, representation, **kwargs)
        # Training data are left for the run's owner to fill in.
        fields = {
            "name": f"structviews/{self.model.folder.resolve().name}",
            "revision": model_checksum(self.model.folder),
            "languages": ["eng-Latn"] if self.model.preparer.language == "en" else None,
            "embed_dim": self.model.dim,
            "framework": ["PyTorch"],
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": False,
            # MTEB stores results by name, revision and this, so other vectors of the run are kept apart.
            "experiment_kwargs": {"vectors": self.model.description},
        }
        self.mteb_model_meta = ModelMeta.create_empty(fields)

    def encode(self, inputs: Any, *, task_metadata: Any, **kwargs: Any) -> np.ndarray:
        """Vectors ``(n, d)``, float32, of all texts of a data loader, whose batches have them under the key ``text``.

        The type in ``task_metadata`` selects the representation. Of the options, ``batch_size`` is used.
        Raises InputError for a ``precision`` other than float32, or a text that is too long or cannot be parsed.
        """
        if kwargs.get("precision", "float32") != "float32":
            raise InputError(f"precision = {kwargs['precision']}: only float32 is supported: leave it out")
        embedder = self.model.for_similarity() if task_metadata.type == "STS" else self.model
        texts = (text for batch in inputs for text in batch["text"])
        return embedder.encode(texts, kwargs.get("batch_size", BATCH_SIZE))
