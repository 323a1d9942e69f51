"""Train several sets of views, each with several seeds, one after another."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from structviews.errors import InputError
from structviews.runs.config import TrainConfig
from structviews.runtime.terminal import say
from structviews.training.loop import train
from structviews.training.ranks import Ranks

MOST_SEEDS = 1000


def sweep_jobs(
    sets: Sequence[tuple[str, ...]],
    seeds: int,
    folder: Path,
    settings: Mapping[str, Any],
    base: TrainConfig | None = None,
) -> list[TrainConfig]:
    """The settings of all runs, ordered by seed, so that the first complete table is ready early.

    Args:
        sets: the views of each set.
        seeds: number of seeds, counted from 1.
        folder: parent of the runs' folders, which are named after views and seed.
        settings: common to all runs.
        base: where the other settings come from; by default their defaults.

    Raises:
        InputError: for an invalid setting, or a set given twice.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds = {seeds}: give at least 1 and at most {MOST_SEEDS}")
    for number, names in enumerate(sets):
        if names in sets[:number]:
            raise InputError(f"--views {','.join(names)}: given twice: remove one")

    def job(names: tuple[str, ...], seed: int) -> TrainConfig:
        out = folder / f"{'-'.join(names)}-seed{seed}"
        own = dict(settings) | {"views": names, "seed": seed, "out": str(out)}
        return base.replaced(**own) if base else TrainConfig.from_flat(own, "command line")

    return [job(names, seed) for seed in range(1, seeds + 1) for names in sets]


def train_jobs(jobs: Sequence[TrainConfig], console: Console, ranks: Ranks | None = None) -> list[Path]:
    """Train all unfinished runs in turn; return the folders of all runs.

    Raises:
        InputError: as ``train`` does; finished runs are kept.
        Interrupted: once the state of the current run is saved.
    """
    ranks = ranks or Ranks()
    runs = []
    for number, config in enumerate(jobs, 1):
        if ranks.leads:
            say(console, f"run {number} of {len(jobs)}: {config.data.out}")
        runs.append(train(config, console, ranks))
    return runs
