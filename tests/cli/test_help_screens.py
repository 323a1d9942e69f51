"""Help is whole at 80 columns, and reading it changes nothing."""

import pytest
import typer
from typer.testing import CliRunner

from structviews.cli.app import app


def commands(command, words=()):
    """Every command and group, as the words that name it."""
    yield list(words)
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*words, name))


def helped(words, *flags):
    result = CliRunner().invoke(app, [*words, *(flags or ("--help",))])
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("words", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_nothing_is_cut_at_80_columns(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = helped(words).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert not any("<bool>" in line for line in lines)
    assert not any("[default: (" in line for line in lines)


def test_a_flag_names_its_negation_and_still_takes_it(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second time is after a first
        text = helped(["encode"])
        assert "[default: the run's] [not: --no-remove-component]" in text
        result = CliRunner().invoke(app, ["encode", "nowhere", "--no-remove-component", "-o", "x.npy"])
        assert "No such option" not in str(result.exception)
    assert "--skip-blank" in text
    assert "--no-skip-blank" not in text


def test_the_full_help_of_training_is_whole_too(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "…" not in helped(["train"], "--help-all")
