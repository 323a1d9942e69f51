"""The command line: collects the commands, runs one, and reports a user's mistake on one line."""

import os
import sys
import warnings
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

import structviews.cli
from structviews import __version__
from structviews.cli.console import complain, warn_once
from structviews.errors import InputError

# What Typer raises for a wrong argument; its module differs between versions.
UsageError: Any = typer.BadParameter.__base__
PANELS = ("Corpora", "Training", "Vectors", "Evaluation", "Pages", "Sharing")


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        typer.echo(f"structviews {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    """The application: the commands of every module of this package that has a ``PANEL``.

    Each module keeps its commands in ``app``; with a ``GROUP`` they become subcommands of that name.
    """
    app = typer.Typer(
        name="structviews",
        help="Syntax-aware, multi-view sentence embeddings. Start with parse, train and eval, or with demo.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
        ] = False,
    ) -> None: ...

    for module in command_modules():
        group = getattr(module, "GROUP", None)
        if group:
            app.add_typer(module.app, name=group, rich_help_panel=module.PANEL)
            continue
        for command in module.app.registered_commands:
            command.rich_help_panel = module.PANEL
        app.add_typer(module.app)
    return app


def command_modules() -> list[Any]:
    """The modules that have commands, panel by panel."""
    names = [each.name for each in iter_modules(structviews.cli.__path__) if f"structviews.cli.{each.name}" != __name__]
    modules = [import_module(f"structviews.cli.{name}") for name in names]
    found = [module for module in modules if hasattr(module, "PANEL")]
    return sorted(found, key=lambda module: PANELS.index(module.PANEL))


app = build()


def main() -> None:
    """Run the command line; a user's mistake gives one line on stderr and exit code 2."""
    warnings.showwarning = lambda message, *_: warn_once(str(message))
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UsageError as error:
        if what := " ".join(error.format_message().split()):  # otherwise the help was printed
            place = error.ctx.command_path if error.ctx else "structviews"
            complain("red", "error", f"{what} (see {place} --help)")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has gone (``| head``), which is no error. Redirect stdout so that
        # Python's flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except InputError as error:
        complain("red", "error", str(error))
        sys.exit(2)
    except OSError as error:
        # A full disk or a read-only folder. No partial file has its final name.
        complain("red", "error", f"{error.filename or 'disk'}: {error.strerror}: fix this and run the command again")
        sys.exit(2)


if __name__ == "__main__":
    main()
