"""One writer at a time, and nothing left of dead ones."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from structviews.errors import InputError
from structviews.runtime.files import clear_below, new_folder, temporary_name, write_whole, writing

HOLDER = """
import sys, time
from pathlib import Path
from structviews.runtime.files import writing
with writing(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def hold():
    """Start a process that holds the lock on a path."""
    started = []

    def start(path):
        command = [sys.executable, "-c", HOLDER, path.name, "some words"]
        process = subprocess.Popen(command, cwd=path.parent, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_second_is_told_who_has_it(tmp_path, hold):
    holder = hold(tmp_path / "run")
    message = rf"run is being written by process {holder.pid} on .*some words.*: wait "
    for held in (writing, new_folder):
        with pytest.raises(InputError, match=message), held(tmp_path / "run"):
            raise AssertionError
    with writing(tmp_path / "another"):
        pass


def test_patience_outlasts_a_short_writer(tmp_path, hold):
    holder = hold(tmp_path / "x")
    with subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {holder.pid}"]):
        with writing(tmp_path / "x", patience=60):
            assert holder.wait(10) == -signal.SIGKILL
        (tmp_path / "x").write_text("written")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_place_that_cannot_be_written_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, writing(tmp_path / "none" / "x"):
        pass
    assert caught.value.filename == str(tmp_path / "none" / "x")
    assert not (tmp_path / "none").exists()


def of_process(path, number):
    """The temporary name that a process gives a path."""
    return path.with_name(re.sub(r"-\d+\.tmp$", f"-{number}.tmp", temporary_name(path).name))


def test_what_dead_writers_left_is_swept(tmp_path):
    run = tmp_path / "run"
    with subprocess.Popen(["true"]) as process:
        dead = process.pid
    (run / "state").mkdir(parents=True)
    places = (run, run / "x.json", run / "state" / "y", tmp_path / ".run.journal")
    gone = [of_process(place, dead) for place in places]
    gone[0].mkdir()
    for path in (gone[0] / "z", *gone[1:]):
        path.write_text("")
    kept = [of_process(tmp_path / "other", dead), of_process(run / "x.json", os.getppid())]
    kept += [run / f".x.json.elsewhere-{dead}.tmp", run / ".notes.tmp"]
    for path in kept:
        path.write_text("")
    with writing(run):
        assert not any(path.exists() for path in gone)
        assert all(path.exists() for path in kept)


@pytest.mark.parametrize("before", [[], ["out"]])
def test_a_new_folder_appears_whole_also_in_place_of_an_empty_one(tmp_path, before):
    for name in before:
        (tmp_path / name).mkdir()
    with pytest.raises(IsADirectoryError), new_folder(tmp_path / "out") as folder:
        write_whole(folder, b"x")
    assert [path.name for path in tmp_path.rglob("*")] == before
    with new_folder(tmp_path / "out") as folder:
        write_whole(folder / "x", b"x")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "x"]
    # A writer that died at the end leaves nothing for long.
    (tmp_path / ".out.lock").write_text("process 1")
    with pytest.raises(InputError, match="already exists"), new_folder(tmp_path / "out"):
        pass
    with pytest.raises(OSError, match="not empty"), new_folder(tmp_path / "another"):
        (tmp_path / "another" / "x").mkdir(parents=True)  # meanwhile
    shutil.rmtree(tmp_path / "another")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_all_that_dead_writers_left_in_a_folder_goes(tmp_path, hold, monkeypatch):
    run = tmp_path / "out" / "runs" / "a"
    run.mkdir(parents=True)
    hold(run / "held")
    kept = {path.name for path in run.iterdir()}
    for path in (tmp_path / ".out.lock", run.with_name(".a.lock"), run / ".results.json.lock"):
        path.write_text("process 1")
    run.joinpath(".results.json.here-1.tmp").touch()
    monkeypatch.chdir(tmp_path / "out")
    clear_below(Path())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in run.parent.iterdir()] == ["a"]
    assert {path.name for path in run.iterdir()} - {".results.json.here-1.tmp"} == kept == {".held.lock"}
    clear_below(tmp_path / "missing")
