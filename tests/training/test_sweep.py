"""Sets of views x seeds, trained into one folder."""

import re

import pytest
from corpora import topic_corpus
from shell import fails

from structviews.runs.settings_file import load_run
from structviews.training.checkpoint import read_progress

FLAGS = ["--hidden", "8", "--word-dim", "6", "--batch-size", "16", "--epochs", "1", "--precision", "fp32"]
SWEEP = ["runs", "sweep", "--views", "bow,avg", "--views", "seq,seq", "--seeds", "2", "-o", "runs/s", *FLAGS]
RUNS = [f"runs/s/{views}-seed{seed}" for seed in (1, 2) for views in ("bow-avg", "seq-seq")]


@pytest.fixture
def corpus(tmp_path):
    return topic_corpus(tmp_path / "x.parsed")


def test_all_runs_are_trained_and_left_alone_the_second_time(command, does, corpus, tmp_path):
    (tmp_path / "c.toml").write_text(
        '[data]\ncorpus = "x.parsed"\n[views]\nnames = ["seq", "seq"]\n[optimisation]\nlr = 0.01\nseed = 9\n'
    )
    assert does(*SWEEP, "--config", "c.toml").split() == RUNS
    for name in RUNS:
        config, _ = load_run(tmp_path / name)
        views, seed = re.fullmatch(r".*/(.*)-seed(\d)", name).groups()
        assert (config.views.names, config.optimisation.seed) == (tuple(views.split("-")), int(seed))
        assert (config.views.hidden, config.optimisation.lr, config.data.corpus) == (8, 0.01, "x.parsed")
        assert read_progress(tmp_path / name).finished
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    _, output, errors = command(*SWEEP, "--config", "c.toml")
    assert output.split() == RUNS
    assert [line for line in errors.splitlines() if "trained" in line] == [f"{name}: already trained" for name in RUNS]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "4"], "No such option: --seed (Possible options: "),
        (["--seeds", "1000000000"], "seeds = 1000000000: give at least 1 and at most 1000"),
        (["--views", "bow,avg"], "--views bow,avg: given twice: remove one"),
        (["--views", "dep,deep"], "unknown view 'deep'"),
    ],
)
def test_what_is_no_sweep(command, corpus, tmp_path, arguments, message):
    assert fails(command, tmp_path, "runs", "sweep", "--views", "bow,avg", *arguments).startswith(f"error: {message}")
