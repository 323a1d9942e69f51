"""``structviews demo``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import GO_ON, console, inform

PANEL = "Corpora"
app = typer.Typer()


@app.command("demo")
def demonstrate(
    folder: Annotated[Path, typer.Option("-o", "--out", help="Working folder; created if missing.")] = Path(
        "structviews-demo"
    ),
) -> None:
    """Compare four pairs of views on Python's own documentation; needs no data and no network.

    Takes a few minutes on two cores. If it is stopped, run the same command again to resume.

    Example: structviews demo
    """
    from structviews.demo.job import run_demo
    from structviews.runtime.processes import Interrupted

    try:
        run_demo(folder, console)
    except (KeyboardInterrupt, Interrupted) as stop:
        inform(f"stopped; {GO_ON}")
        raise typer.Exit(128 + stop.signal if isinstance(stop, Interrupted) else 130) from None
