"""Text files with one sentence a line."""

import sys
from pathlib import Path

from structviews.errors import InputError


def text_lines(source: Path | None) -> list[str]:
    """The lines of a text file, or of standard input.

    Raises:
        InputError: if it cannot be read, is not UTF-8 or is empty.
    """
    name = str(source) if source else "standard input"
    try:
        content = source.read_bytes() if source else sys.stdin.buffer.read()
        lines = content.decode("utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start}: convert it to UTF-8") from None
    if not lines:
        raise InputError(f"{name}: empty: give one sentence a line")
    return lines


def read_lines(source: Path | None) -> list[str]:
    """The lines of a text file, or of standard input; none may be blank.

    Raises:
        InputError: if it cannot be read, is not UTF-8, is empty or has a blank line.
    """
    lines = text_lines(source)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            name = source or "standard input"
            raise InputError(f"{name}:{number}: a blank line: each line is a sentence and becomes a row")
    return lines
