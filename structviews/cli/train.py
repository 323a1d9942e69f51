"""``structviews train`` and ``recipes``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structviews.cli.console import GO_ON, console, errors, inform, say, suggest, typeable, write
from structviews.cli.options import Device, own_device
from structviews.cli.setting_flags import HELP_ALL, NONE_GIVEN, TrainCommand, train_flags, with_flags
from structviews.cli.which_runs import named_run, own_run
from structviews.errors import InputError
from structviews.runs import RUNS
from structviews.runtime.wording import counted, duration

if TYPE_CHECKING:
    from structviews.runs.config import TrainConfig

PANEL = "Training"
app = typer.Typer()


@app.command("train", cls=TrainCommand)
@with_flags(train_flags())
def train_views(
    config: Annotated[
        Path | None, typer.Option(help="Settings from a config.toml; flags override them.", show_default=False)
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Settings of a paper's model (see structviews recipes); flags override them.", show_default=False
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Resume this run; the only other flags allowed are --epochs and --steps.",
            show_default=False,
            metavar="PATH",
            parser=named_run,
            callback=own_run,
        ),
    ] = None,
    device: Device = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate steps, memory and time; do not train.")] = False,
    help_all: Annotated[
        bool, typer.Option(HELP_ALL, help="Show all flags, with rare ones and those of each objective and view.")
    ] = False,
    given: Mapping[str, Any] = NONE_GIVEN,
) -> None:
    """Train views on a parsed corpus, to agree on which sentences are neighbours.

    If it is stopped, run the same command again to resume.

    Example: structviews train --views dep,const --corpus corpus.parsed
    """
    from structviews.recipes.joining import join_members
    from structviews.recipes.recipe import Recipe
    from structviews.runtime.device import using
    from structviews.runtime.processes import Interrupted
    from structviews.training.loop import train
    from structviews.training.ranks import joined_ranks
    from structviews.training.resuming import extend

    try:
        with joined_ranks() as ranks, using(own_device(device, ranks.count)):
            jobs = [resumed(resume, config, recipe, given)] if resume else training_jobs(config, recipe, given)
            if dry_run:
                for settings in jobs if ranks.leads else []:
                    print_estimate(settings)
                return
            if resume and ranks.leads:
                extend(jobs[0])
            ranks.wait()
            runs = [train(settings, errors, ranks) for settings in jobs]
            if recipe and Recipe.load(recipe).members and ranks.leads:
                runs = [join_members(Recipe.load(recipe), Path(given.get("out", RUNS / recipe)))]
    except Interrupted as stop:
        inform(f"stopped at step {stop.step}, saved; {GO_ON}")
        raise typer.Exit(128 + stop.signal) from None
    if ranks.leads:
        say(str(runs[0]))
        suggest_uses(runs[0])


def suggest_uses(run: Path) -> None:
    """Say what a finished run is for."""
    suggest(
        "Next, score it, encode your own sentences, or load it in Python:",
        f"structviews eval {typeable(run)} --senteval DIR",
        f"structviews encode {typeable(run)} sentences.txt -o vectors.npy",
        f'from structviews import Embedder; embedder = Embedder.load("{run}")',
    )


def resumed(run: Path, config: Path | None, recipe: str | None, given: Mapping[str, Any]) -> "TrainConfig":
    """The settings of a resumed run, with ``given`` epochs or steps if any.

    Raises:
        InputError: if anything else is given.
    """
    from structviews.training.resuming import extended

    others = [name for name in given if name not in ("epochs", "steps")]
    others += [name for name, value in (("config", config), ("recipe", recipe)) if value]
    if others:
        raise InputError(f"--resume uses the run's own settings: leave out --{others[0].replace('_', '-')}")
    return extended(run, given.get("epochs"), given.get("steps"))


def print_estimate(settings: "TrainConfig") -> None:
    """Print a run's estimated steps, memory and time on one line."""
    from structviews.training.estimate import estimate

    needed = estimate(settings)
    say(
        f"{counted(needed.steps, 'step')} in about {duration(max(needed.seconds, 1))}, at "
        f"{needed.sentences_per_second:,.0f} sentences/s; {needed.parameters:,} parameters, "
        f"{needed.gigabytes:.2f} GB with gradients and Adam's moments"
    )


def training_jobs(config: Path | None, recipe: str | None, given: Mapping[str, Any]) -> list["TrainConfig"]:
    """Settings from a file or a recipe, overridden by flags; those of several runs where a recipe joins runs.

    Looks for a corpus if none is named. Runs to be joined are trained next to the joined run's folder,
    each in a folder named after its recipe.
    """
    from structviews.corpus.parsed_corpus import find_corpus
    from structviews.recipes.recipe import Recipe
    from structviews.runs.config import TrainConfig
    from structviews.runs.settings_file import load_config
    from structviews.words import FIXED

    if config and recipe:
        raise InputError("--config and --recipe both give settings: leave one out")
    if config:
        another = {"out": ""} if "views" in given else {}
        return [load_config(config)[0].replaced(**another | dict(given))]
    if not recipe and "views" not in given:
        raise InputError("no views: choose some with --views, as in --views dep,const")
    # Report an unknown view before looking for a corpus.
    jobs = []
    if recipe:
        wanted = Recipe.load(recipe)
        folder = Path(given.get("out", RUNS / recipe))
        fixed = [name for name, (each, _) in wanted.runs.items() if FIXED in each.channels]
        for name, (each, seed) in wanted.runs.items():
            out = folder.parent / name if wanted.members else folder
            # Of members with fixed and with trained words, those with fixed ones alone read the vectors.
            own = {key: value for key, value in given.items() if key != "vectors" or name in fixed or not fixed}
            jobs.append(each.config(**{"corpus": "", "seed": seed, **own, "out": str(out)}))
    else:
        jobs.append(TrainConfig.from_flat({"corpus": "", **given}, "command line"))
    return [job if job.data.corpus else job.replaced(corpus=str(find_corpus())) for job in jobs]


@app.command("recipes")
def list_recipes(
    name: Annotated[str | None, typer.Argument(help="Recipe to show.", show_default=False)] = None,
) -> None:
    """List the recipes of the papers' rows, for reproduce, train --recipe and eval --recipe, or show one.

    Example: structviews recipes mc-qt
    """
    from structviews.recipes.recipe import Recipe, file_of, names
    from structviews.runtime.terminal import Table

    if name:
        write(file_of(name).read_text("utf-8"))
        return
    by_paper: dict[str, list[Recipe]] = {}
    for each in map(Recipe.load, names()):
        by_paper.setdefault(each.credit, []).append(each)
    for paper, recipes in by_paper.items():
        table = Table("recipe", "model", "place", box=None, title=paper, title_justify="left", title_style="bold")
        table.columns[0].no_wrap = True
        for each in recipes:
            table.add_row(each.name, each.summary, each.source.place)
        console.print(table)
        console.print()
