"""What the nodes of a dependency view attend to."""

import numpy as np

from structviews.batching import Batch
from structviews.views.base import Encoded


def attention_weights(encoded: Encoded, batch: Batch) -> list[np.ndarray] | None:
    """What each word weighs among the dependents of its head, in each sentence of a batch.

    Args:
        encoded: what a dependency view made of the batch, with states.
        batch: the sentences.

    Returns:
        For each sentence weights ``(n,)``, float32, in the order of its words: those of one head's dependents add
        up to 1, an only dependent has 1, and the root of the sentence, which has no head, nan. None for a view
        without attention.
    """
    if encoded.attention is None:
        return None
    trees = batch.dependency_trees
    weights = np.full(len(trees), np.nan, dtype=np.float32)
    weights[trees.words[trees.children].cpu().numpy()] = encoded.attention.detach().float().cpu().numpy()
    return np.split(weights, np.cumsum(batch.lengths)[:-1])
