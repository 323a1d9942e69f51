"""Help screens that fit 80 columns: flags have no type, and their negations no column of their own."""

from copy import copy
from inspect import cleandoc
from typing import Any

from rich.markup import escape
from typer.core import TyperCommand, TyperGroup


class Helpful:
    """A command whose help shows its parameters as ``as_shown`` has them; for parsing they stay what they are."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        screen: Any = copy(self)
        screen.params = [as_shown(each) for each in screen.get_params(ctx)]
        screen.add_help_option = False  # it is among them
        screen.help = reflowed(screen.help or "")
        super(Helpful, screen).format_help(ctx, formatter)  # type: ignore[misc]  # of what this is mixed into


class HelpfulCommand(Helpful, TyperCommand):
    """A command."""


class HelpfulGroup(Helpful, TyperGroup):
    """Commands below a name."""


def reflowed(text: str) -> str:
    """A text with each paragraph in one line, which the terminal breaks where it is full."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in cleandoc(text).split("\n\n"))


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
