from typing import NamedTuple

import pytest
from shell import shell

from structviews.cli import app as cli


class Ended(NamedTuple):
    """How a command ended, with what it said on each stream."""

    code: int
    output: bytes
    errors: list[str]


@pytest.fixture
def command(monkeypatch, capsysbinary, tmp_path):
    monkeypatch.setenv(cli.TRACEBACK, "")
    run = shell(monkeypatch, capsysbinary, tmp_path)

    def ended(*arguments, stdin=b""):
        code, output, errors = run(*arguments, stdin=stdin)
        return Ended(code, output, errors.decode().splitlines())

    return ended
