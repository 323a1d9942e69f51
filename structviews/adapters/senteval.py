"""``prepare`` and ``batcher`` for SentEval (Conneau and Kiela, 2018), github.com/facebookresearch/SentEval.

    params = {"task_path": DATA, "kfold": 10, "embedder": Embedder.load("runs/dep-const")}
    senteval.engine.SE(params, batcher, prepare).eval(["MR", "STS14"])

``prepare`` encodes each distinct sentence of a task once, in the embedder's own batches; ``batcher`` looks up the
vectors. They stay in ``params`` until the next task.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError

# SentEval's unsupervised similarity tasks (senteval/sts.py); its STSBenchmark is supervised.
SIMILARITY = frozenset({"STS12", "STS13", "STS14", "STS15", "STS16"})


def prepare(params: dict[str, Any], samples: Iterable[Sequence[str | bytes]]) -> None:
    """Encode the sentences of a task, lists of tokens (bytes for SNLI and the image captions).

    SentEval's ``params`` have the run under ``embedder``; the vectors are added to them. Raises InputError if they have
    no embedder, or a sentence cannot be encoded.
    """
    embedder = params.get("embedder")
    if not isinstance(embedder, Embedder):
        raise InputError(
            f"params['embedder'] = {embedder!r}: not a run: set it with "
            "params['embedder'] = Embedder.load('runs/dep-const')"
        )
    if params.get("current_task") in SIMILARITY:
        embedder = embedder.for_similarity()
    sentences = dict.fromkeys(map(_tokens, samples))
    params["rows"] = {sentence: row for row, sentence in enumerate(sentences)}
    params["vectors"] = embedder.encode(list(sentences))


def batcher(params: dict[str, Any], batch: Iterable[Sequence[str | bytes]]) -> np.ndarray:
    """Vectors ``(n, d)``, float32, of ``n`` sentences that ``prepare`` has encoded.

    Raises InputError if one of them was not prepared.
    """
    rows = params.get("rows", {})
    try:
        return params["vectors"][[rows[_tokens(sentence)] for sentence in batch]]
    except KeyError as error:
        raise InputError(f"{error}: not prepared: pass both functions, SE(params, batcher, prepare)") from None


def _tokens(sentence: Sequence[str | bytes]) -> tuple[str, ...]:
    # Split again: bytes were split at ASCII white space only.
    words = (word.decode() if isinstance(word, bytes) else word for word in sentence)
    return tuple(" ".join(words).split())
