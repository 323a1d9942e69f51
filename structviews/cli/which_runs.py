"""Runs as all commands take them: by name, and several of them as a folder of runs."""

import os
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import inform
from structviews.errors import InputError
from structviews.runs import RUNS
from structviews.runs.bundled import check_own, or_bundled, run_folder


def named_run(name: str) -> Path:
    """The path that a run's name means: a bundled model, a path, or one in runs/ if it is not here."""
    path = run_folder(name)
    return RUNS / path if not os.path.exists(path) and os.path.exists(RUNS / path) else path


def one_run(given: Any) -> Any:
    """Check that a name means one run; None passes."""
    from structviews.runs.folder import find_runs, no_run

    if given and (found := find_runs(given)) != [given]:
        if not found:
            raise no_run(given)
        raise InputError(f"{given}: a folder of {len(found)} runs: name one of them, such as {found[0]}")
    return given


def own_run(given: Any) -> Any:
    """Check that a name means one run, which the command may write to; None passes."""
    check_own([given])
    return one_run(given)


def several_runs(given: Any) -> Any:
    """The runs that names mean, where a folder of runs means all of these; skips files, as in runs/*; None passes."""
    from structviews.runs.folder import find_runs, no_run, run_names

    if not given:
        return given
    files = [path for path in given if os.path.isfile(path)]
    folders = [path for path in given if path not in files]
    runs = []
    for path in folders or files:
        if not (found := find_runs(path)):
            raise no_run(path)
        runs += found
    run_names(runs)  # raises if one is named twice
    for path in files:
        inform(f"skipping {path}: not a run")
    return runs


def own_runs(given: Any) -> Any:
    """The runs that names mean, which the command may write to; see ``several_runs``."""
    check_own(given or [])
    return several_runs(given)


def named_member(name: str) -> tuple[Path, str]:
    """The run and the view that RUN:VIEW means; the view is empty for a whole run, whose path may have colons."""
    run, _, view = name.rpartition(":")
    if not (run and view) or set(view) & set("/\\") or os.path.exists(named_run(name)):
        return named_run(name), ""
    return named_run(run), view


def several_members(given: Any) -> Any:
    """The members of a join that names mean: runs, all runs of folders, and single views; see ``several_runs``."""
    from structviews.encoding.kinds.joined import Member

    found: list[Member] = []
    for single, some in groupby(given, lambda each: bool(each[1])):
        members = list(some)
        if single:
            found += [Member(one_run(run), view) for run, view in members]
        else:
            found += map(Member, several_runs([run for run, _ in members]))
    places = [(run.resolve(), view) for run, view in found]
    for i, (run, view) in enumerate(found):
        if places[i] in places[:i]:
            raise InputError(f"{run}{':' * bool(view)}{view}: named twice: name each run, or view, once")
    return found


# Runs that a command only reads may be bundled models; those that it writes to (Own...) may not.
Run = Annotated[
    Path,
    typer.Argument(help=f"A run{or_bundled()}.", show_default=False, parser=named_run, callback=one_run),
]


Runs = Annotated[
    list[Path],
    typer.Argument(
        help=f"Runs, or folders of runs{or_bundled()}.",
        show_default=False,
        parser=named_run,
        callback=several_runs,
    ),
]


Members = Annotated[
    list[Path],
    typer.Argument(
        help="Runs, folders of runs, or single views: RUN:VIEW (VIEW.1 where a run has several of that name).",
        show_default=False,
        parser=named_member,
        callback=several_members,
    ),
]


OwnRun = Annotated[
    Path,
    typer.Argument(help="A run.", show_default=False, parser=named_run, callback=own_run),
]


OwnRuns = Annotated[
    list[Path],
    typer.Argument(help="Runs, or folders of runs.", show_default=False, parser=named_run, callback=own_runs),
]
