"""Output of the command line: results go to stdout, everything else to stderr; and its help screens."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from inspect import cleandoc
from shlex import quote
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from structviews.runtime import terminal
from structviews.runtime.terminal import Terminal, visible

console = Terminal()
errors = Terminal(stderr=True, highlight=False)


def say(*results: object) -> None:
    """Print results on stdout, a line each."""
    for each in results:
        console.print(str(each), highlight=False, soft_wrap=True)


def explain(*texts: str) -> None:
    """Print explanations on stdout; a terminal's lines are broken between words."""
    for each in texts:
        terminal.say(console, each)


def write(content: str) -> None:
    """Write JSON, CSV or a page to stdout: to a file or a pipe as it is, to a terminal with its controls shown."""
    sys.stdout.write(visible(content) if sys.stdout.isatty() else content)


def typeable(path: object) -> str:
    """A path as it is typed in a shell."""
    return quote(str(path))


def suggest(what: str, *commands: object) -> None:
    """Say on stderr what to type next, if a person reads both stdout and stderr."""
    if console.is_terminal and errors.is_terminal:
        inform(what, *(f"  {command}" for command in commands))


def inform(*lines: str) -> None:
    """Print lines on stderr."""
    for each in lines:
        errors.print(each, soft_wrap=True)


def complain(colour: str, kind: str, what: str) -> None:
    """Print an error or a warning, one line on stderr."""
    errors.print(f"{kind}:", style=colour, end=" ")
    inform(what)


@cache
def warn_once(what: str) -> None:
    """Print a warning once. Python itself forgets which warnings it has shown when a filter changes."""
    complain("yellow", "warning", what)


@contextmanager
def stages(job: str = "") -> Iterator[Callable[[str], None]]:
    """Show the current stage of a job on stderr: as a status line on a terminal, else as one line per stage."""
    if errors.is_terminal:
        with errors.status("") as status:
            yield lambda stage: status.update(escape(job + stage))
    else:
        yield lambda stage: inform(job + stage)


@contextmanager
def resuming(again: bool = True) -> Iterator[None]:
    """If a signal ends the block, say so, and whether the same command goes on there."""
    from structviews.runtime.processes import Interrupted

    try:
        yield
    except (KeyboardInterrupt, Interrupted) as stop:
        at = f" at step {stop.step}, saved" if isinstance(stop, Interrupted) else ""
        inform(f"stopped{at}" + "; run the same command again to resume" * again)
        raise typer.Exit(128 + stop.signal if isinstance(stop, Interrupted) else 130) from None


class Helpful:
    """A command whose help fits 80 columns: flags have no type, and their negations no column of their own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        screen: Any = copy(self)  # for parsing, the parameters stay what they are
        screen.params = [as_shown(each) for each in screen.get_params(ctx)]
        screen.add_help_option = False  # it is among them
        paragraphs = cleandoc(screen.help or "").split("\n\n")
        screen.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)  # which the terminal breaks
        super(Helpful, screen).format_help(ctx, formatter)  # type: ignore[misc]  # of what this is mixed into


class HelpfulCommand(Helpful, TyperCommand):
    """A command."""


class HelpfulGroup(Helpful, TyperGroup):
    """Commands below a name."""


def as_shown(parameter: Any) -> Any:
    """A copy of a parameter as its help shows it."""
    shown = copy(parameter)
    if getattr(shown, "is_flag", False):
        shown.metavar = ""
    for negation in shown.secondary_opts:
        shown.help = f"{shown.help} [dim]\\[not: {negation}][/dim]"
    shown.secondary_opts = []
    if isinstance(getattr(shown, "show_default", None), str):  # which Typer shows in brackets of its own
        shown.help = f"{shown.help} [dim]\\[default: {escape(shown.show_default)}][/dim]"
        shown.show_default = False
    return shown
