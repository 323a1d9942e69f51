"""The command ``verify``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import errors, say
from structviews.cli.which_runs import named_run

PANEL = "Corpora"
app = typer.Typer()


@app.command("verify")
def verify_files(
    path: Annotated[
        Path,
        typer.Argument(
            help="A corpus, a run, CORPUS.vectors, CORPUS.states, or a vector file that was read before.",
            show_default=False,
            parser=named_run,
        ),
    ],
) -> None:
    """Check the files of a corpus, a run or a cache against their digests, and all trees of a corpus.

    Prints one line per fault; exits with 1 if there are any.

    Example: structviews verify corpus.parsed

    Example: structviews verify runs/dep-const
    """
    from structviews.runs.file_checks import verify
    from structviews.runtime.terminal import rate_bar

    with rate_bar(errors, "verifying", "files") as progress:
        faults = list(verify(path, progress))
    for fault in faults:
        say(fault)
    if faults:
        raise typer.Exit(1)
    say(f"{path}: no faults")
