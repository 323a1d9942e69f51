"""Text for people: numbers as they say them, reasons of failed requests, and Markdown that is shown as it is."""

import re
import socket
from typing import Any


def counted(n: int, one: str) -> str:
    """How many there are of something: ``1 sentence``, ``3,156 sentences``."""
    return f"{n:,} {one}{'s' * (n != 1)}"


def duration(seconds: float) -> str:
    """A time in its two largest units: ``8 s``, ``3 min 05 s``, ``2 h 05 min``, ``3 d 04 h``."""
    whole, minutes, hours = round(seconds), round(seconds / 60), round(seconds / 3600)
    if whole < 60:
        return f"{whole} s" if whole else "less than 1 s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{hours // 24} d {hours % 24:02} h"


def reason(error: BaseException) -> str:
    """The beginning of an error's message, on one line; its type if it has none."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return " ".join(str(error).split())[:200] or type(error).__name__


# What went wrong, by the innermost error; most exact first.
REASONS: tuple[tuple[type[OSError], str], ...] = (
    (socket.gaierror, "no network connection"),
    (ConnectionRefusedError, "the connection was refused"),
    (TimeoutError, "no answer"),
)


def network_reason(error: BaseException) -> str:
    """The reason for a failed request; empty if REASONS does not have it."""
    # Libraries wrap the system's error several times.
    wrapped: list[Any] = [error]
    for each in wrapped:
        inner = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        wrapped += [e for e in inner if isinstance(e, BaseException) and not any(e is known for known in wrapped)]
    return next((said for kind, said in REASONS if any(isinstance(each, kind) for each in wrapped)), "")


# What begins emphasis, code, links, HTML, table cells, strike-through, entities or formulas.
SPECIAL = re.compile(r"[\\`*_\[\]<>|~&$]")


def visible(text: str, keep: str = "") -> str:
    """The text with line ends, control characters and the like as escapes (``\\n``), but for those in ``keep``."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def as_text(text: str) -> str:
    """Text for a paragraph, a heading or a table's cell."""
    return SPECIAL.sub(r"\\\g<0>", visible(text))


def as_code(text: str) -> str:
    """Text in a code span; not for tables."""
    text = visible(text)
    fence = _fence(text, 1)
    space = " " if text[:1] in "` " or text[-1:] in "` " else ""  # Markdown takes one off again
    return f"{fence}{space}{text}{space}{fence}"


def as_block(text: str, language: str) -> str:
    """Lines in a code block, without the last line's end."""
    fence = _fence(text, 3)
    return f"{fence}{language}\n{visible(text, keep=chr(10)).rstrip(chr(10))}\n{fence}"


def _fence(text: str, least: int) -> str:
    """More backticks than the text has in a row."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))
