"""Output of the command line: results go to stdout, everything else to stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from rich.console import Console

console = Console()
errors = Console(stderr=True, highlight=False)
GO_ON = "run the same command again to resume"


def say(line: str) -> None:
    """Print a result on stdout, without markup."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def inform(line: str) -> None:
    """Print a line on stderr, without markup."""
    errors.print(line, markup=False, soft_wrap=True)


def complain(colour: str, kind: str, what: str) -> None:
    """Print an error or a warning, one line on stderr."""
    errors.print(f"[{colour}]{kind}:[/{colour}]", end=" ")
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
            yield status.update
    else:
        yield inform
