"""Sentence vectors from encoder states: pooling, post-processing, joining.

Each encoder's vectors are pooled and post-processed separately, then the views are joined
(multi-view sentence representations, table 1; consensus maximisation, table 2).

Shapes: B sentences, m states in total, n vectors, d dimensions of a state, w dimensions of a pooled vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.preparation import SentenceError
from structviews.errors import InputError
from structviews.runs.folder import COMPONENTS
from structviews.runtime.seals import damaged, read_arrays, write_arrays
from structviews.views.view import Encoded

REFERENCE = 5000
"""Number of sentences to fit the stored components on (measured in docs/representations.md)."""
# Subspace iterations and oversampling of svd_lowrank.
ITERATIONS = 12
OVERSAMPLING = 8


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
    linear: bool

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
        last = [] if self.linear else [encoded.vector]
        return torch.cat([largest, mean, smallest, *last], dim=1)


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


@dataclass(frozen=True)
class Components:
    """Principal components to remove from vectors.

    Attributes:
        directions: ``(k, w)`` orthonormal.
        shares: ``(k,)`` share of the projection onto each direction that is removed, from 0 to 1.
    """

    directions: np.ndarray
    shares: np.ndarray

    @classmethod
    def fit(cls, vectors: np.ndarray, count: int = 1) -> Self:
        """The first ``count`` principal components of vectors ``(n, w)``, without centring, as in training.

        A direction's share is its fraction of the variance of all ``count`` directions: 1 for a single component
        (Arora et al. 2017), otherwise the weights of piecewise removal (Ethayarajh 2018, section 3.3).
        """
        rank = min(count + OVERSAMPLING, *vectors.shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            _, scales, directions = torch.svd_lowrank(torch.from_numpy(vectors), rank, ITERATIONS)
        variances = scales[:count].double().square().numpy()
        shares = variances / max(variances.sum(), np.finfo(np.float64).tiny)
        return cls(directions[:, :count].T.numpy().copy(), shares.astype(vectors.dtype))

    def remove_from(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors ``(n, w)`` with the components removed."""
        rest: np.ndarray = vectors - (vectors @ self.directions.T * self.shares) @ self.directions
        return rest


def save_components(run: Path, components: Mapping[str, Components]) -> None:
    """Write ``components.safetensors``."""
    tensors = {f"{name}.directions": each.directions for name, each in components.items()}
    write_arrays(run / COMPONENTS, tensors | {f"{name}.shares": each.shares for name, each in components.items()})


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
    arrays = read_arrays(path, remedy)
    names = [name.removesuffix(".directions") for name in arrays if name.endswith(".directions")]
    none = np.empty(0)
    found = {
        name: Components(arrays[f"{name}.directions"], arrays.get(f"{name}.shares", none).astype(np.float32))
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


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors ``(n, w)`` to unit length; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def check_finite(vectors: np.ndarray) -> None:
    """Raise SentenceError for the first non-finite vector of ``(n, d)``."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise SentenceError(int(bad[0]), "its vector is not finite: train the run with a lower --lr")


def join_views(
    views: Sequence[np.ndarray], names: Sequence[str], join: str, weights: Sequence[float] | None = None
) -> np.ndarray:
    """Join the vectors of all views into one per sentence ``(n, ·)``.

    Args:
        views: ``(n, w)`` each.
        names: names of the views, for messages.
        join: ``concatenation``, or ``average`` of the unit-length vectors.
        weights: by which each view's vectors are scaled, or weighted in the average; None for 1 each.

    Raises:
        InputError: if vectors of different dimensions are to be averaged.
    """
    if join == "concatenation":
        scaled = views if weights is None else [x * np.float32(w) for x, w in zip(views, weights, strict=True)]
        return np.concatenate(scaled, axis=1)
    joined_width([view.shape[1] for view in views], names, join)
    average: np.ndarray = np.average([normalised(view) for view in views], axis=0, weights=weights)
    return average.astype(views[0].dtype, copy=False)


def joined_width(widths: Sequence[int], names: Sequence[str], join: str) -> int:
    """Dimensions of the vector that ``join_views`` returns; raises the same errors."""
    if join == "concatenation":
        return sum(widths)
    if len(set(widths)) > 1:
        found = ", ".join(f"{name} has {width}" for name, width in zip(names, widths, strict=True))
        raise InputError(f"join = {join} needs equal dimensions, but {found}: choose another --pooling or --join")
    return widths[0]
