"""Estimate a training run's memory and time from a few of its steps."""

import time
from dataclasses import dataclass
from itertools import islice

from structviews.runs.config import TrainConfig
from structviews.training.checkpoint import Place
from structviews.training.learnable import check_learnable
from structviews.training.trainer import Step, Training, training_bytes

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
    steps = training.steps(Place())
    first = next(steps)
    _take(training, first)  # warm-up: the first step also allocates memory
    began = time.monotonic()
    # With their batches, which take longer than the steps where they hold an encoder's states.
    sentences = [_take(training, step) for step in islice(steps, STEPS)] or [_take(training, first)]
    seconds = (time.monotonic() - began) / len(sentences)
    parameters = sum(p.numel() for p in training.model.parameters())
    rate = sum(sentences) / len(sentences) / seconds
    needed = 1e-9 * training_bytes(training.model)
    return Estimate(training.n_steps, parameters, needed, rate, training.n_steps * seconds)


def _take(training: Training, step: Step) -> int:
    """Take a step; return its number of sentences."""
    training.step(*step.batches, words=step.words)
    return sum(map(len, step.batches))
