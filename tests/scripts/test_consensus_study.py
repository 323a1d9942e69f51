import json

import pytest
from scripts_for_tests import load

from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import Parsed, save_config


@pytest.fixture
def study(monkeypatch):
    return load("consensus_study", monkeypatch)


def known(study, out, variant, number, seed, **scores):
    """Scores of a row, as ``score`` keeps them, in units of the table."""
    row = list(study.VARIANTS.values())[variant][number]
    tasks = {name: {"scores": {study.TASKS[name][0]: value / study.TASKS[name][1]}} for name, value in scores.items()}
    file = study.scores_file(out, row, seed)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"models": [], "tasks": tasks}))
    for recipe in study.recipes_of([row]):
        run = study.folder(out, recipe, seed)
        run.mkdir(exist_ok=True)
        settings = {"corpus": "x", "views": ("bow", "avg"), "out": str(run), "batch_size": 60}
        save_config(run, TrainConfig.of(**settings), Parsed())
        steps = ((10, 5.0), (20, 10.0))
        lines = [{"kind": "train", "step": step, "sentences_per_second": rate} for step, rate in steps]
        (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_row_has_mean_deviation_and_the_mean_of_its_differences(study, tmp_path):
    for seed, ours, other in ((1, 50.0, 48.0), (2, 52.0, 51.0)):
        known(study, tmp_path, 0, 0, seed, STS14=ours)
        known(study, tmp_path, 2, 0, seed, STS14=other)
    known(study, tmp_path, 2, 0, 3, STS14=60.0)  # nothing to compare it with: in the mean, in no difference
    lines = list(study.table(tmp_path, [1, 2, 3]))
    assert lines[2].split(" | ")[4] == "51.0 ± 1.4"
    single = next(line for line in lines if line.startswith("| f alone"))
    assert single.split(" | ")[3:5] == ["3", "53.0 ± 6.2 (-1.5)"]


def test_minutes_are_those_at_the_median_rate(study, tmp_path):
    known(study, tmp_path, 0, 0, 1, MR=70.0)
    # 20 steps of 60 sentences at 7.5 a second
    assert list(study.table(tmp_path, [1]))[2].split(" | ")[2] == "2.7"


def test_every_row_is_beside_one_of_the_first_variant_and_has_a_file_of_its_own(study, tmp_path):
    rows = [row for rows in study.VARIANTS.values() for row in rows]
    assert {row.beside for row in rows} == {row.name for row in next(iter(study.VARIANTS.values()))}
    assert len({study.scores_file(tmp_path, row, 1) for row in rows}) == len(rows)
