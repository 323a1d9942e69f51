"""Several trainings one after another: sets of views, each with several seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from structviews.config import TrainConfig
from structviews.distributed import Ranks
from structviews.errors import InputError
from structviews.log import say
from structviews.training import train


def sweep_jobs(
    sets: Sequence[tuple[str, ...]], seeds: int, folder: Path, settings: Mapping[str, Any]
) -> list[TrainConfig]:
    """The settings of all runs: seed by seed, so that there is a whole table early.

    Args:
        sets: names of the views of each.
        seeds: how many; from 1 on.
        folder: the runs' folders are made here, named after views and seed.
        settings: of all runs.

    Raises:
        InputError: for a wrong setting, or a set that is named twice.
    """
    if seeds < 1:
        raise InputError(f"seeds = {seeds}: give at least 1")
    for number, names in enumerate(sets):
        if names in sets[:number]:
            raise InputError(f"--views {','.join(names)} stands twice: leave one out")
    return [
        TrainConfig.from_settings(
            dict(settings) | {"views": names, "seed": seed, "out": str(folder / f"{'-'.join(names)}-seed{seed}")},
            "command line",
        )
        for seed in range(1, seeds + 1)
        for names in sets
    ]


def train_jobs(jobs: Sequence[TrainConfig], console: Console, ranks: Ranks | None = None) -> list[Path]:
    """Train one after another what is not trained already; the runs' folders.

    Raises:
        InputError: as ``train`` does; runs that are finished stay.
        Interrupted: once the state of the run at hand is saved.
    """
    ranks = ranks or Ranks()
    runs = []
    for number, config in enumerate(jobs, 1):
        if ranks.leads:
            say(console, f"run {number} of {len(jobs)}: {config.out}")
        runs.append(train(config, console, ranks))
    return runs
