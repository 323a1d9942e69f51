"""``structviews`` as the shell would run it, with what it says on each stream."""

import io
import sys
from typing import NamedTuple

import pytest

from structviews.cli import app as cli
from structviews.errors import InputError


class Ended(NamedTuple):
    """How a command ended, with what it said on each stream."""

    code: int
    output: bytes
    errors: list[str]


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


def shell_command(monkeypatch, capsysbinary, tmp_path):
    """As ``shell``, with what a command says as an ``Ended``."""
    run = shell(monkeypatch, capsysbinary, tmp_path)

    def ended(*arguments, stdin=b""):
        code, output, errors = run(*arguments, stdin=stdin)
        return Ended(code, output, errors.decode().splitlines())

    return ended


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
