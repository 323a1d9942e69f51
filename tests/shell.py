"""``structviews`` as the shell would run it, with what it says on each stream."""

import io
import sys

import pytest

from structviews.cli import app as cli


class Ended:
    """How a command ended, with what it said on each stream."""

    def __init__(self, code, output, errors):
        self.code = code
        self.output = output
        self.errors = errors.decode().splitlines()


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
        return Ended(*run(*arguments, stdin=stdin))

    return ended


def fails(command, folder, *arguments, stdin=b""):
    """The one line of a command that must fail and leave nothing behind."""
    before = contents(folder)
    ended = command(*arguments, stdin=stdin)
    assert ended.code == 2
    assert ended.output == b""
    assert len(ended.errors) == 1, ended.errors
    assert ended.errors[0].startswith("error: ")
    assert contents(folder) == before
    return ended.errors[0]


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
