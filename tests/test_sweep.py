"""Sets of views x seeds, trained into one folder."""

import os
import re
import signal

import pytest
from corpora import topic_corpus
from test_cli_train import command, fails  # noqa: F401 - a fixture

from structviews.checkpoint import read_progress
from structviews.config import load_run
from structviews.training import Training

FLAGS = ["--hidden", "8", "--words-dim", "6", "--batch-size", "16", "--epochs", "1", "--precision", "fp32"]
SWEEP = ["sweep", "--views", "bow,avg", "--views", "seq,seq", "--seeds", "2", "-o", "runs/s", *FLAGS]
RUNS = [f"runs/s/{views}-seed{seed}" for seed in (1, 2) for views in ("bow-avg", "seq-seq")]


@pytest.fixture
def corpus(tmp_path):
    return topic_corpus(tmp_path / "x.parsed")


def test_all_runs_are_trained_and_left_alone_the_second_time(command, corpus, tmp_path):  # noqa: F811
    ended = command(*SWEEP, "--lr", "0.01")
    assert ended.code == 0, ended.errors
    assert ended.output.decode().split() == RUNS
    for name in RUNS:
        config, _ = load_run(tmp_path / name)
        views, seed = re.fullmatch(r".*/(.*)-seed(\d)", name).groups()
        assert (config.views, config.seed) == (tuple(views.split("-")), int(seed))
        assert (config.hidden, config.lr, config.corpus) == (8, 0.01, "x.parsed")
        assert read_progress(tmp_path / name).finished
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    again = command(*SWEEP, "--lr", "0.01")
    assert (again.code, again.output) == (0, ended.output)
    assert [line for line in again.errors if "trained already" in line] == [f"{name}: trained already" for name in RUNS]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()} == before


def test_an_interrupted_sweep_goes_on(command, corpus, tmp_path, monkeypatch):  # noqa: F811
    step, taken = Training.step, []

    def interrupted(self, *batches, **words):
        taken.append(self.run.name)
        if len(taken) == 9:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *batches, **words)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "step", interrupted)
        ended = command(*SWEEP)
    assert ended.code == 128 + signal.SIGTERM
    assert re.fullmatch(r"stopped at step \d of a run, saved; give the same command again to go on", ended.errors[-1])
    assert set(taken) == {"bow-avg-seed1", "seq-seq-seed1"}
    assert read_progress(tmp_path / RUNS[0]).finished
    assert not read_progress(tmp_path / RUNS[1]).finished
    assert not (tmp_path / RUNS[2]).exists()
    stopped = read_progress(tmp_path / RUNS[1]).step
    with monkeypatch.context() as patch:
        patch.setattr(Training, "step", lambda self, *b, **w: taken.append(self.run.name) or step(self, *b, **w))
        assert command(*SWEEP).code == 0
    assert all(read_progress(tmp_path / name).finished for name in RUNS)
    assert taken.count("bow-avg-seed1") == read_progress(tmp_path / RUNS[0]).step
    assert taken.count("seq-seq-seed1") == read_progress(tmp_path / RUNS[1]).step > stopped


def test_settings_from_a_file(command, corpus, tmp_path):  # noqa: F811
    (tmp_path / "c.toml").write_text('corpus = "x.parsed"\nviews = ["seq", "seq"]\nhidden = 8\nsteps = 2\nseed = 9\n')
    ended = command("sweep", "--views", "bow,avg", "--seeds", "1", "--config", "c.toml", "--words-dim", "6")
    assert ended.code == 0, ended.errors
    config, _ = load_run(tmp_path / "runs" / "sweep" / "bow-avg-seed1")
    assert (config.views, config.seed, config.steps, config.words_dim) == (("bow", "avg"), 1, 2, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--views", "bow,avg", "--seed", "4"], "--seed is no flag of sweep: leave it out"),
        (["--views", "bow,avg", "--dry-run"], "--dry-run is no flag of sweep"),
        (["--views", "bow,avg", "--seeds", "0"], "seeds = 0: give at least 1"),
        (["--views", "bow,avg", "--views", "bow,avg"], "--views bow,avg stands twice: leave one out"),
        (["--views", "bow,avg", "--views", "dep,deep"], "unknown view 'deep'"),
        (["--views", "bow,avg", "--hidden", "0"], "hidden = 0: give at least 1"),
    ],
)
def test_what_is_no_sweep(command, corpus, tmp_path, arguments, message):  # noqa: F811
    assert fails(command, tmp_path, "sweep", *arguments).startswith(f"error: {message}")


def test_a_flag_that_train_does_not_have(command, corpus, tmp_path):  # noqa: F811
    assert "No such option: --hiden" in fails(command, tmp_path, "sweep", "--views", "bow,avg", "--hiden", "3")
