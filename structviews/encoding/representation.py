"""Sentence vectors from encoders' states: pooling, removal of components, scaling, joining; and cosines of vectors.

Each encoder's vectors are pooled and post-processed separately, then the views are joined (multi-view sentence
representations, table 1; consensus maximisation, table 2). ``SentenceVectors`` does this for ``Embedder.encode``, and
with gradients for ``SentenceEncoder``.

Shapes: B sentences, m states in total, n vectors, d dimensions of a state, w dimensions of a pooled vector.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.preparation import SentenceError
from structviews.errors import InputError
from structviews.runs.folder import COMPONENTS
from structviews.runs.which_vectors import Representation
from structviews.runtime.products import reused
from structviews.runtime.seals import damaged, read_tensors, write_arrays
from structviews.runtime.terminal import OnProgress
from structviews.views.view import Encoded

REFERENCE = 5000
"""Number of sentences to fit the stored components on (measured in docs/representations.md)."""
# Words encoded at a time: as many as 1,024 sentences of 32 words have. It bounds the memory for long sentences.
WORDS_AT_ONCE = 2**15
# Subspace iterations and oversampling of svd_lowrank.
ITERATIONS = 12
OVERSAMPLING = 8

Vectors = np.ndarray | Tensor | Sequence[np.ndarray] | Sequence[Tensor]


@dataclass(frozen=True)
class Encoder:
    """The properties of an encoder that pooling depends on.

    Attributes:
        name: such as ``trained.0``; unique in a run.
        dim: dimensions d of its states.
        linear: whether its vector is a sum or mean of its states, so that it has no last state.
    """

    name: str
    dim: int
    linear: bool = False

    def key(self, pooling: str) -> str:
        """The name under which its components for a pooling are stored."""
        return f"{self.name}.{pooling}"

    def width(self, pooling: str) -> int:
        """Dimensions w of its pooled vector."""
        return self.dim * ((3 if self.linear else 4) if pooling == "pooled" else 1)

    def pool(self, encoded: Encoded, pooling: str) -> Tensor:
        """Pooled vectors ``(B, w)``.

        Args:
            encoded: must have states, unless the pooling is ``vector``.
            pooling: one of ``POOLINGS``.
        """
        if pooling == "vector":
            return encoded.vector
        if encoded.states is None or encoded.offsets is None:
            raise ValueError(f"pooling = {pooling}: the view was encoded without states")
        mean = reduce_segments(encoded.states, encoded.offsets, "mean")
        if pooling == "mean":
            return mean
        largest, smallest = (reduce_segments(encoded.states, encoded.offsets, how) for how in ("amax", "amin"))
        return torch.cat([largest, mean, smallest, *([] if self.linear else [encoded.vector])], dim=1)


def reduce_segments(states: Tensor, offsets: Tensor, how: str) -> Tensor:
    """Reduce each non-empty segment of ``states (m, d)`` to one row; returns ``(B, d)``.

    On one core this is ten times as fast as ``torch.segment_reduce``.

    Args:
        states: rows, segment after segment.
        offsets: ``(B + 1,)`` start of each segment, and the end of the last.
        how: ``amax``, ``amin`` or ``mean``.
    """
    segment = torch.searchsorted(offsets[1:], torch.arange(len(states), device=states.device), right=True)
    index = segment[:, None].expand_as(states)
    # Overwritten below, but the gradient of amax and amin compares it with the states; NaN equals none of them.
    result = states.new_full((len(offsets) - 1, states.shape[1]), torch.nan)
    return result.scatter_reduce(0, index, states, how, include_self=False)


class Components(NamedTuple):
    """Principal components to remove from vectors.

    Attributes:
        directions: ``(k, w)`` orthonormal.
        shares: ``(k,)`` share of the projection onto each direction that is removed, from 0 to 1.
    """

    directions: Tensor
    shares: Tensor

    @classmethod
    def fit(cls, vectors: Tensor, count: int = 1) -> Self:
        """The first ``count`` principal components of vectors ``(n, w)``, without centring, as in training.

        A direction's share is its fraction of the variance of all ``count`` directions: 1 for a single component
        (Arora et al. 2017), otherwise the weights of piecewise removal (Ethayarajh 2018, section 3.3).
        """
        rank = min(count + OVERSAMPLING, *vectors.shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            _, scales, directions = torch.svd_lowrank(vectors, rank, ITERATIONS)
        variances = scales[:count].double().square()
        shares = variances / variances.sum().clamp(min=torch.finfo(torch.float64).tiny)
        return cls(directions[:, :count].T.contiguous(), shares.to(vectors.dtype))

    def remove_from(self, vectors: Tensor) -> Tensor:
        """Vectors ``(n, w)`` with the components removed."""
        return vectors - (vectors @ self.directions.T * self.shares) @ self.directions


def save_components(run: Path, components: Mapping[str, Components]) -> None:
    """Write ``components.safetensors``."""
    tensors = {f"{name}.{field}": each for name, both in components.items() for field, each in both._asdict().items()}
    write_arrays(run / COMPONENTS, tensors)


def load_components(run: Path, widths: Mapping[str, int]) -> dict[str, Components]:
    """Read ``components.safetensors``; empty if it does not exist, as before training has finished.

    Args:
        run: the run's folder.
        widths: dimensions w of the vectors that the components are removed from, by name.

    Raises:
        InputError: if the file is damaged, or of another run.
    """
    path = run / COMPONENTS
    if not path.exists():
        return {}
    remedy = "delete it and encode with --transductive"
    tensors, _ = read_tensors(path, remedy)
    names = [name.removesuffix(".directions") for name in tensors if name.endswith(".directions")]
    found = {
        name: Components(tensors[f"{name}.directions"].float(), tensors.get(f"{name}.shares", torch.empty(0)).float())
        for name in names
    }
    for name, each in found.items():
        if each.directions.shape != (*each.shares.shape, widths.get(name)):
            raise damaged(path, f"{name} does not fit the run's vectors", remedy)
    return found


def reference_sentences(corpus: ParsedCorpus, rows: np.ndarray) -> list[ParsedSentence]:
    """At most ``REFERENCE`` sentences, evenly spaced over the given ascending rows of a corpus."""
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, min(REFERENCE, len(rows))).astype(np.int64))]
    return [corpus.sentence(int(row)) for row in chosen]


class SentenceVectors(nn.Module):
    """Makes sentences' vectors of what the encoders of some views return; it has nothing to learn.

    Args:
        views: the encoders of each view, one per channel; their vectors are concatenated.
        names: names of the views, for messages.
        representation: how to pool, post-process and join.
        weights: of the views, see ``join_views``.
        components: to remove, by ``Encoder.key``; not needed if the representation is transductive, when they are
            fitted on the vectors that they are removed from.
        count: number of components to fit.
    """

    def __init__(
        self,
        views: Sequence[Sequence[Encoder]],
        names: Sequence[str],
        representation: Representation,
        weights: Sequence[float] | None = None,
        components: Mapping[str, Components] | None = None,
        count: int = 1,
    ):
        super().__init__()
        self.views = views
        self.names = names
        self.representation = representation
        self.pooling = representation.pooling
        self.weights = weights
        self.count = count
        if representation.remove_component and not representation.transductive:
            for key in (each.key(self.pooling) for view in views for each in view):
                for field, tensor in (components or {})[key]._asdict().items():
                    self.register_buffer(_buffer(key, field), tensor, persistent=False)

    def pool(self, encoded: Sequence[Sequence[Encoded]], poolings: Sequence[str] = ()) -> dict[str, Tensor]:
        """What the encoders of each view returned as vectors ``(B, w)``, by ``Encoder.key``.

        Args:
            encoded: of each view and channel.
            poolings: some of ``POOLINGS``; by default that of the representation.
        """
        return {
            encoder.key(pooling): encoder.pool(each, pooling)
            for encoders, channels in zip(self.views, encoded, strict=True)
            for encoder, each in zip(encoders, channels, strict=True)
            for pooling in poolings or [self.pooling]
        }

    @torch.inference_mode()
    def pool_all(
        self,
        sentences: Sequence[ParsedSentence],
        encode: Callable[[list[ParsedSentence], bool], list[list[Encoded]]],
        batch_size: int,
        progress: OnProgress | None = None,
        poolings: Sequence[str] = (),
    ) -> dict[str, Tensor]:
        """Encode sentences in batches; what ``pool`` returns for all of them, ``(n, w)`` each, on the CPU.

        Args:
            sentences: with the structures that the views read.
            encode: a batch, with or without states; see ``Embedder.encode_batch``.
            batch_size: sentences per batch.
            progress: called with the number of sentences done and the total.
            poolings: see ``pool``.
        """
        if batch_size < 1:
            raise InputError(f"batch_size = {batch_size}: give at least 1")
        poolings = poolings or [self.pooling]
        encoders = [encoder for view in self.views for encoder in view]
        pooled = {each.key(p): torch.empty(len(sentences), each.width(p)) for p in poolings for each in encoders}
        # Sorted by length, so that batches hold sentences of similar length.
        lengths = np.array([len(sentence.tokens) for sentence in sentences], dtype=np.int64)
        order, n_done = np.argsort(lengths, kind="stable"), 0
        with reused():
            for rows in batches(order, lengths[order], batch_size):
                encoded = encode([sentences[i] for i in rows], set(poolings) != {"vector"})
                for key, found in self.pool(encoded, poolings).items():
                    pooled[key][torch.from_numpy(rows)] = found.float().cpu()
                n_done += len(rows)
                if progress:
                    progress(n_done, len(order))
        return pooled

    def of_views(self, pooled: Mapping[str, Tensor]) -> list[Tensor]:
        """The vectors ``(n, ·)`` of each view: post-processed by encoder, then concatenated."""
        return [
            torch.cat([self._processed(key, pooled[key]) for key in (each.key(self.pooling) for each in view)], dim=1)
            for view in self.views
        ]

    def _processed(self, key: str, vectors: Tensor) -> Tensor:
        """An encoder's vectors ``(n, w)`` without components, and scaled, as the representation says."""
        if self.representation.remove_component and len(vectors):
            if self.representation.transductive:
                components = Components.fit(vectors, self.count)
            else:
                components = Components(*(self.get_buffer(_buffer(key, field)) for field in Components._fields))
            vectors = components.remove_from(vectors)
        return F.normalize(vectors, dim=1) if self.representation.normalise else vectors

    def forward(self, pooled: Mapping[str, Tensor]) -> Tensor:
        """Sentences' vectors ``(n, d)``, from what ``pool`` returned."""
        return join_views(self.of_views(pooled), self.names, self.representation.join, self.weights)


def _buffer(key: str, field: str) -> str:
    """The name of a buffer, which must have no dots, for a field of the components under a key."""
    return f"{key}.{field}".replace(".", "-")


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


def join_views(
    views: Sequence[Tensor], names: Sequence[str], join: str, weights: Sequence[float] | None = None
) -> Tensor:
    """Join the vectors of all views into one per sentence ``(n, ·)``.

    Args:
        views: ``(n, w)`` each.
        names: names of the views, for messages.
        join: ``concatenation``, or ``average`` of the unit-length vectors.
        weights: by which each view's vectors are scaled, or weighted in the average; None for 1 each.

    Raises:
        InputError: if vectors of different dimensions are to be averaged.
    """
    joined_width([view.shape[1] for view in views], names, join)
    weights = weights or [1.0] * len(views)
    if join == "concatenation":
        return torch.cat([view * weight for view, weight in zip(views, weights, strict=True)], dim=1)
    units = [F.normalize(view, dim=1) * weight for view, weight in zip(views, weights, strict=True)]
    return torch.stack(units).sum(dim=0) / sum(weights)


def joined_width(widths: Sequence[int], names: Sequence[str], join: str) -> int:
    """Dimensions of the vector that ``join_views`` returns; raises the same errors."""
    if join == "concatenation":
        return sum(widths)
    if len(set(widths)) > 1:
        found = ", ".join(f"{name} has {width}" for name, width in zip(names, widths, strict=True))
        raise InputError(f"join = {join} needs equal dimensions, but {found}: choose another --pooling or --join")
    return widths[0]


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors ``(n, w)`` to unit length; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def check_finite(vectors: np.ndarray) -> None:
    """Raise SentenceError for the first non-finite vector of ``(n, d)``."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise SentenceError(int(bad[0]), "its vector is not finite: train the run with a lower --lr")


def cosines(first: Vectors, second: Vectors) -> Tensor:
    """Cosines ``(m, n)`` of all vectors ``(m, d)`` with all vectors ``(n, d)``; one vector ``(d,)`` counts as a row.

    Raises:
        InputError: if they are not vectors, or their dimensions differ.
    """
    a, b = _of_length_one(first, second)
    found: Tensor = torch.atleast_2d(a) @ torch.atleast_2d(b).T
    return found


def cosines_of_pairs(first: Vectors, second: Vectors) -> Tensor:
    """Cosines ``(n,)`` of the vectors ``(n, d)`` with those of the same place in ``(n, d)``; of two ``(d,)``, a number.

    Raises:
        InputError: if they are not vectors, or their shapes differ.
    """
    a, b = _of_length_one(first, second)
    if a.shape != b.shape and min(a.ndim, b.ndim) > 1:
        raise InputError(f"vectors of shapes {tuple(a.shape)} and {tuple(b.shape)}: give as many of each")
    return (a * b).sum(dim=-1)


def _of_length_one(first: Vectors, second: Vectors) -> tuple[Tensor, Tensor]:
    """Both, scaled to length 1, on the device of the first; zero vectors stay zero."""
    a, b = _as_floats(first), _as_floats(second)
    if a.shape[-1] != b.shape[-1]:
        raise InputError(f"vectors of {a.shape[-1]} and {b.shape[-1]} dimensions: give vectors of one run")
    return F.normalize(a, dim=-1), F.normalize(b.to(a.device), dim=-1)


def _as_floats(vectors: Vectors) -> Tensor:
    """Vectors as a float32 tensor ``(d,)`` or ``(n, d)``."""
    try:
        if isinstance(vectors, Sequence) and not isinstance(vectors, str):
            vectors = torch.stack([torch.as_tensor(each) for each in vectors])
        found = torch.as_tensor(vectors).float()
    except (TypeError, ValueError, RuntimeError):
        raise InputError("not vectors: give what encode returns, an array or a tensor (n, d)") from None
    if found.ndim not in (1, 2):
        raise InputError(f"vectors of shape {tuple(found.shape)}: give (d,) or (n, d), as encode returns them")
    return found
