"""The command line: collects the commands, runs one, and reports a user's mistake on one line."""

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from typer import BadParameter, Exit, Option, Typer, echo
from typer.core import TyperCommand

from structviews import __version__
from structviews.cli import corpora, evaluate, runs, share, tasks, train
from structviews.cli.console import HelpfulCommand, HelpfulGroup, complain, inform, warn_once
from structviews.errors import InputError, interrupted
from structviews.runtime.terminal import visible

MODULES: tuple[Any, ...] = (corpora, train, runs, evaluate, tasks, share)
# The commands and groups of these modules, as the help shows them.
PANELS = {
    "From a text to a run": "parse inspect corpus parser perturb vectors train baseline join runs recipes reproduce",
    "From a run to vectors and scores": "encode nearest eval table compare tasks",
    "Pages and sharing": "report serve push pull verify demo",
}
# What Typer raises for a wrong argument; its module differs between versions.
UsageError: Any = BadParameter.__base__
# The environment variable that asks for tracebacks; worker processes inherit it.
TRACEBACK = "STRUCTVIEWS_TRACEBACK"
# How a missing package is installed, where its name does not say so.
EVAL, CPU = "pip install 'structviews[eval]'", "--index-url https://download.pytorch.org/whl/cpu"
REMEDIES = {"torch": f"pip install torch, without a GPU with {CPU}", "sklearn": EVAL, "scipy": EVAL}
LONGEST = 300  # characters of an unforeseen error's message


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        echo(f"structviews {__version__}")
        raise Exit


@contextmanager
def stopping() -> Iterator[None]:
    """Say so if an interrupt ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        inform("stopped")
        raise Exit(130) from None


class Commands(HelpfulGroup):
    """The commands; one that is interrupted and does not say so itself ends with a line, too."""

    make_context, invoke = stopping()(HelpfulGroup.make_context), stopping()(HelpfulGroup.invoke)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return " ".join(PANELS.values()).split()


def build() -> Typer:
    """The application: the commands and groups of ``MODULES``, each of which keeps its own in ``app``."""
    app = Typer(
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
            bool, Option("--version", help="Show the version.", callback=show_version, is_eager=True)
        ] = False,
        tracebacks: Annotated[
            bool, Option("--traceback", help=f"Show an error's traceback; so does {TRACEBACK}=1.")
        ] = False,
    ) -> None:
        if tracebacks:
            os.environ[TRACEBACK] = "1"

    panels: dict[Any, str] = {name: panel for panel, names in PANELS.items() for name in names.split()}
    for module in MODULES:
        for group in module.app.registered_groups:
            group.rich_help_panel, group.cls = panels[group.name], HelpfulGroup
        for command in module.app.registered_commands:
            command.rich_help_panel = panels[command.name]
        for owner in (module.app, *(group.typer_instance for group in module.app.registered_groups)):
            for command in owner.registered_commands:
                command.cls = HelpfulCommand if command.cls is TyperCommand else command.cls
        app.registered_commands += module.app.registered_commands
        app.registered_groups += module.app.registered_groups
    return app


app = build()


def main() -> None:
    """Run the command line; whatever goes wrong gives one line on stderr and exit code 2."""
    warnings.showwarning = lambda message, *_: warn_once(str(message))
    if logging.lastResort:  # prints what libraries report
        logging.lastResort.setFormatter(Visible())
    try:
        sys.exit(app(prog_name="structviews", standalone_mode=False) or 0)
    except UsageError as error:
        if error.format_message():  # otherwise the help was printed
            command = error.ctx.command_path if error.ctx else "structviews"
            complain("red", "error", f"{error.format_message().rstrip('.')}: see {command} --help")
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
    advice = f"for the traceback, run structviews --traceback {command}"
    if isinstance(error, MemoryError):
        advice = "process less at once, or use a machine with more memory"
    said = f"{type(error).__name__}: {what[:LONGEST]}" if what else type(error).__name__
    return f"structviews {command}: {said}: {advice}"
