"""The words of the contextual channel: states of a frozen encoder."""

from collections.abc import Sequence

import numpy as np
import torch

from structviews.pretrained.frozen import FrozenEncoder
from structviews.words.vocabulary import SentenceWords


class ContextualWords(SentenceWords):
    """The words of sentences, each with its state in the sentence.

    Args:
        encoder: whose states they are.
    """

    def __init__(self, encoder: FrozenEncoder):
        super().__init__()
        self.encoder = encoder
        self.dim = encoder.dim
        self.identity = encoder.identity.digest

    def vectors(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """See ``SentenceWords``.

        Raises:
            InputError: if the encoder cannot be loaded.
        """
        return self.encoder.states(sentences).cpu().numpy()

    def to(self, device: str | torch.device) -> None:
        """Move the encoder."""
        self.encoder.to(device)
