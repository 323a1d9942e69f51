"""``structviews eval``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import errors, suggest, typeable
from structviews.cli.options import (
    Precision,
    Probing,
    Senteval,
    Tasks,
    Transductive,
    own_runs,
    readable_tasks,
    runs_argument,
    word_limit,
)
from structviews.cli.score_tables import print_scores
from structviews.cli.setting_flags import NO_FLAGS, chosen_flags, with_flags
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError
from structviews.runs import RUNS
from structviews.runs.which_vectors import Representation
from structviews.runs.which_vectors import listed as weights_as_typed

app = typer.Typer()

RecipeName = Annotated[
    str | None,
    typer.Option(
        help="Protocol, representation, tasks and ensemble of a paper's row (see structviews recipes); flags "
        "override them."
    ),
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        help="Folds, grids and classifiers: senteval, senteval-torch (SentEval's own default), kiros (skip-thoughts).",
        show_default="senteval",
    ),
]
Ensemble = Annotated[
    bool | None, typer.Option("--ensemble/--no-ensemble", help="Average the predictions of a joined run's members.")
]
External = Annotated[
    Path | None, typer.Option(help="X.npy: score these external vectors, one row per line of X.txt next to it.")
]


@app.command("eval")
@with_flags([*chosen_flags(Representation, default="the run's"), *chosen_flags(WordLimit)])
def evaluate_runs(
    runs: Annotated[list[Path] | None, runs_argument("Runs, or folders of runs.", own_runs)] = None,
    senteval: Senteval = None,
    probing: Probing = None,
    tasks: Tasks = "",
    recipe: RecipeName = None,
    protocol: ProtocolName = None,
    ensemble: Ensemble = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Also score incomplete task files, marked with *.")
    ] = False,
    parsed: Annotated[
        Path | None,
        typer.Option(help="The tasks' trees, from parse --senteval.", show_default="parse with the run's parser"),
    ] = None,
    vectors: External = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Run folder for the scores of --vectors.", show_default="runs/X")
    ] = None,
    save_vectors: Annotated[
        Path | None, typer.Option(help="Folder to save the vectors and their sentences in.")
    ] = None,
    view: Annotated[str, typer.Option(help="Score only this view.", show_default="all views")] = "",
    transductive: Transductive = None,
    precision: Precision = "auto",
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Score runs on evaluation tasks.

    Saves the scores in RUN/results.json and prints a table. Scores with another protocol, with --ensemble, or with
    vectors changed by --view and the flags below it go to a separate results file in the same folder.

    Example: structviews eval runs/dep-const --senteval senteval --tasks MR,SUBJ,TREC,SICK-R
    """
    from structviews.encoding.kinds.external import given_run
    from structviews.evaluation.senteval.protocols import PROTOCOLS
    from structviews.evaluation.senteval.scoring import Scored, score_with_bar
    from structviews.evaluation.senteval.suite import covered_tasks
    from structviews.evaluation.senteval.task_trees import TaskTrees
    from structviews.recipes.recipe import Recipe, SecondHalf
    from structviews.runs.settings_file import run_views

    runs = list(runs or [])
    row = Recipe.load(recipe) if recipe else None
    second = row.evaluation if row else SecondHalf()
    followed = PROTOCOLS[second.protocol if protocol is None else protocol]
    for run in runs:
        run_views(run)
    if out and not vectors:
        raise InputError("--out: only goes with --vectors, as a run's scores go to its own folder: leave it out")
    if not (runs or vectors):
        raise InputError("nothing to score: name runs, or give --vectors")
    trees = TaskTrees(parsed) if parsed else None
    found, unavailable = readable_tasks(tasks or ",".join(second.tasks), senteval, probing, partial)
    found, unavailable = covered_tasks(found, unavailable, followed)
    if vectors:
        runs.append(given_run(vectors, out or RUNS / vectors.stem))
    limit, changes = word_limit(flags)
    changes |= {} if transductive is None else {"transductive": transductive}
    chosen = {"recipe": recipe} if recipe else {}
    chosen |= ({"view": view} if view else {}) | ({"precision": precision} if precision != "auto" else {})
    typed_flags = written(chosen | dict(flags) | changes)
    scored = Scored(view, (row.representation if row else {}) | changes, typed_flags, limit, precision)
    average = second.ensemble if ensemble is None else ensemble
    how = {"scored": scored, "protocol": followed, "ensemble": average, "trees": trees, "save_vectors": save_vectors}
    n_scored = sum(score_with_bar(run, found, unavailable, errors, **how) for run in runs)
    print_scores(runs, "rich")
    typed = " ".join(map(typeable, runs))
    if len(runs) == 2:
        suggest("Next, test whether they differ:", f"structviews compare {typed}")
    else:
        suggest("Next, see them on a page:", f"structviews report {typed}")
    if not n_scored:
        raise typer.Exit(2)


def written(flags: dict[str, Any]) -> str:
    """Flags as typed on the command line, each after a space."""
    words = []
    for name, value in flags.items():
        flag = name.replace("_", "-")
        shown = weights_as_typed(value) if isinstance(value, tuple) else value
        words.append(f" --{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f" --{flag} {shown}")
    return "".join(words)
