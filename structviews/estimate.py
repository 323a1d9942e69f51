"""What a training run will need, measured on a few of its steps."""

import time
from dataclasses import dataclass
from itertools import islice

from structviews.checkpoint import Progress as Place
from structviews.config import TrainConfig
from structviews.training import Training

STEPS = 3


@dataclass(frozen=True)
class Estimate:
    """What a training run will need.

    Attributes:
        steps: steps to take.
        parameters: numbers that are learnt.
        gigabytes: weights, gradients and Adam's two moments, without activations.
        sentences_per_second: measured on a few batches.
        hours: steps at that rate.
    """

    steps: int
    parameters: int
    gigabytes: float
    sentences_per_second: float
    hours: float


def estimate(config: TrainConfig) -> Estimate:
    """What a run will need, from a few steps on its own batches; writes nothing."""
    training = Training(config)
    first, *others = islice(training.steps(Place()), STEPS + 1)
    training.step(*first.batches, words=first.words)  # the first one also pays for allocations
    timed = others or [first]
    began = time.monotonic()
    for _, batches, words in timed:
        training.step(*batches, words=words)
    seconds = (time.monotonic() - began) / len(timed)
    parameters = sum(p.numel() for p in training.model.parameters())
    rate = sum(len(batch) for step in timed for batch in step.batches) / len(timed) / seconds
    return Estimate(training.n_steps, parameters, 16e-9 * parameters, rate, training.n_steps * seconds / 3600)
