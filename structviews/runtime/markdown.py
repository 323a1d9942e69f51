"""Text from elsewhere in Markdown: shown as it is, whatever it contains."""

import re

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
