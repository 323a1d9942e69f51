"""``structviews export-sentence-transformer``."""

from typing import Annotated

import typer

from structviews.cli.console import say
from structviews.cli.options import NewFolder
from structviews.cli.which_runs import Run

PANEL = "Sharing"
app = typer.Typer()


@app.command("export-sentence-transformer")
def export_sentence_transformer(
    run: Run,
    out: NewFolder,
    view: Annotated[
        str,
        typer.Option(
            help="View to export if several are transformers, such as transformer.2.", show_default="the only one"
        ),
    ] = "",
) -> None:
    """Save a run's trained transformer by itself, as a model that sentence-transformers loads like any other.

    Example: structviews export-sentence-transformer runs/transformer-dep -o exported
    """
    from structviews.adapters.transformer_export import export_transformer

    say(str(export_transformer(run, out, view)))
