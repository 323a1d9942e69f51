"""Runs by name, and folders of runs, as all commands take them."""

from pathlib import Path

import pytest
from shell import fails, shell_command

from structviews.cli.which_runs import named_member
from structviews.runs.bundled import MODELS
from structviews.runs.folder import find_runs


@pytest.fixture
def command(monkeypatch, capsysbinary, tmp_path):
    return shell_command(monkeypatch, capsysbinary, tmp_path)


@pytest.fixture
def runs(tmp_path):
    """A run, a sweep of two, with a member that is no run of its own; and a note."""
    for name in ("dep-const", "sweep/bow-avg-seed1", "sweep/seq-seq-seed1", "sweep/seq-seq-seed1/members/seq"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text('[views]\nnames = ["dep", "seq"]\n')
    (tmp_path / "runs/.hidden").mkdir()
    (tmp_path / "runs/.hidden/config.toml").write_text("")
    (tmp_path / "runs/note.txt").write_text("to do\n")
    (tmp_path / "data").mkdir()
    return tmp_path / "runs"


def rows(ended):
    """The first column of a table in Markdown."""
    assert ended.code == 0, ended.errors
    table, _, _ = ended.output.decode().partition("\n\n")
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]


ALL = ["dep-const", "bow-avg-seed1", "seq-seq-seed1"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["runs"], ALL),
        (["runs/dep-const", "runs/sweep"], ALL),
        (["dep-const", "sweep"], ALL),
        (["sweep/seq-seq-seed1", "runs/dep-const/"], ["seq-seq-seed1", "dep-const"]),
        (["."], ALL),
    ],
)
def test_a_folder_of_runs_means_all_of_them(command, runs, typed, found):
    assert rows(command("table", *typed, "--format", "md")) == found


def test_names_within_runs(command, runs, monkeypatch, capsysbinary):
    inside = shell_command(monkeypatch, capsysbinary, runs)
    assert rows(inside("table", "dep-const", "sweep", "--format", "md")) == ALL


def test_files_among_runs_are_skipped(command, runs):
    ended = command("table", "runs/dep-const", "runs/note.txt", "runs/sweep", "--format", "md")
    assert rows(ended) == ALL
    assert ended.errors[0] == "skipping runs/note.txt: not a run"


def test_what_is_here_comes_before_what_is_in_runs(command, runs, tmp_path):
    (tmp_path / "sweep").mkdir()
    assert "sweep: not a run: it has no config.toml" in fails(command, tmp_path, "table", "sweep")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("table data", "data: not a run: it has no config.toml; give a folder that structviews train made"),
        ("table runs/dep-const data", "data: not a run: it has no config.toml; give"),
        ("table runs/note.txt", "runs/note.txt: not a run: it is a file; give"),
        ("table dep-cnst", "dep-cnst: not a run: no such folder (did you mean runs/dep-const?); give"),
        ("table elsewhere", "elsewhere: not a run: no such folder; give"),
        ("table runs runs/dep-const", "runs/dep-const: named twice: name each run once"),
        ("eval runs dep-const --senteval none", "runs/dep-const: named twice: name each run once"),
        (
            "encode sweep x.txt -o x.npy",
            "runs/sweep: a folder of 2 runs: name one of them, such as runs/sweep/bow-avg-seed1",
        ),
        ("expand runs --vectors x.vec", "runs: a folder of 3 runs: name one of them, such as runs/dep-const"),
        (f"table {'x' * 300}", f"{'x' * 300}: not a run: no such folder; give"),
    ],
)
def test_names_that_mean_no_run(command, runs, tmp_path, typed, said):
    assert fails(command, tmp_path, *typed.split()).startswith(f"error: {said}")


def test_runs_are_found_at_any_depth(runs, tmp_path):
    assert find_runs(tmp_path) == [runs / "dep-const", runs / "sweep/bow-avg-seed1", runs / "sweep/seq-seq-seed1"]
    assert find_runs(runs / "dep-const") == [runs / "dep-const"]
    assert find_runs(runs / "dep-const/config.toml") == []


def test_single_views_of_runs(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    (runs / "a:b").mkdir()
    assert named_member("default") == (MODELS / "default", "")
    assert named_member("default:dep") == (MODELS / "default", "dep")
    assert named_member("dep-const:seq.2") == (Path("runs/dep-const"), "seq.2")
    assert named_member("a:b") == (Path("runs/a:b"), "")
    assert named_member("runs/a:b:seq") == (Path("runs/a:b"), "seq")
    assert named_member("dep-const:") == (Path("dep-const:"), "")
    assert named_member(":seq") == (Path(":seq"), "")
    assert named_member(r"C:\none") == (Path(r"C:\none"), "")
