"""``structviews`` as the shell would run it, with what it says on each stream."""

import io
import sys

import pytest

from structviews.cli import app as cli
from structviews.errors import InputError


def shell(monkeypatch, capture, folder):
    """``structviews`` as the shell would run it, in this process and in a folder: code, output, errors."""
    monkeypatch.chdir(folder)

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["structviews", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return (stop.value.code, *capture.readouterr())

    return run


def fails(command, folder, *arguments, stdin=b""):
    """The one line of a command that must fail and leave nothing behind."""
    before = contents(folder)
    code, output, errors = command(*arguments, stdin=stdin)
    assert code == 2
    assert not output
    (line,) = errors.splitlines() if isinstance(errors, str) else errors
    assert line.startswith("error: ")
    assert contents(folder) == before
    return line


def refused(action, *arguments):
    """The one line with which a call is refused."""
    with pytest.raises(InputError) as error:
        action(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
