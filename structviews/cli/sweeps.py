"""``structviews sweep``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import GO_ON, errors, inform, say, suggest, typeable
from structviews.cli.options import Device, own_device
from structviews.cli.setting_flags import HELP_ALL, NONE_GIVEN, TrainCommand, names_in, train_flags, with_flags
from structviews.runs import RUNS

PANEL = "Training"
app = typer.Typer()


@app.command("sweep", cls=TrainCommand)
@with_flags(train_flags(without=("views", "seed", "out")))
def sweep_views(
    views: Annotated[list[str], typer.Option(help="Comma-separated views; give once per set.", show_default=False)],
    seeds: Annotated[int, typer.Option(help="Number of seeds: train each set with seeds 1, 2, ...")] = 3,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the runs.")] = RUNS / "sweep",
    device: Device = "",
    config: Annotated[
        Path | None, typer.Option(help="Settings from a config.toml; flags override them.", show_default=False)
    ] = None,
    help_all: Annotated[
        bool, typer.Option(HELP_ALL, help="Show all flags, with rare ones and those of each objective and view.")
    ] = False,
    given: Mapping[str, Any] = NONE_GIVEN,
) -> None:
    """Train several sets of views, each with several seeds, one after another.

    All settings of train apply to every run. If it is stopped, run the same command again to resume; finished runs are
    skipped.

    Example: structviews sweep --views dep,const --views seq,seq --seeds 3 --corpus corpus.parsed
    """
    from structviews.corpus.parsed_corpus import find_corpus
    from structviews.runs.settings_file import load_config
    from structviews.runtime.device import using
    from structviews.runtime.processes import Interrupted
    from structviews.training.ranks import joined_ranks
    from structviews.training.sweep import sweep_jobs, train_jobs

    base = load_config(config)[0] if config else None
    settings = dict(given)
    if "corpus" not in settings and not (base and base.data.corpus):
        settings["corpus"] = str(find_corpus())
    try:
        with joined_ranks() as ranks, using(own_device(device, ranks.count)):
            jobs = sweep_jobs([names_in(names) for names in views], seeds, out, settings, base)
            runs = train_jobs(jobs, errors, ranks)
    except Interrupted as stop:
        inform(f"stopped at step {stop.step} of a run, saved; {GO_ON}")
        raise typer.Exit(128 + stop.signal) from None
    if ranks.leads:
        for run in runs:
            say(str(run))
        suggest("Next, score them and compare:", f"structviews eval {typeable(out)}/* --senteval DIR")
