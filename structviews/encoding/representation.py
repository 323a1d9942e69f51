"""Sentence vectors from encoders' states: pooling, removal of components, scaling, joining; and cosines of vectors.

Each encoder's vectors are pooled and post-processed separately, then the views are joined (multi-view sentence
representations, table 1; consensus maximisation, table 2). ``SentenceVectors`` does this for ``Embedder.encode``, and
with gradients for ``SentenceEncoder``.

Shapes: B sentences, m states in total, n vectors, d dimensions of a state, w dimensions of a pooled vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.encoding.preparation import SentenceError
from structviews.errors import InputError
from structviews.runs.folder import COMPONENTS
from structviews.runs.which_vectors import Representation
from structviews.runtime.seals import damaged, read_tensors, write_arrays
from structviews.views.view import Encoded

# Words encoded at a time: as many as 1,024 sentences of 32 words have. It bounds the memory for long sentences.
WORDS_AT_ONCE, FEWEST = 2**15, 32
# Subspace iterations and oversampling of svd_lowrank.
ITERATIONS = 12
OVERSAMPLING = 8

Vectors = np.ndarray | Tensor | Sequence[np.ndarray] | Sequence[Tensor]
ByView = list[list[Encoded]]  # what the encoders of each view and channel return, see ``View.forward``


@dataclass(frozen=True)
class Encoder:
    """The properties of an encoder that pooling depends on."""

    name: str  # such as trained.0; unique in a run
    dim: int  # dimensions d of its states
    linear: bool = False  # whether its vector is a sum or mean of its states, so that it has no last state

    def key(self, pooling: str) -> str:
        """The name under which its components for a pooling are stored."""
        return f"{self.name}.{pooling}"

    def width(self, pooling: str) -> int:
        """Dimensions w of its pooled vector."""
        return self.dim * ((3 if self.linear else 4) if pooling == "pooled" else 1)

    def pool(self, encoded: Encoded, pooling: str) -> Tensor:
        """Pooled vectors ``(B, w)``; of states, unless the pooling is ``vector``."""
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
    """Reduce each non-empty segment of ``states (m, d)`` to its ``amax``, ``amin`` or ``mean``, ``(B, d)``.

    On one core this is ten times as fast as ``torch.segment_reduce``. The segments begin at ``offsets (B + 1,)``.
    """
    segment = torch.searchsorted(offsets[1:], torch.arange(len(states), device=states.device), right=True)
    index = segment[:, None].expand_as(states)
    # Overwritten below, but the gradient of amax and amin compares it with the states; NaN equals none of them.
    result = states.new_full((len(offsets) - 1, states.shape[1]), torch.nan)
    return result.scatter_reduce(0, index, states, how, include_self=False)


class Components(NamedTuple):
    """Principal components to remove from vectors."""

    directions: Tensor  # (k, w), orthonormal
    shares: Tensor  # (k,), of the projection onto each direction that is removed, from 0 to 1

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

    Raises InputError if the file is damaged, or not of vectors of these ``widths``, by name.
    """
    path = run / COMPONENTS
    if not path.exists():
        return {}
    remedy = "delete it and encode with --transductive"
    tensors, _ = read_tensors(path, remedy)
    found = {}
    for name in (each.removesuffix(".directions") for each in tensors if each.endswith(".directions")):
        directions, shares = tensors[f"{name}.directions"], tensors.get(f"{name}.shares", torch.empty(0))
        if directions.shape != (*shares.shape, widths.get(name)):
            raise damaged(path, f"{name} does not fit the run's vectors", remedy)
        found[name] = Components(directions.float(), shares.float())
    return found


class SentenceVectors(nn.Module):
    """Makes sentences' vectors of what the encoders of some views return: ``pool``, then ``of_views``, then ``join``.

    It has nothing to learn. The vectors of a view's encoders, one per channel, are concatenated; those of the views are
    scaled by their weights, or weighted in the average. The ``components`` to remove are those of each ``Encoder.key``;
    a transductive representation fits ``count`` of them itself. ``pool`` makes vectors by the ``poolings``, by default
    by that of the representation. Views are ``chosen`` by their index in ``encoders``, which has those of all.
    """

    def __init__(
        self,
        encoders: Sequence[Sequence[Encoder]],
        chosen: Sequence[int],
        representation: Representation,
        components: Mapping[str, Components] = MappingProxyType({}),
        count: int = 1,
        poolings: Sequence[str] = (),
    ):
        super().__init__()
        self.chosen = chosen
        self.views = [encoders[i] for i in chosen]
        self.representation = representation
        self.pooling = representation.pooling
        self.poolings = poolings or (self.pooling,)
        self.read_states = set(self.poolings) != {"vector"}
        self.weights = [representation.view_weights[i] if representation.view_weights else 1.0 for i in chosen]
        self.count = count
        if representation.remove_component and not representation.transductive:
            for key in (each.key(self.pooling) for view in self.views for each in view):
                for field, tensor in components[key]._asdict().items():
                    self.register_buffer(_buffer(key, field), tensor, persistent=False)

    def pool(self, encoded: ByView) -> dict[str, Tensor]:
        """What the encoders returned as vectors ``(B, w)``, by ``Encoder.key``."""
        return {
            encoder.key(pooling): encoder.pool(each, pooling)
            for encoders, channels in zip(self.views, encoded, strict=True)
            for encoder, each in zip(encoders, channels, strict=True)
            for pooling in self.poolings
        }

    def of_views(self, pooled: Mapping[str, Tensor]) -> list[Tensor]:
        """The vectors ``(n, ·)`` of each view: without components and scaled by encoder, then concatenated."""
        own, found = self.representation, []
        for view in self.views:
            channels = []
            for key in (encoder.key(self.pooling) for encoder in view):
                vectors = pooled[key]
                if own.remove_component and len(vectors):
                    if own.transductive:
                        components = Components.fit(vectors, self.count)
                    else:
                        components = Components(*(self.get_buffer(_buffer(key, field)) for field in Components._fields))
                    vectors = components.remove_from(vectors)
                channels.append(F.normalize(vectors, dim=1) if own.normalise else vectors)
            found.append(torch.cat(channels, dim=1))
        return found

    def join(self, views: Sequence[Tensor]) -> Tensor:
        """Join the vectors ``(n, ·)`` of all views, by concatenation or as the average of those of unit length."""
        if self.representation.join == "concatenation":
            # Without weights, nothing is copied twice: there may be a million vectors.
            return torch.cat([v if w == 1 else v * w for v, w in zip(views, self.weights, strict=True)], dim=1)
        units = [F.normalize(view, dim=1) * weight for view, weight in zip(views, self.weights, strict=True)]
        return torch.stack(units).sum(dim=0) / sum(self.weights)


def _buffer(key: str, field: str) -> str:
    """The name of a buffer, which must have no dots, for a field of the components under a key."""
    return f"{key}.{field}".replace(".", "-")


def batches(lengths: Sequence[int], batch_size: int, threads: int = 1) -> Iterator[np.ndarray]:
    """The indices of sentences in batches of similar lengths, ascending, of at most ``batch_size``.

    A batch has at most ``WORDS_AT_ONCE`` words, or one sentence. With several threads, there are as many
    batches for each, of about as many words, unless they had fewer than ``FEWEST`` sentences.
    """
    order = np.argsort(lengths, kind="stable")
    words = np.array(lengths, dtype=np.int64)[order]
    ends, start, most = np.cumsum(words), 0, WORDS_AT_ONCE
    if threads > 1 and len(order):
        parts = min(-(-len(order) // (batch_size * threads)) * threads, max(1, len(order) // FEWEST))
        most = min(most, int(ends[-1] // parts + words[-1]))
    while start < len(order):
        fit = int(np.searchsorted(ends, ends[start] - words[start] + most, side="right"))
        stop = max(start + 1, min(start + batch_size, fit))
        yield order[start:stop]
        start = stop


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

    Raises InputError if they are not vectors, or their dimensions differ.
    """
    a, b = _of_length_one(first, second)
    return torch.atleast_2d(a) @ torch.atleast_2d(b).T


def cosines_of_pairs(first: Vectors, second: Vectors) -> Tensor:
    """Cosines ``(n,)`` of the vectors ``(n, d)`` with those of the same place in ``(n, d)``; of two ``(d,)``, a number.

    Raises InputError if they are not vectors, or their shapes differ.
    """
    a, b = _of_length_one(first, second)
    if a.shape != b.shape and min(a.ndim, b.ndim) > 1:
        raise InputError(f"vectors of shapes {tuple(a.shape)} and {tuple(b.shape)}: give as many of each")
    return (a * b).sum(dim=-1)


def _of_length_one(*both: Vectors) -> list[Tensor]:
    """Vectors ``(d,)`` or ``(n, d)`` of length 1, in float32, on the device of the first; zero vectors stay zero."""
    found: list[Tensor] = []
    for vectors in both:
        try:
            if isinstance(vectors, Sequence) and not isinstance(vectors, str):
                vectors = torch.stack([torch.as_tensor(each) for each in vectors])  # noqa: PLW2901
            tensor = torch.as_tensor(vectors).float()
        except (TypeError, ValueError, RuntimeError):
            raise InputError("not vectors: give what encode returns, an array or a tensor (n, d)") from None
        if tensor.ndim not in (1, 2):
            raise InputError(f"vectors of shape {tuple(tensor.shape)}: give (d,) or (n, d), as encode returns them")
        found.append(F.normalize(tensor, dim=-1))
    if found[0].shape[-1] != found[1].shape[-1]:
        widths = " and ".join(str(each.shape[-1]) for each in found)
        raise InputError(f"vectors of {widths} dimensions: give vectors of one run")
    return [each.to(found[0].device) for each in found]
