"""Help is whole at 80 columns, one command a line, each with an example; and reading it changes nothing."""

import typer
from typer.testing import CliRunner

from structviews.cli.app import PANELS, app


def commands(command, words=()):
    """Every command and group, as the words that name it, and whether it is a group."""
    inner = getattr(command, "commands", {})
    yield list(words), bool(inner)
    for name, each in inner.items():
        yield from commands(each, (*words, name))


COMMANDS = list(commands(typer.main.get_command(app)))


def helped(words, *flags):
    result = CliRunner().invoke(app, [*words, *(flags or ("--help",))])
    assert result.exit_code == 0
    return result.output


def test_the_first_screen_has_a_line_for_each_command(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = " ".join(PANELS.values()).split()
    assert sorted(names) == sorted(words[0] for words, _ in COMMANDS if len(words) == 1)
    lines = helped([]).splitlines()
    shown = lines[next(i for i, line in enumerate(lines) if next(iter(PANELS)) in line) :]
    assert [line.split()[1] for line in shown if line.startswith("│")] == names
    assert len([line for line in shown if line]) <= 30


def test_nothing_is_cut_at_80_columns_and_commands_have_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for words, is_group in COMMANDS:
        text = helped(words)
        assert max(map(len, text.splitlines())) <= 80, words
        assert not any(cut in text for cut in ("…", "<bool>", "[default: (")), words
        assert is_group or f"Example: structviews {' '.join(words)}" in " ".join(text.split()), words
    assert "…" not in helped(["train"], "--help-all")


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
