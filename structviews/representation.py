"""From an encoder's states to the vector of a sentence: pooling, post-processing, joining.

Each encoder's vectors are pooled and post-processed by themselves, then the views are joined
(multi-view sentence representations, table 1; consensus maximisation, table 2).

Shapes: B sentences, m states of all of them, n vectors, d length of a state, w length of a pooled vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from torch import Tensor

from structviews.cache import ParsedCorpus, write_whole
from structviews.errors import InputError
from structviews.sentence import ParsedSentence
from structviews.views.base import Encoded

POOLINGS = ("vector", "pooled", "mean")
JOINS = ("concatenation", "average")
COMPONENTS = "components.safetensors"
REFERENCE = 5000
"""Sentences that the stored components are fitted on (docs/representations.md has the measurement)."""
# Subspace iterations of svd_lowrank, and the vectors that it carries beside those asked for.
ITERATIONS = 12
OVERSAMPLING = 8


@dataclass(frozen=True)
class Representation:
    """Which vector a sentence has at test time.

    Attributes:
        pooling: ``vector``, what training scored; ``pooled``, ``[max; mean; min; last]`` of the states, without
            the last of views that are linear in the words; ``mean`` of the states.
        remove_component: whether the first principal component is removed from each encoder's vectors.
        normalise: whether each encoder's vectors are then scaled to length 1.
        join: ``concatenation`` of the views, or ``average`` of the views scaled to length 1.
        similarity_pooling, similarity_join: what similarity tasks use instead; the same where empty.
        transductive: fit the component on the sentences that are encoded, instead of taking the run's.

    Raises:
        InputError: for an unknown value, or ``transductive`` where nothing is removed.
    """

    pooling: str = "vector"
    remove_component: bool = False
    normalise: bool = False
    join: str = "concatenation"
    similarity_pooling: str = ""
    similarity_join: str = ""
    transductive: bool = False

    def __post_init__(self) -> None:
        for name, known in (("pooling", POOLINGS), ("join", JOINS)):
            for field, values in ((name, known), (f"similarity_{name}", ("", *known))):
                if getattr(self, field) not in values:
                    raise InputError(f"unknown {field} {getattr(self, field)!r}: one of {', '.join(known)}")
        if self.transductive and not self.remove_component:
            raise InputError("transductive = true, but no component is removed: give --remove-component too")

    def for_similarity(self) -> Self:
        """What similarity tasks use."""
        return replace(
            self,
            pooling=self.similarity_pooling or self.pooling,
            join=self.similarity_join or self.join,
            similarity_pooling="",
            similarity_join="",
        )

    def __str__(self) -> str:
        """Such as ``pooled - pc, l2; similarity: mean - pc, average``."""
        similarity = self.for_similarity()
        own = replace(self, similarity_pooling="", similarity_join="")
        removed = " - pc" * self.remove_component + " (transductive)" * self.transductive
        text = f"{self.pooling}{removed}" + ", l2" * self.normalise + ", average" * (self.join == "average")
        return text if similarity == own else f"{text}; similarity: {similarity}"


@dataclass(frozen=True)
class Encoder:
    """What the pooling of one encoder depends on.

    Attributes:
        name: such as ``trained.0``; unique in a run.
        dim: length d of its states.
        linear: its vector is a sum or a mean of its states, and has no last one.
    """

    name: str
    dim: int
    linear: bool

    def width(self, pooling: str) -> int:
        """Length w of its pooled vector."""
        return self.dim * ((3 if self.linear else 4) if pooling == "pooled" else 1)

    def pool(self, encoded: Encoded, pooling: str) -> Tensor:
        """Vectors ``(B, w)``.

        Args:
            encoded: with states, unless the pooling is ``vector``.
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
    """One row ``(B, d)`` for each segment of ``states (m, d)``, of which none is empty.

    On one core this takes a tenth of the time of ``torch.segment_reduce``.

    Args:
        states: rows, segment after segment.
        offsets: ``(B + 1,)`` where each segment begins, and the end.
        how: ``amax``, ``amin`` or ``mean``.
    """
    segment = torch.searchsorted(offsets[1:], torch.arange(len(states), device=states.device), right=True)
    index = segment[:, None].expand_as(states)
    # Nothing of this enters the result, but the gradient compares the two, and nothing may be equal by chance.
    result = states.new_full((len(offsets) - 1, states.shape[1]), torch.nan)
    return result.scatter_reduce(0, index, states, how, include_self=False)


@dataclass(frozen=True)
class Components:
    """Directions to remove from vectors.

    Attributes:
        directions: ``(k, w)`` orthonormal.
        shares: ``(k,)`` how much of a vector's part along each direction is removed, from 0 to 1.
    """

    directions: np.ndarray
    shares: np.ndarray

    @classmethod
    def fit(cls, vectors: np.ndarray, count: int = 1) -> Self:
        """The first ``count`` principal components of vectors ``(n, w)``, which are not centred, as in training.

        A direction's share is its part of the variance of the ``count``: 1 where only one is removed (Arora
        et al. 2017), else the weights of piecewise removal (Ethayarajh 2018, section 3.3).
        """
        rank = min(count + OVERSAMPLING, *vectors.shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            _, scales, directions = torch.svd_lowrank(torch.from_numpy(vectors), rank, ITERATIONS)
        variances = scales[:count].double().square().numpy()
        shares = variances / max(variances.sum(), np.finfo(np.float64).tiny)
        return cls(directions[:, :count].T.numpy().copy(), shares.astype(vectors.dtype))

    def remove_from(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors ``(n, w)`` without their parts along the directions."""
        return vectors - (vectors @ self.directions.T * self.shares) @ self.directions


def save_components(run: Path, components: Mapping[str, Components]) -> None:
    """Write ``components.safetensors``."""
    tensors = {f"{name}.directions": each.directions for name, each in components.items()}
    content = save(tensors | {f"{name}.shares": each.shares for name, each in components.items()})
    write_whole(run / COMPONENTS, lambda file: file.write(content))


def load_components(run: Path) -> dict[str, Components]:
    """Read ``components.safetensors``; empty where there is none, as before training has finished.

    Raises:
        InputError: if the file is damaged.
    """
    path = run / COMPONENTS
    if not path.exists():
        return {}
    try:
        tensors = load_file(path)
        names = [name.removesuffix(".directions") for name in tensors if name.endswith(".directions")]
        return {name: Components(tensors[f"{name}.directions"], tensors[f"{name}.shares"]) for name in names}
    except (SafetensorError, KeyError) as error:
        raise InputError(f"{path}: damaged ({error}): delete it, and encode with --transductive") from None


def reference_sentences(corpus: ParsedCorpus, rows: np.ndarray) -> list[ParsedSentence]:
    """At most ``REFERENCE`` sentences, evenly spread over some ascending rows of a corpus."""
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, min(REFERENCE, len(rows))).astype(np.int64))]
    return [corpus.sentence(int(row)) for row in chosen]


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Vectors ``(n, w)`` of length 1; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def join_views(views: Sequence[np.ndarray], names: Sequence[str], join: str) -> np.ndarray:
    """One vector ``(n, ·)`` from those of each view.

    Args:
        views: ``(n, w)`` each.
        names: of the views, for messages.
        join: ``concatenation``, or ``average`` of the vectors scaled to length 1.

    Raises:
        InputError: if vectors of different lengths were to be averaged.
    """
    if join == "concatenation":
        return np.concatenate(views, axis=1)
    joined_width([view.shape[1] for view in views], names, join)
    return np.mean([normalised(view) for view in views], axis=0)


def joined_width(widths: Sequence[int], names: Sequence[str], join: str) -> int:
    """Length of the vector that ``join_views`` makes; raises what it raises."""
    if join == "concatenation":
        return sum(widths)
    if len(set(widths)) > 1:
        found = ", ".join(f"{name} has {width}" for name, width in zip(names, widths, strict=True))
        raise InputError(f"join = average wants vectors of one length, {found}: give another --pooling or --join")
    return widths[0]
