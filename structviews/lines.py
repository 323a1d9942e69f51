"""Text files read as a whole."""

from pathlib import Path

from structviews.errors import InputError


def text_lines(path: Path) -> list[str]:
    """The lines of a text file, numbered as ``parse`` and ``encode`` number them: only a line's end ends one.

    Raises:
        InputError: if it cannot be read, is not UTF-8 or is empty.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: give the path of a text") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}: convert it to UTF-8") from None
    # Unlike these, str.splitlines also ends lines at form feeds and at Unicode's separators, within sentences.
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split("\n")
    if lines == [""]:
        raise InputError(f"{path}: empty: give one sentence a line")
    return lines
