"""What a training run reports: its metrics and its progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch import Tensor

# Metrics shown next to the progress bar.
SHOWN = ("loss", "accuracy")


Metrics = dict[str, dict[str, Tensor]]


def mean_metrics(several: list[Metrics]) -> Metrics:
    """The mean of several batches' metrics, kept on the device."""
    return {
        channel: {name: torch.stack([m[channel][name] for m in several]).double().mean() for name in metrics}
        for channel, metrics in several[0].items()
    }


def flat(metrics: Metrics) -> dict[str, float]:
    """Metrics as floats; with several channels, names are prefixed with the channel's."""
    if len(metrics) == 1:
        return {name: float(value) for name, value in next(iter(metrics.values())).items()}
    return {f"{channel}.{name}": float(v) for channel, m in metrics.items() for name, v in m.items()}


@torch.no_grad()
def cosines(views: list[Tensor]) -> dict[str, Tensor]:
    """Mean cosine of different sentences in one view (``cos_ff``), and of the same sentence in two (``cos_fg``).

    The first tends to 1 if a view collapses. Views are named f, g, h, ... in order.
    """
    result = {}
    unit = [torch.nn.functional.normalize(v.float(), dim=1) for v in views]
    letters = [chr(ord("f") + i) for i in range(len(unit))]
    for i, a in enumerate(unit):
        n = len(a)
        off_diagonal = a.sum(dim=0).square().sum() - a.square().sum()
        result[f"cos_{letters[i]}{letters[i]}"] = off_diagonal / max(n * (n - 1), 1)
        for j in range(i + 1, len(unit)):
            result[f"cos_{letters[i]}{letters[j]}"] = (a * unit[j]).sum(dim=1).mean()
    return result


@contextmanager
def progress_bar(
    console: Console, total: int, start: int, name: str
) -> Iterator[Callable[[int, dict[str, float], float], None]]:
    """A progress bar with step, loss, accuracy, sentences per second and time left."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=total, completed=start, note="")

        def show(step: int, line: dict[str, float], rate: float) -> None:
            shown = [f"{name} {value:.3f}" for name, value in line.items() if name.split(".")[-1] in SHOWN]
            note = "  ".join([*shown, f"{rate:,.0f} sentences/s"])
            bar.update(task, completed=step, note=note)

        yield show
        bar.update(task, completed=total)
