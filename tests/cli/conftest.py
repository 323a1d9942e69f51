from collections import namedtuple

import pytest
from shell import shell

from structviews.cli import app as cli

# How a command ended, with the bytes on stdout and the lines on stderr.
Ended = namedtuple("Ended", ["code", "output", "errors"])


@pytest.fixture
def command(monkeypatch, capsysbinary, tmp_path):
    monkeypatch.setenv(cli.TRACEBACK, "")
    run = shell(monkeypatch, capsysbinary, tmp_path)

    def ended(*arguments, stdin=b""):
        code, output, errors = run(*arguments, stdin=stdin)
        return Ended(code, output, errors.decode().splitlines())

    return ended
