import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from structviews.encoding.kinds.external import given_run

SCRIPT = Path(__file__).parents[2] / "scripts/bench_pipeline.py"
STAGES = ["repair, tokenise, check", "parse", "batch", "encode"]


@pytest.fixture
def bench(monkeypatch, capsys, tmp_path):
    """What the script prints for a short text and some flags."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    text = tmp_path / "x.txt"
    text.write_text("".join(f"The {i} birds in the tree sing.\n" for i in range(30)))
    before = torch.get_num_threads()

    def run(*flags):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(text), "--threads", "1", *flags])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return capsys.readouterr().out

    yield run
    torch.set_num_threads(before)


def test_stages_and_processes_are_measured(bench):
    """Also where there are more processes than threads."""
    found = json.loads(bench("--processes", "1,2", "--json"))
    assert list(found["stages"]) == STAGES
    assert all(each > 0 for each in found["stages"].values())
    one, two = found["pipeline"]
    assert (one["processes"], two["processes"], one["others wait"]) == (1, 2, 0)
    assert one["sentences/s"] > 0
    assert one["this one waits"] < 1
    assert two["others wait"] < 1


def test_tables(bench):
    shown = bench("--processes", "1")
    assert all(f"| {stage} | " in shown for stage in STAGES)
    assert "| processes | sentences/s | this one waits | others wait |" in shown


def test_a_run_without_stages_is_refused(bench, capsys, tmp_path):
    (tmp_path / "v.txt").write_text("a bird\n")
    np.save(tmp_path / "v.npy", np.ones((1, 3), dtype=np.float32))
    made = given_run(tmp_path / "v.npy", tmp_path / "given")
    with pytest.raises(SystemExit):
        bench("--run", str(made))
    assert f"--run {made}: give a trained run" in capsys.readouterr().err
