"""Training curves from the logs of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from structviews.runtime.pictures import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Maximum points per curve; longer logs are averaged in equal parts.
POINTS = 300
# Metrics to draw, with their titles; a metric that no log has is left out.
PANELS = {
    "loss": "Loss",
    "accuracy": "Context accuracy",
    "temperature": "Temperature τ",
    "sentences_per_second": "Sentences per second",
}
CHANCE = "chance_"
# Line styles, in matplotlib and in SVG.
DASHES, SVG_DASHES = ("-", "--", "-."), ("none", "6 3", "8 3 2 3")


@dataclass(frozen=True)
class Curve:
    """One metric over n steps of a run."""

    run: str
    channel: str  # empty unless the run has several and the metric belongs to one
    kind: str  # train, validation or evaluation
    metric: str  # without the channel
    steps: np.ndarray  # (n,)
    values: np.ndarray  # (n,)


def curves(name: str, entries: Sequence[dict[str, Any]]) -> list[Curve]:
    """The curves of a run's log, from its name and the entries of ``read_log``."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for entry in entries:
        for metric, value in entry.items():
            if metric not in ("kind", "step", "epoch"):
                found.setdefault((entry["kind"], metric), []).append((entry["step"], float(value)))
    drawn = []
    for (kind, metric), points in found.items():
        # With several channels, names of metrics begin with the channel (see ``trainer.flat``).
        channel, _, own = metric.rpartition(".") if kind != "evaluation" else ("", "", metric)
        # Equal groups of points, of which the last may be smaller, become their means.
        table = np.array(points, dtype=np.float64)
        starts = np.arange(0, len(table), -(-len(table) // POINTS))
        steps, values = (np.add.reduceat(table, starts) / np.diff(starts, append=len(table))[:, None]).T
        drawn.append(Curve(name, channel, kind, own, steps, values))
    return drawn


def panels(found: Sequence[Curve]) -> dict[str, str]:
    """The metrics to draw, with their titles: those of ``PANELS`` and the task scores."""
    metrics = dict.fromkeys(curve.metric for curve in found)
    scores = dict.fromkeys(curve.metric for curve in found if curve.kind == "evaluation")
    return {name: title for name, title in PANELS.items() if name in metrics} | {
        name: f"{name.replace('.', ', ')} x 100" for name in scores
    }


class Series(NamedTuple):
    """The curves of a run, or of one of its channels."""

    run: str
    channel: str
    colour: int  # into COLOURS, by run
    dash: int  # into DASHES, by channel

    @property
    def name(self) -> str:
        """The name in the legend."""
        return f"{self.run} · {self.channel}" if self.channel else self.run

    def has(self, curve: Curve) -> bool:
        """Whether a curve belongs to this series: to its channel, or to all channels of its run."""
        return curve.run == self.run and curve.channel in ("", self.channel)


def series_of(found: Sequence[Curve]) -> list[Series]:
    """The series of some curves: one per run, or one per channel if a run has several."""
    channels: dict[str, dict[str, None]] = {}
    for curve in found:
        channels.setdefault(curve.run, {})[curve.channel] = None
    return [
        Series(run, channel, number % len(COLOURS), (number // len(COLOURS) + position) % len(DASHES))
        for number, (run, names) in enumerate(channels.items())
        for position, channel in enumerate([name for name in names if name] or [""])
    ]


def draw_panel(found: Sequence[Curve], metric: str, title: str, series: Sequence[Series]) -> "Figure":
    """Plot a metric of all runs: lines for training, lines with dots for validation, dotted lines for chance."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    figure = Figure(figsize=(4.6, 3.1), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    for curve in found:
        by_chance = curve.metric == CHANCE + metric and curve.kind == "train"
        if curve.metric != metric and not by_chance:
            continue
        of = [i for i, each in enumerate(series) if each.has(curve)]
        groups = " ".join(["series", *(f"s{i}" for i in of)])
        look: dict[str, Any] = {"color": COLOURS[series[of[0]].colour], "gid": groups}
        if by_chance:
            look |= {"linestyle": ":", "linewidth": 0.9, "alpha": 0.7}
        else:
            held_out = {"marker": "o", "markersize": 4, "linewidth": 0.7}
            look |= {"linestyle": DASHES[series[of[0]].dash]} | ({} if curve.kind == "train" else held_out)
        factor = 100 if curve.kind == "evaluation" or metric == "accuracy" else 1
        axes.plot(curve.steps, factor * curve.values, **look)
    if metric == "accuracy":
        axes.set_ylabel("per cent")
    if metric == "sentences_per_second":
        axes.set_ylim(bottom=0)
    return figure
