"""Reports during training, to the log, TensorBoard and the terminal; warnings."""

import math
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from structviews.objectives.objective import Objective, view_letters
from structviews.runs.folder import TENSORBOARD, append_log, cut_log, metrics_of, read_log
from structviews.runtime.terminal import Bar, say
from structviews.runtime.wording import counted, duration
from structviews.training.checkpoint import Progress
from structviews.training.trainer import Training

# Metrics shown next to the progress bar.
SHOWN = ("loss", "accuracy")


class Reporter:
    """Reports on one run from the step ``start``, where training starts or resumes.

    The leading rank also writes its log, and TensorBoard's files if the settings say so. Lines of the log after that
    step are dropped, since they will be written again.
    """

    def __init__(self, training: Training, start: Progress, console: Console, bar: Bar) -> None:
        self._training = training
        self._run = training.run
        self._objectives = {name: channel.objective for name, channel in training.model.channels.items()}
        self._console = console
        self._bar = bar
        self.last = training.data.last_step(start)
        self._rate = 0.0
        self._held_out: dict[str, float] = {}
        self._start = start.step
        self._began = self._last_logged = time.monotonic()
        self._warned: set[tuple[str, str]] = set()
        self._sentences = 0
        self._events = None
        if training.ranks.leads:
            cut_log(self._run, start.step)
            self._events = Events(self._run) if training.config.monitoring.tensorboard else None
        bar(start.step, self.last)

    def count(self, progress: Progress, sentences: int) -> None:
        """Show that a step of so many sentences is done."""
        self._sentences += sentences
        rate = self._rate or self._sentences / (time.monotonic() - self._last_logged)
        self._bar(progress.step, self.last, rate=f"{rate:,.0f} sentences/s")

    def step(self, progress: Progress, metrics: dict[str, float]) -> None:
        """Log a step and the rate since the last logged one; show the objectives' warnings."""
        now = time.monotonic()
        self._rate = self._sentences / (now - self._last_logged)
        self._sentences, self._last_logged = 0, now
        self._record("train", progress, metrics | {"sentences_per_second": self._rate})
        for prefix, objective, values in self._by_channel(metrics):
            message = objective.warning(values)
            if message and (prefix, message) not in self._warned:  # each once
                self._warned.add((prefix, message))
                say(self._console, f"warning: step {progress.step}: {prefix}{message}")
        note = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items() if name.split(".")[-1] in SHOWN)
        self._bar(progress.step, self.last, note=note, rate=f"{self._rate:,.0f} sentences/s")

    def validation(self, progress: Progress) -> None:
        """Log and print the metrics on the held-out documents, if there are any, which the leading rank computes."""
        if self._training.ranks.leads and (found := self._training.validate()):
            self._record("validation", progress, found)
            self._held_out = found
            say(self._console, f"step {progress.step}: held-out {self._reported()}")

    def evaluation(self, progress: Progress, scores: dict[str, float]) -> None:
        """Log and print the scores of a task."""
        self._record("evaluation", progress, scores)
        shown = ", ".join(f"{name} {100 * value:.1f}" for name, value in scores.items())
        say(self._console, f"step {progress.step}: {shown}")

    def learnt(self, progress: Progress) -> None:
        """Print how long it took, what the last validation found, and whether that is no better than chance."""
        took = duration(time.monotonic() - self._began)
        found = f"; held-out {self._reported()}" if self._held_out else ""
        say(self._console, f"{self._run}: {counted(progress.step - self._start, 'step')} in {took}{found}")
        for prefix, _, values in self._by_channel(self._held_out):
            if values and values["loss"] >= values.get("chance_loss", math.inf):
                remedy = "train on more text, for more --epochs or with another --lr"
                say(self._console, f"warning: {prefix}the held-out loss is no better than chance: {remedy}")

    def _reported(self) -> str:
        """The last metrics on the held-out documents."""
        by_channel = self._by_channel(self._held_out)
        return "; ".join(f"{prefix}{objective.report.format(**values)}" for prefix, objective, values in by_channel)

    def _record(self, kind: str, progress: Progress, values: dict[str, float]) -> None:
        if not self._training.ranks.leads:
            return
        append_log(self._run, {"kind": kind, "step": progress.step, "epoch": progress.epoch}, values)
        if self._events:
            self._events.add(kind, progress.step, values)

    def _by_channel(self, metrics: dict[str, float]) -> Iterator[tuple[str, Objective, dict[str, float]]]:
        """Each channel's prefix of metric names, its objective, and its metrics without the prefix."""
        for name, objective in self._objectives.items():
            prefix = f"{name}." if len(self._objectives) > 1 else ""
            yield prefix, objective, {n.removeprefix(prefix): v for n, v in metrics.items() if n.startswith(prefix)}


@torch.no_grad()
def cosines(views: list[Tensor]) -> dict[str, Tensor]:
    """Mean cosine of different sentences in one view (``cos_ff``), and of the same sentence in two (``cos_fg``).

    The first tends to 1 if a view collapses. Views are named f, g, h, ... in order.
    """
    result = {}
    unit = [torch.nn.functional.normalize(v.float(), dim=1) for v in views]
    letters = view_letters(len(unit))
    for i, a in enumerate(unit):
        n = len(a)
        off_diagonal = a.sum(dim=0).square().sum() - a.square().sum()
        result[f"cos_{letters[i]}{letters[i]}"] = off_diagonal / max(n * (n - 1), 1)
        for j in range(i + 1, len(unit)):
            result[f"cos_{letters[i]}{letters[j]}"] = (a * unit[j]).sum(dim=1).mean()
    return result


class Events:
    """The points of a run's log for TensorBoard: ``kind/name`` by step.

    Rewrites what is already in the log, so that a run resumed from an earlier step has no duplicate points, and a run
    that turns this on later has all of them.
    """

    def __init__(self, run: Path):
        from tensorboardX.event_file_writer import EventsWriter  # noqa: PLC0415

        folder = run / TENSORBOARD
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._writer = EventsWriter(str(folder / "events"))
        for entry in read_log(run):
            self.add(entry["kind"], entry["step"], metrics_of(entry))
        self._writer.flush()

    def add(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Write the points of one line of the log."""
        from tensorboardX.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboardX.summary import scalar  # noqa: PLC0415

        for name, value in values.items():
            summary = scalar(f"{kind}/{name}", value)
            self._writer.write_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()
