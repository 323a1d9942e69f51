"""Attention weights of a dependency view."""

import numpy as np

from structviews.batches.batch import Batch
from structviews.views.view import Encoded


def attention_weights(encoded: Encoded, batch: Batch) -> list[np.ndarray] | None:
    """Attention weight of each word among the dependents of its head, for each sentence of a batch.

    Args:
        encoded: output of a dependency view for the batch, with states.
        batch: the sentences.

    Returns:
        For each sentence, weights ``(n,)``, float32, in word order. The weights of a head's dependents sum to 1; the
        root, which has no head, has NaN. None for a view without attention.
    """
    if encoded.attention is None:
        return None
    trees = batch.dependency_trees
    weights = np.full(len(trees), np.nan, dtype=np.float32)
    weights[trees.words[trees.children].cpu().numpy()] = encoded.attention.detach().float().cpu().numpy()
    return np.split(weights, np.cumsum(batch.lengths)[:-1])
