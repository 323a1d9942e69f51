"""What a training run writes down and shows: its log, and a line of progress."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor

from structviews.checkpoint import Progress as Place

LOG = "log.jsonl"
# Metrics that stand beside the progress bar.
SHOWN = ("loss", "accuracy")


Metrics = dict[str, dict[str, Tensor]]


def mean_metrics(several: list[Metrics]) -> Metrics:
    """The mean of several batches' metrics, still on the device."""
    return {
        channel: {name: torch.stack([m[channel][name] for m in several]).double().mean() for name in metrics}
        for channel, metrics in several[0].items()
    }


def flat(metrics: Metrics) -> dict[str, float]:
    """Metrics as numbers; those of several channels carry the channel's name."""
    if len(metrics) == 1:
        return {name: float(value) for name, value in next(iter(metrics.values())).items()}
    return {f"{channel}.{name}": float(v) for channel, m in metrics.items() for name, v in m.items()}


@torch.no_grad()
def cosines(views: list[Tensor]) -> dict[str, Tensor]:
    """Mean cosine of different sentences under one view (``f-f``), of a sentence under two (``f-g``).

    The first tends to 1 where a view collapses. Views are lettered f, g, h, ... in their order.
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


def say(console: Console, text: str) -> None:
    """Print a line as it is."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def append_log(run: Path, kind: str, place: Place, values: dict[str, float]) -> None:
    """One line of ``log.jsonl``."""
    line = {"kind": kind, "step": place.step, "epoch": place.epoch} | {k: round(v, 6) for k, v in values.items()}
    with (run / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def cut_log(run: Path, step: int) -> None:
    """Drop lines behind the step that training goes on from: they will be written again."""
    path = run / LOG
    if not path.exists():
        return
    kept = []
    for line in path.read_text("utf-8").splitlines():
        try:
            entry: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            continue  # the line that a kill cut short
        if entry["step"] <= step:
            kept.append(line + "\n")
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(kept), "utf-8")
    temporary.replace(path)


@contextmanager
def progress_bar(
    console: Console, total: int, start: int, name: str
) -> Iterator[Callable[[int, dict[str, float], float], None]]:
    """A line with step, losses, accuracies, sentences a second and time left."""
    columns = (
        TextColumn("{task.description}"),
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


@contextmanager
def rate_bar(console: Console, what: str, unit: str, size: int = 1) -> Iterator[Callable[[int, int], None]]:
    """A line with the share done, the rate and time left, from the first word on; yields what is told.

    A console that is no terminal, such as a log file, gets a line at the first word and one at each tenth.

    Args:
        console: where it is shown.
        what: what is being done.
        unit: what is counted.
        size: how many of those that are told make one.
    """
    columns = (TextColumn(what, markup=False), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    bar = Progress(*columns, TimeRemainingColumn(), console=console)
    task = bar.add_task(what, total=None, rate="")
    first: tuple[int, float] | None = None
    tenths = -1
    with ExitStack() as shown:

        def show(done: int, total: int) -> None:
            nonlocal first, tenths
            before, began = first = first or (done, time.perf_counter())
            rate = f"{(done - before) / size / (time.perf_counter() - began):,.0f} {unit}/s" if done > before else ""
            if console.is_terminal or console.is_jupyter:
                if not bar.live.is_started:
                    shown.enter_context(bar)
                bar.update(task, completed=done, total=total, rate=rate)
            elif tenths < (tenths := 10 * done // max(total, 1)):
                so_far = f"{done / size:,.0f} of {total / size:,.0f} {unit}"
                say(console, f"{what}: {', '.join(filter(None, (so_far, rate)))}")

        yield show


@contextmanager
def shown(progress: Callable[[int, int], None] | bool | None) -> Iterator[Callable[[int, int], None] | None]:
    """What is told of sentences done and their total: a function as it is; for True a bar on stderr."""
    if progress is True:
        with rate_bar(Console(stderr=True), "encoding", "sentences") as bar:
            yield bar
    else:
        yield progress or None
