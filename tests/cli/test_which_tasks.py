"""Tasks by name, in any case, and the folders that hold none."""

import shutil
from pathlib import Path

import pytest
from shell import fails, shell_command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def command(monkeypatch, capsysbinary, tmp_path):
    shutil.copytree(ROOT / "data/senteval", tmp_path / "x/data/downstream")
    shutil.copytree(ROOT / "data/probing", tmp_path / "probing")
    return shell_command(monkeypatch, capsysbinary, tmp_path)


def sentences(command, *arguments):
    ended = command("tasks", "sentences", "-o", "x.txt", *arguments)
    assert ended.code == 0, ended.errors
    return ended.output


def test_tasks_are_named_in_any_case(command):
    folder = "x/data/downstream"
    assert sentences(command, "--senteval", folder, "--tasks", "mr,Sick-R,mr") == sentences(
        command, "--senteval", folder, "--tasks", "MR,SICK-R"
    )
    assert sentences(command, "--probing", "probing", "--tasks", "LENGTH_classes")


@pytest.mark.parametrize("verb", ["eval runs/none", "parse", "tasks sentences -o y.txt"])
@pytest.mark.parametrize("given", ["x", ".", "x/data/downstream/MR"])
def test_a_folder_without_tasks_names_the_likely_one(command, tmp_path, verb, given):
    if verb.startswith("eval"):
        (tmp_path / "runs/none").mkdir(parents=True)
        (tmp_path / "runs/none/config.toml").write_text('[views]\nnames = ["bow"]\n')
    said = fails(command, tmp_path, *verb.split(), "--senteval", given)
    assert said == f"error: {given}: none of SentEval's tasks is in this folder: give --senteval x/data/downstream"


def test_what_no_folder_near_holds(command, tmp_path):
    said = fails(command, tmp_path, "parse", "--senteval", "probing")
    assert said.endswith("give the folder with MR/, SICK/, STS/, SentEval's data/downstream")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/mine.txt").write_text("no columns\n")
    said = fails(command, tmp_path, "parse", "--probing", "bad")
    assert said.startswith("error: no task could be read: bad/mine.txt:1: 1 tab-separated columns, not 3")
    shutil.rmtree(tmp_path / "x/data/downstream/TREC")
    said = fails(command, tmp_path, "parse", "--senteval", "x/data/downstream", "--tasks", "trec")
    assert said.startswith("error: no task could be read: x/data/downstream/TREC/")


def test_an_unknown_task_names_the_nearest(command, tmp_path):
    said = fails(command, tmp_path, "parse", "--senteval", "x/data/downstream", "--tasks", "sick-s")
    assert said.startswith("error: unknown task 'sick-s' (did you mean SICK-")
