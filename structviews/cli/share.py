"""``structviews push`` and ``pull``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import inform, say, write
from structviews.cli.which_runs import Run
from structviews.runs.bundled import or_bundled

PANEL = "Sharing"
app = typer.Typer()


@app.command("push")
def push_run(
    run: Run,
    repo: Annotated[str, typer.Argument(help="Repository on the Hugging Face Hub: OWNER/NAME.", show_default=False)],
    licence: Annotated[
        str, typer.Option(help="Licence, by its name on the Hub: apache-2.0, cc-by-4.0.", show_default="none")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
    card: Annotated[
        Path | None, typer.Option(help="Model card to upload.", show_default="generated from settings and scores")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the card and the files; upload nothing.")] = False,
) -> None:
    """Upload a run to the Hugging Face Hub: weights, vocabulary, settings, scores and a model card.

    Local paths, training states and logs are not uploaded.

    Example: structviews push runs/dep-const me/dep-const --licence cc-by-4.0 --dry-run
    """
    from structviews.hub import push

    pushed = push(run, repo, private=private, licence=licence, card=card, dry_run=dry_run)
    for note in pushed.notes:
        inform(note)
    if dry_run:
        write(pushed.card)
        for name, size in pushed.files.items():
            inform(f"{size / 1000:9,.0f} kB  {name}")
        inform("nothing was uploaded")
    else:
        say(pushed.url)


@app.command("pull")
def pull_run(
    repo: Annotated[
        str,
        typer.Argument(help=f"Repository on the Hugging Face Hub, OWNER/NAME{or_bundled()}.", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to create.", show_default="runs/NAME")] = None,
    revision: Annotated[
        str | None,
        typer.Option(help="Branch, tag or commit of the repository.", show_default="the newest commit"),
    ] = None,
) -> None:
    """Download a run from the Hugging Face Hub, or copy a bundled one. Never executes downloaded code.

    The commit that was downloaded is recorded in pulled.json in the folder.

    Example: structviews pull me/dep-const -o runs/dep-const

    Example: structviews pull default -o runs/default
    """
    from structviews.hub import pull

    say(str(pull(repo, out, revision=revision)))
