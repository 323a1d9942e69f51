"""What training tells while it goes on: lines of the log, of the terminal, warnings."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from rich.console import Console

from structviews.checkpoint import Progress as Place
from structviews.log import append_log, say
from structviews.model import Channel, Model

if TYPE_CHECKING:
    from structviews.training import Training


def record(training: "Training", kind: str, place: Place, values: dict[str, float]) -> None:
    """Log, if this rank leads."""
    if training.ranks.leads:
        append_log(training.run, kind, place, values)
        if training.events:
            training.events.add(kind, place.step, values)


def undisturbed(device: torch.device) -> AbstractContextManager[None]:
    """What is done in between changes no random numbers of training."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def report_validation(training: "Training", place: Place, console: Console) -> None:
    """Validate, log and print one line, if this rank leads; the others meet it at the next step."""
    if not training.ranks.leads:
        return
    with undisturbed(training.device):
        metrics = training.validate()
    if not metrics:
        return
    record(training, "validation", place, metrics)
    reports = [
        f"{prefix}{channel.objective.report.format(**values)}"
        for prefix, channel, values in each_channel(training.model, metrics)
    ]
    say(console, f"step {place.step}: held-out {'; '.join(reports)}")


def report_evaluation(training: "Training", place: Place, console: Console) -> None:
    """Score the task, log and print one line, if this rank leads."""
    if not training.monitor:
        return
    with undisturbed(training.device):
        scores = training.monitor.score()
    record(training, "evaluation", place, scores)
    say(console, f"step {place.step}: " + ", ".join(f"{name} {100 * value:.1f}" for name, value in scores.items()))


def warn(training: "Training", metrics: dict[str, float], place: Place, console: Console) -> None:
    """Say what an objective finds wrong with its metrics, the first time."""
    for prefix, channel, values in each_channel(training.model, metrics):
        message = channel.objective.warning(values)
        if message and (prefix, message) not in training.warned:
            training.warned.add((prefix, message))
            say(console, f"warning: step {place.step}: {prefix}{message}")


def each_channel(model: Model, metrics: dict[str, float]) -> Iterator[tuple[str, Channel, dict[str, float]]]:
    """The channels with what their metrics' names begin with, see ``flat``, and their metrics without."""
    several = len(model.channels) > 1
    for name, channel in model.each():
        prefix = f"{name}." if several else ""
        yield prefix, channel, {n.removeprefix(prefix): v for n, v in metrics.items() if n.startswith(prefix)}
