"""Output of the command line: results go to stdout, everything else to stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from shlex import quote

from rich.markup import escape

from structviews.runtime.terminal import Terminal, visible

console = Terminal()
errors = Terminal(stderr=True, highlight=False)
GO_ON = "run the same command again to resume"


def say(line: str) -> None:
    """Print a result on stdout."""
    console.print(line, highlight=False, soft_wrap=True)


def explain(text: str) -> None:
    """Print an explanation on stdout; a terminal's lines are broken between words."""
    console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def write(content: str) -> None:
    """Write JSON, CSV or a page to stdout: to a file or a pipe as it is, to a terminal with its controls shown."""
    sys.stdout.write(visible(content) if sys.stdout.isatty() else content)


def typeable(path: object) -> str:
    """A path as it is typed in a shell."""
    return quote(str(path))


def suggest(what: str, *commands: object) -> None:
    """Say on stderr what to type next, if a person reads both stdout and stderr."""
    if console.is_terminal and errors.is_terminal:
        inform("\n".join([what, *(f"  {command}" for command in commands)]))


def inform(line: str) -> None:
    """Print a line on stderr."""
    errors.print(line, soft_wrap=True)


def complain(colour: str, kind: str, what: str) -> None:
    """Print an error or a warning, one line on stderr."""
    errors.print(f"{kind}:", style=colour, end=" ")
    inform(what)


@cache
def warn_once(what: str) -> None:
    """Print a warning once. Python itself forgets which warnings it has shown when a filter changes."""
    complain("yellow", "warning", what)


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Show the current stage on stderr: as a status line on a terminal, else as one line per stage."""
    if errors.is_terminal:
        with errors.status("") as status:
            yield lambda stage: status.update(escape(stage))
    else:
        yield inform
