"""The page about protocols, from results."""

import sys

import pytest
from scripts_for_tests import load


@pytest.fixture
def protocols_page(monkeypatch):
    return load("protocols_page", monkeypatch)


def result(name, tasks):
    return {"protocol": {"name": name}, "tasks": tasks}


def entry(scores, seconds, partial=None, **more):
    return {"scores": scores, "seconds": {"scoring": seconds}, "partial": partial or {}} | more


def test_scores_seconds_and_strengths_side_by_side(protocols_page):
    ends = {"first": 0, "last": 2, "choices": 3}
    tasks = {
        "MR": entry({"accuracy": 70.84}, 2.41, strengths=[8.0, 1.0, 8.0], at_grid_end=ends),
        "SNLI": entry({"accuracy": 60.0}, 9.0, strengths=[1e9], at_grid_end={}),  # a grid of one strength
        "SICK-R": entry({"pearson": 0.791, "spearman": 0.7}, 5.0),
    }
    first = {"MR": entry({"accuracy": 71.0}, 3.0, {"MR/x": "40"}, strengths=[1.0], at_grid_end=ends | {"last": 0})}
    page = protocols_page.page({"kiros": result("kiros", first), "senteval": result("senteval", tasks)})
    lines = page.splitlines()
    assert "| task | `kiros` | `senteval` |" in lines
    assert [line for line in lines if line.startswith(("| MR", "| SICK-R"))] == [
        *("| MR* | 71.0 | 70.8 |", "| SICK-R | - | 79.1 |", "| MR | 3.0 | 2.4 |", "| SICK-R | - | 5.0 |"),
        "| MR | 1 x 1 | 1 x 1, **8** x 2 |",
    ]
    assert "| SNLI | - | 1e+09 x 1 |" in lines
    assert "on part of the task (MR)" in page


def test_a_run_without_scores_under_all_protocols_is_refused(protocols_page, tmp_path, monkeypatch):
    before = protocols_page.PAGE.read_text("utf-8")
    monkeypatch.setattr(sys, "argv", ["protocols_page.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="no scores under kiros, senteval, senteval-torch"):
        protocols_page.main()
    assert protocols_page.PAGE.read_text("utf-8") == before
