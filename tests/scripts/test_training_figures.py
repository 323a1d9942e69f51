"""Scores of views in the course of training are those of eval; what is drawn is what the runs have logged."""

import argparse
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from corpora import small_config, small_sts14, topic_corpus
from scripts_for_tests import SCRIPTS, load

from structviews.encoding.embedder import Embedder
from structviews.evaluation.senteval.suite import evaluate, read_tasks
from structviews.evaluation.senteval.tasks.pairs import PUBLISHED
from structviews.training.loop import train

CURVE = {"steps": [10, 20], "ff": [1.0, 2.0], "fg": [3.0, 4.0], "gf": [5.0, 6.0], "gg": [7.0, 8.0]}


@pytest.fixture
def script(monkeypatch):
    return load("training_figures", monkeypatch)


@pytest.fixture
def senteval(tmp_path, monkeypatch):
    """STS14 with a few pairs a data set, whole by its own measure."""
    for file, size in small_sts14(tmp_path / "senteval").items():
        monkeypatch.setitem(PUBLISHED, file, size)
    return tmp_path / "senteval"


def trained(script, out, corpus):
    """The runs that are scored, with the views of their recipes."""
    how = {"objective": "consensus", "epochs": 1, "remove_component": True, "normalise": True}
    for recipe, views in zip(script.SCORED, (("seq", "avg"), ("seq",), ("avg",)), strict=True):
        agreement = "multi" if len(views) == 2 else "single"
        join = {"similarity_pooling": "mean", "similarity_join": "average", "agreement": agreement}
        train(small_config(corpus, out / recipe, views, **how, **join))


def test_scores_are_those_of_eval_with_components_of_the_task(script, senteval, tmp_path):
    trained(script, tmp_path, topic_corpus(tmp_path / "x.parsed"))
    tasks, missing = read_tasks(script.TASKS, senteval)
    assert "STS12" in missing
    script.score(50, tasks, tmp_path)
    found = script.scores_of(tmp_path)[50]

    def by_eval(recipe, view=None):
        embedder = Embedder.load(tmp_path / recipe).for_similarity().with_representation(transductive=True)
        encode = (embedder.with_view(view) if view else embedder).encode
        scores = evaluate(encode, ["STS14"], senteval, transductive=True)["tasks"]["STS14"]["scores"]
        return {"STS14": pytest.approx(scores["pearson mean"], abs=1e-5)}

    both = "multi-view-d"
    assert found["MV"] == {"f": by_eval(both, "seq"), "g": by_eval(both, "avg"), "en(f, g)": by_eval(both)}
    assert found["SV"]["f"] == by_eval("single-view-f")
    assert found["SV"]["g"] == by_eval("single-view-g")
    assert len({row["STS14"] for rows in found.values() for row in rows.values()}) == 6


def log_lines(run, *lines):
    run.mkdir(parents=True)
    (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_curves_are_cosines_over_the_temperature_and_means_over_tasks(script, tmp_path):
    cosines = {f"adjacent_{pair}": number / 10 for number, pair in enumerate(script.PAIRS)}
    for recipe in script.COSINES:
        train_line = {"kind": "train", "step": 5}
        log_lines(tmp_path / recipe, train_line, {"kind": "validation", "step": 10, "temperature": 0.5} | cosines)
    rows = {
        "f": {"STS14": 0.5, "SICK14": 0.7},
        "g": {"STS14": 0.1, "SICK14": 0.2},
        "en(f, g)": {"STS14": 0, "SICK14": 1},
    }
    later = {name: dict.fromkeys(scores, 1.0) for name, scores in rows.items()}
    scores = {step: dict.fromkeys(script.ROWS, each) for step, each in (("100", later), ("20", rows))}
    (tmp_path / script.SCORES).write_text(json.dumps(scores))
    found = script.curves(tmp_path)
    expected = {"steps": [10], "ff": [0.0], "fg": [0.2], "gf": [0.4], "gg": [pytest.approx(0.6)]}
    assert found["cosines"] == dict.fromkeys(script.COSINES, expected)
    assert found["scores"]["tasks"] == ["STS14", "SICK14"]
    assert found["scores"]["steps"] == [20, 100]
    assert found["scores"]["MV"]["f"] == [pytest.approx(0.6), 1]
    assert found["scores"]["SV"]["g"] == [pytest.approx(0.15), 1]


def test_figures_show_the_curves(script, tmp_path):
    cosines = dict.fromkeys(script.COSINES, CURVE)
    rows = {"f": [0.1, 0.2], "g": [0.3, 0.4], "en(f, g)": [0.5, 0.6]}
    scores = {"tasks": ["STS14"], "steps": [10, 20], "MV": rows, "SV": rows}
    panels = script.draw_cosines(cosines).axes
    assert [[(line.get_label(), *line.get_ydata()) for line in axes.lines] for axes in panels] == [
        [("f-f", 1, 2), ("f-g", 3, 4), ("g-f", 5, 6), ("g-g", 7, 8)]
    ] * 2
    (axes,) = script.draw_scores(scores).axes
    drawn = {line.get_label(): (line.get_linestyle(), *np.round(line.get_ydata())) for line in axes.lines}
    assert drawn["MV: en(f, g)"] == ("-", 50, 60)
    assert drawn["SV: f"] == ("--", 10, 20)
    script.draw(tmp_path, {"cosines": cosines, "scores": scores})
    assert {file.name for file in tmp_path.glob("*.svg")} == {"training-cosines.svg", "training-scores.svg"}
    for file in tmp_path.glob("*.svg"):
        style, picture = file.read_text("utf-8").split("</style>")
        assert "(prefers-color-scheme: dark)" in style
        assert "#" not in re.sub(r'(href="|url\()#', "", picture)  # no colour but the style's
        used = set(re.findall(r"var\((--\w+)\)", picture))
        assert used > {"--ink", "--faint", "--paper", "--c0"}
        assert all(style.count(f"{name}:") == 2 for name in used)  # light and dark


def test_it_goes_on_where_it_was_stopped_and_ends_with_the_training(script, tmp_path, monkeypatch):
    """Trained models stand at the same step when they are scored; a last part of fewer steps is no point."""
    reached = {}

    def step_to(recipe, options, steps=0):
        reached[tmp_path / recipe] = min(steps, 35)

    monkeypatch.setattr(script, "train", step_to)
    monkeypatch.setattr(script, "read_progress", lambda run: SimpleNamespace(step=reached[run]))
    options = argparse.Namespace(out=tmp_path, every=10)
    (tmp_path / script.SCORES).write_text('{"10": {}}')
    steps = []
    for step in script.points(options):
        steps.append(step)
        assert set(reached.values()) == {step}
    assert steps == [20, 30]
    assert reached.keys() == {tmp_path / recipe for recipe in script.SCORED}


def test_the_page_has_the_figures_of_its_file(script):
    page = (SCRIPTS.parent / "docs/results/training-figures.md").read_text("utf-8")
    found = json.loads((SCRIPTS.parent / "docs/results/training-figures.json").read_text("utf-8"))
    assert "\n".join(script.table(found)) in page
