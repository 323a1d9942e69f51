"""Runs whose encoders produce vectors and states, which are pooled and post-processed.

Shapes: n sentences, d dimensions of a vector.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.representation import Components, Encoder, load_components
from structviews.encoding.representation import normalised as normalised_rows
from structviews.encoding.word_limit import BATCH_SIZE
from structviews.errors import InputError
from structviews.runs.folder import COMPONENTS
from structviews.runs.which_vectors import POOLINGS
from structviews.runtime.scratch import reused
from structviews.runtime.terminal import OnProgress

# Words encoded at a time: as many as 1,024 sentences of 32 words have. It bounds the memory for long sentences.
WORDS_AT_ONCE = 2**15


class PooledEmbedder(Embedder):
    """A run whose encoders produce vectors and states, which are pooled, post-processed and joined.

    Attributes:
        encoders: the encoders of each view, one per channel; their vectors are concatenated.
        components: components to remove, by encoder and pooling; empty if the run has stored none.
        n_components: number of components to remove.
        poolings: poolings that the encoders support.
    """

    encoders: list[list[Encoder]]
    components: dict[str, Components]
    n_components: int = 1
    poolings: tuple[str, ...] = POOLINGS

    @property
    def widths(self) -> list[int]:
        """Dimensions of each view's vector."""
        return [sum(encoder.width(self.representation.pooling) for encoder in view) for view in self.encoders]

    @property
    def reads(self) -> list[frozenset[str]]:
        """The structures that each view reads: the words alone, unless a kind of run has other views."""
        return [frozenset({"tokens"})] * len(self.views)

    @abstractmethod
    def _pool(
        self, sentences: Sequence[ParsedSentence], poolings: Sequence[str], chosen: Sequence[int]
    ) -> Iterable[tuple[str, Tensor]]:
        """Encode a batch: the component key and vectors ``(B, w)`` for each encoder of the chosen views and pooling."""

    def _encode_chosen(
        self, sentences: Iterable[Sentence], chosen: Sequence[int], batch_size: int, progress: OnProgress | None
    ) -> list[np.ndarray]:
        """See ``Embedder``."""
        pooling = self.representation.pooling
        if pooling not in self.poolings:
            raise InputError(f"pooling = {pooling}: this run supports only {', '.join(self.poolings)}")
        pooled = self._pool_all(self._prepared(sentences, chosen), [pooling], chosen, batch_size, progress)
        return [
            np.concatenate([self._post_process(component_key(e, pooling), pooled) for e in self.encoders[i]], axis=1)
            for i in chosen
        ]

    def fit_components(
        self, sentences: Sequence[ParsedSentence], progress: OnProgress | None = None
    ) -> dict[str, Components]:
        """Fit the components of all encoders and poolings on parsed sentences."""
        pooled = self._pool_all(sentences, self.poolings, range(len(self.encoders)), BATCH_SIZE, progress)
        return {name: Components.fit(vectors, self.n_components) for name, vectors in pooled.items()}

    @torch.inference_mode()
    def _pool_all(
        self,
        sentences: Sequence[ParsedSentence],
        poolings: Sequence[str],
        chosen: Sequence[int],
        batch_size: int,
        progress: OnProgress | None = None,
    ) -> dict[str, np.ndarray]:
        """Vectors ``(n, w)``, keyed by component key."""
        if batch_size < 1:
            raise InputError(f"batch_size = {batch_size}: give at least 1")
        pooled = {
            component_key(encoder, pooling): np.empty((len(sentences), encoder.width(pooling)), dtype=np.float32)
            for pooling in poolings
            for i in chosen
            for encoder in self.encoders[i]
        }
        # Sort by length, so that batches hold sentences of similar length.
        lengths = np.array([len(s.tokens) for s in sentences], dtype=np.int64)
        order = np.argsort(lengths, kind="stable")
        n_done = 0
        with reused():
            for rows in batches(order, lengths[order], batch_size):
                for key, vectors in self._pool([sentences[i] for i in rows], poolings, chosen):
                    pooled[key][rows] = vectors.float().cpu().numpy()
                n_done += len(rows)
                if progress:
                    progress(n_done, len(order))
        return pooled

    def _post_process(self, key: str, pooled: dict[str, np.ndarray]) -> np.ndarray:
        vectors = pooled[key]
        if self.representation.remove_component and len(vectors):
            vectors = self._components(key, vectors).remove_from(vectors)
        return normalised_rows(vectors) if self.representation.normalise else vectors

    def read_components(self, run: Path) -> None:
        """Read the components that a run has stored, if it has.

        Raises:
            InputError: if they are damaged, or of another run.
        """
        encoders = [encoder for view in self.encoders for encoder in view]
        widths = {component_key(each, pooling): each.width(pooling) for each in encoders for pooling in self.poolings}
        self.components = load_components(run, widths)

    def _components(self, key: str, vectors: np.ndarray) -> Components:
        if self.representation.transductive:
            return Components.fit(vectors, self.n_components)
        return self.stored_components(key)

    def stored_components(self, key: str) -> Components:
        """The components under a key; see ``component_key``.

        Raises:
            InputError: if the run has stored none.
        """
        if key not in self.components:
            place = f"{self.run / COMPONENTS}: " if self.run else ""
            raise InputError(
                f"{place}the run has stored no components, because its training has not finished: finish it, or give "
                "--transductive"
            )
        return self.components[key]


def batches(order: np.ndarray, lengths: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Split the sentences ``order (n,)`` of ascending ``lengths (n,)`` into batches of at most ``batch_size``.

    A batch has at most ``WORDS_AT_ONCE`` words, or one sentence.
    """
    ends = np.cumsum(lengths)
    start = 0
    while start < len(order):
        fit = int(np.searchsorted(ends, ends[start] - lengths[start] + WORDS_AT_ONCE, side="right"))
        stop = max(start + 1, min(start + batch_size, fit))
        yield order[start:stop]
        start = stop


def component_key(encoder: Encoder, pooling: str) -> str:
    """The key under which an encoder's components for a pooling are stored."""
    return f"{encoder.name}.{pooling}"
