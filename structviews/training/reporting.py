"""Reports during training, to the log, TensorBoard and the terminal; warnings."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console

from structviews.objectives.objective import Objective
from structviews.runs.log_file import append_log, cut_log
from structviews.runtime.terminal import Bar, say
from structviews.runtime.wording import counted, duration
from structviews.training.checkpoint import Place
from structviews.training.log import noted
from structviews.training.tensorboard import Events


class Reporter:
    """Reports on one run, from the step that it starts or resumes at.

    Drops lines of the log after that step, since they will be written again.

    Args:
        run: its folder.
        start: where training starts or resumes.
        objectives: the channels' objectives, by channel.
        console: where lines are printed.
        bar: shows the steps.
        last: number of the last step.
        tensorboard: whether to also write TensorBoard's files.
    """

    def __init__(
        self,
        run: Path,
        start: Place,
        objectives: Mapping[str, Objective],
        console: Console,
        bar: Bar,
        last: int,
        tensorboard: bool = False,
    ) -> None:
        self._run = run
        self._objectives = objectives
        self._console = console
        self._bar = bar
        self._last = last
        self._rate = 0.0
        self._held_out: dict[str, float] = {}
        self._start = start.step
        self._began = time.monotonic()
        self._warned: set[tuple[str, str]] = set()
        self._sentences = 0
        self._last_logged = time.monotonic()
        cut_log(run, start.step)
        self._events = Events(run) if tensorboard else None
        bar(start.step, last)

    def count(self, place: Place, sentences: int) -> None:
        """Show that a step of so many sentences is done."""
        self._sentences += sentences
        rate = self._rate or self._sentences / (time.monotonic() - self._last_logged)
        self._bar(place.step, self._last, rate=f"{rate:,.0f} sentences/s")

    def step(self, place: Place, metrics: dict[str, float]) -> None:
        """Log a step and the rate since the last logged one; show the objectives' warnings."""
        now = time.monotonic()
        self._rate = self._sentences / (now - self._last_logged)
        self._sentences, self._last_logged = 0, now
        self._record("train", place, metrics | {"sentences_per_second": self._rate})
        self._warn(place, metrics)
        self._bar(place.step, self._last, note=noted(metrics), rate=f"{self._rate:,.0f} sentences/s")

    def validation(self, place: Place, metrics: dict[str, float]) -> None:
        """Log and print the metrics on the held-out documents, if there are any."""
        if not metrics:
            return
        self._record("validation", place, metrics)
        self._held_out = metrics
        say(self._console, f"step {place.step}: held-out {self._reported()}")

    def learnt(self, place: Place) -> None:
        """Print how long it took, and what the last validation found."""
        took = duration(time.monotonic() - self._began)
        found = f"; held-out {self._reported()}" if self._held_out else ""
        say(self._console, f"{self._run}: {counted(place.step - self._start, 'step')} in {took}{found}")

    def _reported(self) -> str:
        """The last metrics on the held-out documents."""
        each = self._each_channel(self._held_out)
        return "; ".join(f"{prefix}{objective.report.format(**values)}" for prefix, objective, values in each)

    def evaluation(self, place: Place, scores: dict[str, float]) -> None:
        """Log and print the scores of a task."""
        self._record("evaluation", place, scores)
        shown = ", ".join(f"{name} {100 * value:.1f}" for name, value in scores.items())
        say(self._console, f"step {place.step}: {shown}")

    def _record(self, kind: str, place: Place, values: dict[str, float]) -> None:
        append_log(self._run, {"kind": kind, "step": place.step, "epoch": place.epoch}, values)
        if self._events:
            self._events.add(kind, place.step, values)

    def _warn(self, place: Place, metrics: dict[str, float]) -> None:
        """Print each objective's warning about its metrics once."""
        for prefix, objective, values in self._each_channel(metrics):
            message = objective.warning(values)
            if message and (prefix, message) not in self._warned:
                self._warned.add((prefix, message))
                say(self._console, f"warning: step {place.step}: {prefix}{message}")

    def _each_channel(self, metrics: dict[str, float]) -> Iterator[tuple[str, Objective, dict[str, float]]]:
        """Each channel's prefix of metric names, its objective, and its metrics without the prefix."""
        for name, objective in self._objectives.items():
            prefix = f"{name}." if len(self._objectives) > 1 else ""
            yield prefix, objective, {n.removeprefix(prefix): v for n, v in metrics.items() if n.startswith(prefix)}
