"""The command line: collects the commands, runs one, and reports a user's mistake on one line."""

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import structviews.cli
from structviews import __version__
from structviews.cli.console import complain, inform, warn_once
from structviews.cli.help_screens import HelpfulCommand, HelpfulGroup
from structviews.errors import InputError, interrupted
from structviews.runtime.terminal import visible

# What Typer raises for a wrong argument; its module differs between versions.
UsageError: Any = typer.BadParameter.__base__
PANELS = ("Corpora", "Training", "Vectors", "Evaluation", "Pages", "Sharing")
# The environment variable that asks for tracebacks; worker processes inherit it.
TRACEBACK = "STRUCTVIEWS_TRACEBACK"
# How a missing package is installed, where its name does not say so.
EVAL = "pip install 'structviews[eval]'"
REMEDIES = {
    "torch": "pip install torch, without a GPU with --index-url https://download.pytorch.org/whl/cpu",
    "sklearn": EVAL,
    "scipy": EVAL,
}
# Characters of an unforeseen error's message.
LONGEST = 300


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        typer.echo(f"structviews {__version__}")
        raise typer.Exit


def show_traceback(wanted: bool) -> None:
    """Ask for the traceback of an error."""
    if wanted:
        os.environ[TRACEBACK] = "1"


class Commands(HelpfulGroup):
    """The commands; one that is interrupted and does not say so itself ends with a line, too."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the command line."""
        with stopping():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        with stopping():
            return super().invoke(ctx)


@contextmanager
def stopping() -> Iterator[None]:
    """Say so if an interrupt ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        inform("stopped")
        raise typer.Exit(130) from None


def build() -> typer.Typer:
    """The application: the commands of every module of this package that has a ``PANEL``.

    Each module keeps its commands in ``app``; with a ``GROUP`` they become subcommands of that name.
    """
    app = typer.Typer(
        name="structviews",
        cls=Commands,
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
        tracebacks: Annotated[
            bool,
            typer.Option(
                "--traceback",
                help=f"Show the traceback of an error; so does {TRACEBACK}=1.",
                callback=show_traceback,
                is_eager=True,
            ),
        ] = False,
    ) -> None: ...

    for module in command_modules():
        group = getattr(module, "GROUP", None)
        for command in module.app.registered_commands:
            command.rich_help_panel = None if group else module.PANEL
            if command.cls is TyperCommand:
                command.cls = HelpfulCommand
        if group:
            app.add_typer(module.app, name=group, cls=HelpfulGroup, rich_help_panel=module.PANEL)
            continue
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
    """Run the command line; whatever goes wrong gives one line on stderr and exit code 2."""
    warnings.showwarning = lambda message, *_: warn_once(str(message))
    if logging.lastResort:  # prints what libraries report
        logging.lastResort.setFormatter(Visible())
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UsageError as error:
        if what := " ".join(error.format_message().split()):  # otherwise the help was printed
            place = error.ctx.command_path if error.ctx else "structviews"
            complain("red", "error", f"{what} (see {place} --help)")
    except BrokenPipeError:
        # The reader of our output has gone (``| head``), which is no error. Redirect stdout so that
        # Python's flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SystemExit:
        raise
    except BaseException as error:  # the panics of safetensors are no Exception
        if interrupted(error):
            raise
        if os.environ.get(TRACEBACK):
            inform(traceback.format_exc().rstrip("\n"))
        complain("red", "error", what_failed(error))
    sys.exit(2)


class Visible(logging.Formatter):
    """Formats a line of a library's log, with its controls shown."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback if the record has one."""
        return visible(super().format(record))


def what_failed(error: BaseException) -> str:
    """An error as one line; one that we did not foresee says how its traceback is seen."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        # A full disk or a read-only folder. No partial file has its final name.
        return f"{error.filename or 'disk'}: {error.strerror}: fix this and run the command again"
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"{package} is not installed: {REMEDIES.get(package, f'pip install {package}')}"
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    what = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        advice = "give it less at once, or more memory"
    else:
        advice = f"for the traceback, run structviews --traceback {command}"
    said = f"{type(error).__name__}: {what[:LONGEST]}" if what else type(error).__name__
    return f"structviews {command}: {said}: {advice}"


if __name__ == "__main__":
    main()
