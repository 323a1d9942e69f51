"""How commands end: what cannot be foreseen is one line, too, and nothing in a name or an error is obeyed."""

import os
import signal
import subprocess
import sys
import warnings
from unittest.mock import Mock

import pytest
from typer.core import TyperGroup

from structviews.cli import app as cli
from structviews.cli import console as printing
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.runtime.terminal import Terminal

TRACEBACK = "for the traceback, run structviews --traceback inspect"


class Panic(BaseException):
    """As pyo3 raises where Rust panics."""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("a\n  b\x1b[2J"), rf"RuntimeError: a b\x1b[2J: {TRACEBACK}"),
        (MemoryError(), "MemoryError: process less at once, or use a machine with more memory"),
        (Panic("null"), f"Panic: null: {TRACEBACK}"),
        (KeyError("x" * 1000), f"KeyError: '{'x' * 299}: {TRACEBACK}"),
    ],
)
def test_an_unforeseen_error_is_one_line(command, monkeypatch, error, line):
    monkeypatch.setattr(ParsedCorpus, "open", Mock(side_effect=error))
    ended = command("inspect", "x.parsed")
    assert (ended.code, ended.output, ended.errors) == (2, b"", [f"error: structviews inspect: {line}"])


def test_the_traceback_comes_where_it_is_asked_for(command, monkeypatch):
    monkeypatch.setattr(ParsedCorpus, "open", Mock(side_effect=RuntimeError("a\x1b[2J")))
    for flag in (["--traceback"], []):  # which the environment remembers
        ended = command(*flag, "inspect", "x.parsed")
        assert ended.code == 2
        assert ended.errors[0] == "Traceback (most recent call last):"
        assert ended.errors[-2] == r"RuntimeError: a\x1b[2J"
        assert ended.errors[-1].startswith("error: structviews inspect: RuntimeError")


@pytest.mark.parametrize("place", [(TyperGroup, "parse_args"), (ParsedCorpus, "open")])
def test_an_interrupt_is_one_line(command, monkeypatch, place):
    monkeypatch.setattr(*place, Mock(side_effect=KeyboardInterrupt))
    ended = command("inspect", "x.parsed")
    assert (ended.code, ended.errors) == (130, ["stopped"])


def in_a_process(folder, *arguments):
    """A command that finds the modules of a folder first."""
    command = [sys.executable, "-m", "structviews", *arguments]
    how = {"env": os.environ | {"PYTHONPATH": str(folder)}, "stdin": subprocess.DEVNULL, "cwd": folder}
    return subprocess.run(command, **how, capture_output=True, text=True, check=False)


INTERRUPTED = f"import os; os.kill(os.getpid(), {signal.SIGINT:d})"
# As where the interrupt meets the initialisation of a module in C.
HIDDEN = "try: raise KeyboardInterrupt\nexcept KeyboardInterrupt as stop: raise ImportError('failed') from stop"

# As where the interrupt meets a finaliser, where nothing can be raised.
FINALISED = f"""
import os, time
class Last:
    def __del__(self):
        os.kill(os.getpid(), {signal.SIGINT:d})
        time.sleep(0.2)
Last()
for _ in range(200):
    time.sleep(0.1)
raise ImportError("the interrupt was lost")
"""


@pytest.mark.parametrize("content", [INTERRUPTED, HIDDEN, FINALISED])
def test_an_interrupt_while_the_command_line_is_imported_is_one_line(tmp_path, content):
    (tmp_path / "typer.py").write_text(content)
    ended = in_a_process(tmp_path, "--help")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


def test_a_missing_package_is_one_line_with_the_command_that_installs_it(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    ended = in_a_process(tmp_path, "encode", "default", "-o", "x.npy")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: torch is not installed: pip install torch")
    assert line.endswith("https://download.pytorch.org/whl/cpu")


def test_a_warning_is_given_once(monkeypatch, capsys):
    def command(**_):
        for what in ("another parser", "another parser", "something else"):
            with warnings.catch_warnings():  # after which Python forgets what it has shown
                warnings.simplefilter("ignore")
            warnings.warn(what, stacklevel=1)

    monkeypatch.setattr(cli, "app", command)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit):
            cli.main()
    assert capsys.readouterr().err.splitlines() == ["warning: another parser", "warning: something else"]


@pytest.mark.parametrize(("reads", "writes"), [(True, True), (True, False), (False, True)])
def test_what_to_type_next_is_said_to_people_only(reads, writes, monkeypatch, capsys):
    """Not where either output goes to a file or a program."""
    monkeypatch.setattr(printing, "console", Terminal(force_terminal=reads))
    monkeypatch.setattr(printing, "errors", Terminal(stderr=True, force_terminal=writes, color_system=None))
    printing.suggest("Next, train:", f"structviews train --corpus {printing.typeable('my corpus.parsed')}")
    output, errors = capsys.readouterr()
    assert output == ""
    said = ["Next, train:", "  structviews train --corpus 'my corpus.parsed'"]
    assert errors.splitlines() == (said if reads and writes else [])
