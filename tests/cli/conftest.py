import pytest
from shell import shell_command

from structviews.cli import app as cli


@pytest.fixture
def command(monkeypatch, capsysbinary, tmp_path):
    monkeypatch.setenv(cli.TRACEBACK, "")
    return shell_command(monkeypatch, capsysbinary, tmp_path)
