"""Two runs compared: on the same data by the same protocol, or not at all."""

import json

import numpy as np
import pytest
import test_tables
from shell import refused

from structviews.evaluation.scores.compare import compare_runs
from structviews.evaluation.scores.results import load_predictions, load_results, save_results
from structviews.runtime.documents import write_json

GOLD = {"MR": np.arange(400) % 2, "STS14": np.arange(400) / 100}


def make_run(root, name, tasks=("MR", "STS14"), wrong=40):
    """A run with predictions that are wrong on some examples of MR, and noisy on two data sets of STS14."""
    run = test_tables.make_run(root, name, ["seq", "seq"])
    # The first examples, so that the errors of the better run are errors of the other too.
    predicted = np.where(np.arange(400) < wrong, 1 - GOLD["MR"], GOLD["MR"])
    noisy, gold = GOLD["STS14"] + np.random.default_rng(ord(name)).standard_normal(400), GOLD["STS14"]
    tested = {
        "MR": {"all": (predicted, GOLD["MR"])},
        "STS14": {"a": (noisy[:100], gold[:100]), "b": (noisy[100:], gold[100:])},
    }
    scores = {"MR": {"accuracy": 100 - wrong / 4}, "STS14": {"pearson mean": 0.5, "pearson all": 0.6}}
    entry = {"partial": {}, "dim": 8}
    results = {"format": 1, "protocol": {"name": "senteval", "seed": 1111}, "dim": 8, "unavailable": {}}
    results["tasks"] = {t: entry | {"scores": scores[t], "data": {f"{t}/file": "1" * 64}} for t in tasks}
    results["predictions"] = {task: tested[task] for task in tasks}
    save_results(run, results)
    return run


def test_each_task_has_its_difference_interval_and_p(tmp_path, does):
    first, second = make_run(tmp_path, "a", wrong=20), make_run(tmp_path, "b", wrong=60)
    (task, score, each, adjusted), (*sts, other, less) = compare_runs(first, second)[0]
    assert (task, score, each.first, each.second) == ("MR", "accuracy", 95.0, 85.0)
    assert each.low < 10 < each.high
    assert each.p == pytest.approx(2 / 2001)  # all 40 examples on which they differ are in favour of the first
    assert adjusted == pytest.approx(4 / 2001)
    assert sts == ["STS14", "pearson mean"]
    predictions = load_predictions(first, load_results(first))["STS14"].values()
    parts = [np.corrcoef(*pair)[0, 1] for pair in predictions]
    assert other.first == pytest.approx(np.mean(parts))
    assert other.p == less  # the largest is not adjusted
    shown = does("compare", first, second)
    assert all(text in shown for text in ("+10.0", "0.001", "Holm"))
    assert "…" not in shown
    (_, _, turned, _), *_ = compare_runs(second, first)[0]
    assert [turned.low, turned.high] == pytest.approx([-each.high, -each.low], abs=0.3)


def test_what_cannot_be_compared_is_named_or_refused_in_one_line(tmp_path, monkeypatch, one_line):
    first, second = make_run(tmp_path, "a"), make_run(tmp_path, "b")
    other_data = {"scores": {}, "partial": {}, "data": {"MR/file": "2" * 64}}
    for broken, message in (
        ({"protocol": {"name": "kiros", "seed": 1111}}, r"different protocols \(name 'senteval' and 'kiros'\)"),
        ({"protocol": {"name": "senteval", "seed": 1111, "grids": {"all": [1]}}}, r"different protocols \(grids\);"),
        ({"tasks": {"TREC": {"scores": {}, "partial": {}}}}, "a and .*b: no task in common"),
        ({"tasks": {"MR": other_data}}, r"MR was scored on different data \(MR/file differs\)"),
        ({"predictions": "0" * 64}, "b: no task with predictions of both; run: structviews eval .* --tasks MR,STS14"),
        ({"model": "0" * 64}, "b: no scores for its current weights"),
    ):
        before = (second / "results.json").read_text()
        write_json(second / "results.json", json.loads(before) | broken)
        with one_line(message):
            compare_runs(first, second)
        (second / "results.json").write_text(before)
    assert "nowhere: not a run" in refused(compare_runs, first, tmp_path / "nowhere")
    rows, notes = compare_runs(first, make_run(tmp_path, "c", tasks=["MR"]))
    assert [row[0] for row in rows] == ["MR"]
    assert any(f"{first}: not compared: STS14" in note for note in notes)
    monkeypatch.setitem(GOLD, "MR", 1 - GOLD["MR"])
    assert "MR was scored on different examples" in refused(compare_runs, first, make_run(tmp_path, "d"))
