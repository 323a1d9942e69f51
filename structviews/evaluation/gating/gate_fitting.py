"""Fit a gate: the weights of views with which a sentence's vector finds its neighbours in the text.

The objective is the one that the encoders are trained with, so no labels are needed: each sentence's neighbours are
told from the other sentences of its batch, by a softmax over scores. The scores are cosines of the joined vectors, as
in similarity tasks and retrieval. They are divided by a temperature: numbers from -1 to 1 alone would leave every
softmax almost flat.

Shapes: n sentences, k views, d dimensions of a view's vector, B sentences of a batch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.batches.order import epoch_batches
from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import joined_width, normalised
from structviews.encoding.view_gate import Gate, Purpose, gated
from structviews.errors import InputError
from structviews.evaluation.gating.gate_sample import Part, Sample
from structviews.evaluation.scores.intervals import Difference, Proportion, mean_difference, proportion
from structviews.objectives.contrast import contrastive_loss
from structviews.runs.which_vectors import GATED
from structviews.runtime.arrays import Array
from structviews.runtime.terminal import OnProgress

BATCH = 400
EPOCHS = 30
PATIENCE = 3
LEARNING_RATE = 0.003
TEMPERATURES = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
# Batches that a temperature is chosen on.
TEMPERED = 20

FIXED = "same weights for all"
"""The join with the weights of a gate that knows nothing of the sentence: what the gate must beat to be worth it."""

Join = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Encoded:
    """A part of the sample and its unit-length vectors ``(n, k, d)``."""

    part: Part
    units: Tensor

    @classmethod
    def of(cls, embedder: Embedder, part: Part, progress: OnProgress | None = None) -> "Encoded":
        """Encode each view's vectors."""
        views = embedder.encode_views(part.sentences, progress=progress)
        return cls(part, torch.from_numpy(np.stack([normalised(view) for view in views], axis=1)))

    def batches(self) -> Iterator[Array]:
        """The rows of batches of equal size, in order."""
        n = len(self.units)
        yield from np.array_split(np.arange(n), max(1, n // BATCH))


@dataclass(frozen=True)
class JoinScores:
    """How a join finds neighbours among held-out sentences.

    Attributes:
        name: of the join, or of the single view.
        loss: mean of ``-log p`` of the neighbours.
        accuracy: share of sentences whose best candidate is a neighbour.
        worse: by how much its accuracy is below the gate's; None for the gate itself.
    """

    name: str
    loss: float
    accuracy: Proportion
    worse: Difference | None


@dataclass(frozen=True)
class Fitted:
    """A fitted gate.

    Attributes:
        gate: the gate.
        epochs: number of epochs after which it was best; 0 if no epoch improved on the average.
        scores: of the gate and of all joins that it competes with.
    """

    gate: Gate
    epochs: int
    scores: list[JoinScores]


def check_gateable(embedder: Embedder) -> None:
    """Raise InputError unless an embedder has several views of equal dimensions."""
    if len(embedder.views) < 2:
        raise InputError(f"{embedder.folder}: has one view, {embedder.views[0]}: give a run with several")
    joined_width(embedder.widths, embedder.view_names, GATED)


def fit_gate(
    purpose: Purpose, fitting: Encoded, held_out: Encoded, seed: int, progress: OnProgress | None = None
) -> Fitted:
    """Fit a gate by Adam, and keep the epoch that is best on what is held out; it begins as the average.

    Args:
        purpose: what the gate is for.
        fitting, held_out: the parts of a sample.
        seed: of the batches' order.
        progress: called with the number of epochs done and the most that there are.
    """
    temperature = best_temperature(_average, fitting)
    own, fixed = (_learnt(fitting, held_out, temperature, seed, *how) for how in ((True, progress), (False,)))
    gate = Gate(own.matrix.numpy(), own.bias.numpy(), purpose)
    return Fitted(gate, own.epochs, _compared(own, fixed, temperature, purpose["views"], fitting, held_out))


@dataclass(frozen=True)
class _Learnt:
    """A gate's parameters, and the number of epochs that they have learnt for."""

    matrix: Tensor
    bias: Tensor
    epochs: int

    def join(self, units: Tensor) -> Tensor:
        return gated(units, self.matrix, self.bias)


def _learnt(
    fitting: Encoded,
    held_out: Encoded,
    temperature: float,
    seed: int,
    reads_sentences: bool,
    progress: OnProgress | None = None,
) -> _Learnt:
    """The parameters with the lowest held-out loss; A stays 0 unless the gate ``reads_sentences``."""
    k, d = fitting.units.shape[1:]
    matrix, bias = torch.zeros(k, k * d, requires_grad=reads_sentences), torch.zeros(k, requires_grad=True)
    optimiser = torch.optim.Adam([each for each in (matrix, bias) if each.requires_grad], LEARNING_RATE)

    def now(epoch: int) -> tuple[_Learnt, float]:
        learnt = _Learnt(matrix.detach().clone(), bias.detach().clone(), epoch)
        return learnt, _found(learnt.join, held_out, temperature)[0]

    best, lowest = now(0)
    for epoch in range(1, EPOCHS + 1):
        for rows in epoch_batches(np.arange(len(fitting.units)), BATCH, seed, epoch):
            optimiser.zero_grad()
            joined = gated(fitting.units[rows], matrix, bias)
            loss, _ = _contrast(joined, fitting.part.neighbours(rows), temperature)
            loss.backward()
            optimiser.step()
        learnt, loss_now = now(epoch)
        if loss_now < lowest:
            best, lowest = learnt, loss_now
        if progress:
            progress(epoch, EPOCHS)
        if epoch - best.epochs == PATIENCE:
            break
    return best


def best_temperature(join: Join, encoded: Encoded) -> float:
    """The one of ``TEMPERATURES`` with the lowest loss: how far apart the cosines of a join are is its own affair."""
    return min(TEMPERATURES, key=lambda temperature: _found(join, encoded, temperature, TEMPERED)[0])


def _average(units: Tensor) -> Tensor:
    return units.mean(dim=1)


def _single(number: int, units: Tensor) -> Tensor:
    return units[:, number]


def _compared(
    gate: _Learnt, fixed: _Learnt, temperature: float, views: Sequence[str], fitting: Encoded, held_out: Encoded
) -> list[JoinScores]:
    """The scores of the gate, of other joins and of each view alone, with the temperature that suits each."""
    joins: dict[str, Join] = {FIXED: fixed.join, "average": _average, "concatenation": lambda units: units.flatten(1)}
    joins |= {name: partial(_single, number) for number, name in enumerate(views)}
    documents = held_out.part.documents[_has_neighbour(held_out)]

    def scored(name: str, join: Join, temperature: float, own: Array | None) -> tuple[JoinScores, Array]:
        loss, hits = _found(join, held_out, temperature)
        worse = None if own is None else mean_difference(own, hits, documents)
        return JoinScores(name, loss, proportion(hits, documents), worse), hits

    first, own = scored(GATED, gate.join, temperature, None)
    return [first, *(scored(name, each, best_temperature(each, fitting), own)[0] for name, each in joins.items())]


def _has_neighbour(encoded: Encoded) -> Array:
    found: Array = np.concatenate([(encoded.part.neighbours(rows) >= 0).any(dim=1) for rows in encoded.batches()])
    return found


@torch.no_grad()
def _found(join: Join, encoded: Encoded, temperature: float, batches: int | None = None) -> tuple[float, Array]:
    """The mean loss of a join, and whether each sentence with neighbours finds one first."""
    total, hits = 0.0, []
    for rows in list(encoded.batches())[:batches]:
        neighbours = encoded.part.neighbours(rows)
        loss, best = _contrast(join(encoded.units[rows]), neighbours, temperature)
        found = (best[:, None] == neighbours).any(dim=1)[(neighbours >= 0).any(dim=1)]
        total += float(loss) * len(found)
        hits.append(found.numpy())
    outcomes: Array = np.concatenate(hits)
    return total / max(1, len(outcomes)), outcomes


def _contrast(joined: Tensor, neighbours: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The loss of a batch's joined vectors ``(B, d)``, and the best candidate ``(B,)`` of each."""
    units = F.normalize(joined, dim=1)
    loss, best, _ = contrastive_loss([(units / temperature, units)], torch.arange(len(units)), neighbours)
    return loss, best


def encoded_sample(embedder: Embedder, sample: Sample, progress: OnProgress | None = None) -> tuple[Encoded, Encoded]:
    """Encode both parts of a sample; ``progress`` is called with the sentences of both."""
    first, second = (len(part.sentences) for part in (sample.fitting, sample.held_out))

    def told(before: int) -> OnProgress | None:
        return progress and (lambda done, _: progress(before + done, first + second))

    return Encoded.of(embedder, sample.fitting, told(0)), Encoded.of(embedder, sample.held_out, told(first))
