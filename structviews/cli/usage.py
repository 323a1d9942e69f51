"""Mistakes in what was typed, as one line like all others: the place, what is wrong, the remedy."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from structviews.errors import nearest

# What the library that checks values says, and what we say.
QUOTE = "'"
REASONS = (
    (r"Input should be a valid integer.*", "not a whole number: give one"),
    (r"Input should be a valid number.*", "not a number: give one"),
    (r"Input should be less than or equal to (\S+)", r"give at most \1"),
    (r"Input should be greater than or equal to (\S+)", r"give at least \1"),
    (r"Value error, .* is not one of (.*)\.", r"choose one of \1"),
)
# The same of a command line as a whole.
OTHERS = (
    (r"Option '(.*)' requires an argument.*", r"\1: no value after it: give one"),
    (r"Got unexpected extra argument.*? \((.*?)\).*", r"\1: no argument of this command: leave it out"),
)


def mistake(error: Any) -> str:
    """What Typer says of a command line, in our words."""
    where = " ".join(_names(error.ctx))
    what, see = " ".join(error.format_message().split()), f"see {where} --help"
    parameter, cause = getattr(error, "param", None), error.__cause__ or error.__context__
    if command := re.match(r"No such command '(.*?)'", what):
        return f"unknown command {command[1]!r}{_asked(command[1], error.ctx.command.commands)}: {see}"
    if hasattr(error, "possibilities"):
        flags = [flag for each in error.ctx.command.params for flag in each.opts]
        return f"{where}: no option {error.option_name}{_asked(error.option_name, flags)}: {see}"
    if what.startswith("Missing") and parameter:
        example = next(_examples(error.ctx.command), "")
        return f"{where}: {max(parameter.opts, key=len)} is missing: {f'give it, as in {example}' if example else see}"
    if parameter and hasattr(cause, "errors"):
        fault = cause.errors()[0]
        return f"{max(parameter.opts, key=len)} {fault['input']}: {_reworded(fault['msg'].replace(QUOTE, ''), REASONS)}"
    return _reworded(f"{what} ({see})", ((pattern, f"{ours}, or {see}") for pattern, ours in OTHERS))


def _reworded(what: str, ours: Iterable[tuple[str, str]]) -> str:
    """A message in our words, if we have any for it."""
    return next((re.sub(pattern, new, what) for pattern, new in ours if re.fullmatch(pattern, what)), what)


def _names(context: Any) -> list[str]:
    """The names that lead to a command, however the first was typed."""
    return [*_names(context.parent), context.info_name] if context and context.parent else ["structviews"]


def _asked(name: str, known: Any) -> str:
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""


def _examples(command: Any) -> Iterator[str]:
    """The example command lines in a command's help."""
    return (found[1] for found in re.finditer(r"Example: (.*)", command.help or ""))
