"""``structviews parser``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import say

PANEL = "Corpora"
GROUP = "parser"
app = typer.Typer(help="Download models for other libraries' parsers.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Download models for other libraries' parsers."""


@app.command("download")
def download_models(
    library: Annotated[str, typer.Argument(help="stanza, benepar or spacy.", show_default=False)],
    model: Annotated[
        str,
        typer.Argument(
            help="A stanza package, a benepar model or a spaCy pipeline.",
            show_default="the language's; none for spaCy",
        ),
    ] = "",
    lang: Annotated[str, typer.Option(help="Language of the models.")] = "en",
    models: Annotated[
        Path | None,
        typer.Option(help="Folder for the models, for parse --models.", show_default="the library's"),
    ] = None,
) -> None:
    """Download the models of a library's parsers, with the library's own downloader.

    Example: structviews parser download stanza --lang en
    """
    from structviews.parsing.download import download
    from structviews.parsing.parser import Options

    download(library, model, Options(language=lang, models=models))
    say("downloaded")
