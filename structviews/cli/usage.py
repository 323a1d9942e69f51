"""Mistakes in what was typed, as one line like all others: the place, what is wrong, the remedy."""

import re
from collections.abc import Iterator
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
    if extra := re.match(r"Got unexpected extra argument\(?s?\)? \((.*)\)", what):
        return f"{where}: takes no argument {extra[1]}: leave it out, or {see}"
    if what.startswith("Missing") and parameter:
        example = next(_examples(error.ctx.command), "")
        return f"{where}: {max(parameter.opts, key=len)} is missing: {f'give it, as in {example}' if example else see}"
    if parameter and hasattr(cause, "errors"):
        flag, (fault, *_) = max(parameter.opts, key=len), cause.errors()
        for pattern, ours in REASONS:
            if re.fullmatch(pattern, fault["msg"]):
                return f"{flag} {fault['input']}: {re.sub(pattern, ours, fault['msg'].replace(QUOTE, ''))}"
    return f"{what} ({see})"


def _names(context: Any) -> list[str]:
    """The names that lead to a command, however the first was typed."""
    return [*_names(context.parent), context.info_name] if context and context.parent else ["structviews"]


def _asked(name: str, known: Any) -> str:
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""


def _examples(command: Any) -> Iterator[str]:
    """The example command lines in a command's help."""
    return (found[1] for found in re.finditer(r"Example: (.*)", command.help or ""))
