"""Estimate a training run's memory and time from a few of its steps."""

import time
from dataclasses import dataclass
from itertools import islice

from structviews.runs.config import TrainConfig
from structviews.training.checkpoint import Place
from structviews.training.learnable import check_learnable
from structviews.training.trainer import BYTES_PER_PARAMETER, Training

STEPS = 3


@dataclass(frozen=True)
class Estimate:
    """What a training run needs.

    Attributes:
        steps: number of steps.
        parameters: number of trainable parameters.
        gigabytes: weights, gradients and Adam's two moments, without activations.
        sentences_per_second: measured on a few batches.
        seconds: all steps at that rate.
    """

    steps: int
    parameters: int
    gigabytes: float
    sentences_per_second: float
    seconds: float


def estimate(config: TrainConfig) -> Estimate:
    """Estimate what a run needs from a few steps on its own batches; writes nothing."""
    training = Training(config)
    check_learnable(training)
    first, *others = islice(training.steps(Place()), STEPS + 1)
    training.step(*first.batches, words=first.words)  # warm-up: the first step also allocates memory
    timed = others or [first]
    began = time.monotonic()
    for _, batches, words in timed:
        training.step(*batches, words=words)
    seconds = (time.monotonic() - began) / len(timed)
    parameters = sum(p.numel() for p in training.model.parameters())
    rate = sum(len(batch) for step in timed for batch in step.batches) / len(timed) / seconds
    return Estimate(
        training.n_steps, parameters, BYTES_PER_PARAMETER * 1e-9 * parameters, rate, training.n_steps * seconds
    )
