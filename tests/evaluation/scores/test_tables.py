"""The table: one row per run, missing scores said."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.errors import InputError
from structviews.evaluation.scores.rendering import as_markdown, as_rich
from structviews.evaluation.scores.results import CAPTION_TASK
from structviews.evaluation.scores.tables import score_table
from structviews.runs.config import TrainConfig
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import Parsed, save_config
from structviews.runtime.documents import write_json
from structviews.runtime.seals import write_arrays


def make_run(root, name, views, tasks=None, unavailable=None):
    run = root / name
    run.mkdir(parents=True)
    write_arrays(run / "model.safetensors", {}, {"name": name})
    (run / "config.toml").write_text(f"[views]\nnames = {json.dumps(views)}\n")
    if tasks is not None:
        tasks = {task: {"partial": {}, **entry} for task, entry in tasks.items()}
        results = {"format": 1, "dim": 600, "protocol": {}, "tasks": tasks, "unavailable": unavailable or {}}
        results["model"] = model_checksum(run)
        write_json(run / "results.json", results)
    return run


@pytest.fixture
def runs(tmp_path):
    tasks = {
        "SICK-R": {"scores": {"pearson": 0.8214, "spearman": 0.7, "mse": 0.3}},
        "MRPC": {"scores": {"accuracy": 73.26, "f1": 81.05}, "partial": {"MRPC/x.txt": "39 of 4,076 examples"}},
        "STS14": {"scores": {"pearson mean": 0.5512, "pearson weighted mean": 0.6, "pearson all": 0.4}},
        "MR": {"scores": {"accuracy": 0.0}},
    }
    return [
        make_run(tmp_path, "dep-const", ["dep", "const"], tasks, {"CR": "data/CR/custrev.pos: no such file"}),
        make_run(tmp_path, "seq-seq", ["seq", "seq"], {"MR": {"scores": {"accuracy": 75.04}}}),
        make_run(tmp_path, "bow-seq", ["bow", "seq"]),
    ]


def test_rows_and_notes(runs):
    table = score_table(runs)
    assert table.header == ["run", "views", "dim", "MR", "CR", "MRPC", "SICK-R", "STS14"]
    assert table.rows == [
        ["dep-const", "dep,const", "600", "0.0", "-", "73.3/81.0*", "82.1", "55.1"],
        ["seq-seq", "seq,seq", "600", "75.0", "-", "-", "-", "-"],
        ["bow-seq", "bow,seq", "-", "-", "-", "-", "-", "-"],
    ]
    notes = "\n".join(table.notes)
    assert table.legend[0] == (
        "accuracy in percent; MRPC accuracy/F1; SICK-R Pearson x 100, supervised; "
        "STS14 Pearson x 100 of cosines, unweighted mean over the year's data sets"
    )
    assert "CR unavailable: data/CR/custrev.pos: no such file" in notes
    assert "MRPC*: scored on part of the task: MRPC/x.txt has 39 of 4,076 examples" in table.legend
    assert "seq-seq: CR, MRPC, SICK-R, STS14 not evaluated" in notes
    assert f"bow-seq: this model has not been evaluated; run: structviews eval {runs[2]}" in notes
    lines = as_markdown(table).split("\n")
    assert lines[1:3] == [
        "| --- | --- | --: | --: | --: | --: | --: | --: |",
        "| dep-const | dep,const | 600 | 0.0 | - | 73.3/81.0* | 82.1 | 55.1 |",
    ]
    assert lines[5:7] == ["", f"- {table.legend[0]}"]
    assert score_table(runs[1:]).legend == ["accuracy in percent"]
    assert score_table(runs[2:]).legend == []
    assert "CR unavailable" in CliRunner().invoke(app, ["table", *map(str, runs)]).output
    # Scores of other weights are not shown.
    write_arrays(runs[1] / "model.safetensors", {}, {"name": "trained on"})
    table = score_table(runs)
    assert table.rows[1][2:] == ["-"] * 6
    assert any(note.startswith("seq-seq: this model has not been evaluated") for note in table.notes)


def test_a_narrow_terminal_gets_several_tables_with_every_score_whole(runs):
    table = score_table(runs)
    console = Console(width=50, file=io.StringIO())
    parts = as_rich(table, console.width)
    console.print(*parts, sep="\n")
    shown = console.file.getvalue()
    assert len(parts) > 1
    assert len(as_rich(table, 200)) == 1
    assert "…" not in shown
    assert all(cell in shown for row in (table.header, *table.rows) for cell in row)
    assert max(map(len, shown.split("\n"))) <= 50


def test_a_task_that_was_not_scored_is_asked_for_with_its_folder(tmp_path):
    accuracy = {"scores": {"accuracy": 50.0}}
    a = make_run(tmp_path, "a", ["dep"], {"MR": accuracy})
    b = make_run(tmp_path, "b", ["dep"], {"Tense": accuracy, "HeadDistance": accuracy})
    why = "the protocol kiros does not cover it"
    c = make_run(tmp_path, "c", ["dep"], {"MR": accuracy}, dict.fromkeys(("Tense", "HeadDistance"), why))
    notes = score_table([a, b, c]).notes
    assert f"Tense, HeadDistance unavailable: {why}" in notes
    left = f"run: structviews eval {a} --probing DIR --tasks Tense,HeadDistance"
    assert f"a: Tense, HeadDistance not evaluated; {left}" in notes
    assert f"b: MR not evaluated; run: structviews eval {b} --senteval DIR --tasks MR" in notes


def test_captions_are_not_asked_of_eval_and_a_folder_of_the_bundled_name_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accuracy = {"scores": {"accuracy": 50.0}}
    captions = make_run(tmp_path, "captions", ["dep"], {CAPTION_TASK: {"scores": {"image to text R@1": 1.0}}})
    make_run(tmp_path, "default", ["dep"], {"MR": accuracy})
    notes = score_table([captions, Path("default")]).notes
    assert notes == [f"captions: MR not evaluated; run: structviews eval {captions} --senteval DIR --tasks MR"]
    more = make_run(tmp_path, "more", ["dep"], {"TREC": accuracy})
    notes = score_table([more, Path("default")]).notes
    assert "default: TREC not evaluated; run: structviews eval ./default --senteval DIR --tasks TREC" in notes


def test_bad_runs(tmp_path):
    for name, config, message in (
        ("a", "views = [", "config.toml: not TOML"),
        ("b", "view = 3", r"config.toml: \[views\] has no list of names"),
    ):
        (make_run(tmp_path, name, ["dep"]) / "config.toml").write_text(config)
        with pytest.raises(InputError, match=message):
            score_table([tmp_path / name])


def test_scores_of_other_vectors_and_protocols_are_rows_beside_the_runs_own(tmp_path):
    run = make_run(tmp_path, "dep-seq", ["dep", "seq"], {"MR": {"scores": {"accuracy": 70.0}}})
    own = json.loads((run / "results.json").read_text())
    kiros = {"protocol": {"name": "kiros"}, "flags": " --protocol kiros"}
    mean = {"representation": "mean", "flags": " --pooling mean", "dim": 10, "tasks": {}}
    for name, changes in (("kiros", kiros), ("mean", mean)):
        write_json(run / f"results.{name}.json", own | changes)
    table = score_table([run])
    assert [[row[0], *row[3:]] for row in table.rows] == [
        ["dep-seq", "70.0"],
        ["dep-seq (kiros)", "70.0"],
        ["dep-seq (mean)", "-"],
    ]
    missing = f"run: structviews eval {run} --senteval DIR --tasks MR --pooling mean"
    assert table.notes == [f"dep-seq (mean): MR not evaluated; {missing}"]


def test_strengths_at_an_end_of_the_grid_are_one_note(tmp_path):
    def entry(first, last, choices):
        return {"scores": {"accuracy": 70.0}, "at_grid_end": {"first": first, "last": last, "choices": choices}}

    one = make_run(tmp_path, "one", ["dep"], {"TREC": entry(0, 1, 1), "MR": entry(2, 3, 10), "CR": entry(0, 0, 10)})
    two = make_run(tmp_path, "two", ["seq"], {"TREC": entry(0, 0, 1), "MR": entry(0, 1, 10)})
    said = [line for line in score_table([one, two]).legend if "grid" in line]
    assert said == [
        "senteval: strength chosen at an end of its grid, beyond which it may be better: "
        "MR the first in 2 of 20, MR the last in 4 of 20, TREC the last in 1 of 2"
    ]
    assert not any("grid" in line for line in score_table([one], tasks=["CR"]).legend)


def seeded(tmp_path, scores, **settings):
    """Runs that differ by their seed alone, with their scores for MRPC; None for one without."""
    runs = []
    for seed, score in enumerate(scores, 1):
        tasks = {"MRPC": {"scores": dict(zip(("accuracy", "f1"), score, strict=True))}} if score else None
        run = make_run(tmp_path, f"seq-seq-seed{seed}", ["seq", "seq"], tasks)
        given = {"corpus": "x.parsed", "views": ("seq", "seq"), "seed": seed, "out": str(run), "hidden": 8}
        save_config(run, TrainConfig.of(**given | settings), Parsed())
        runs.append(run)
    return runs


def test_runs_that_differ_by_their_seed_are_one_row(runs, tmp_path):
    several = seeded(tmp_path / "sweep", [(70.0, 80.0), (71.0, 80.0), (75.0, 83.0)])
    table = score_table([*several, *runs])
    assert table.header == ["run", "views", "dim", "n", "MR", "CR", "MRPC", "SICK-R", "STS14"]
    # Sample deviations: sqrt((4 + 1 + 9) / 2), sqrt((1 + 1 + 4) / 2).
    assert table.rows[0] == ["seq-seq", "seq,seq", "600", "3", "-", "-", "72.0 ± 2.6/81.0 ± 1.7", "-", "-"]
    assert [row[3] for row in table.rows] == ["3", "1", "1", "1"]
    assert table.rows[1][6] == "73.3/81.0*"
    assert any("sample standard deviation" in note for note in table.legend)
    assert "72.0 ± 2.6/81.0 ± 1.7" in as_markdown(table)
    # Other settings and the same seed are rows of their own.
    one = seeded(tmp_path / "a", [(70.0, 80.0), (72.0, 80.0)])
    other = seeded(tmp_path / "b", [(70.0, 80.0)], hidden=9)
    again = seeded(tmp_path / "c", [(60.0, 80.0)], tree_backend="naive")
    rows = [row[3:] for row in score_table([*one, *other, *again]).rows]
    assert rows == [["2", "71.0 ± 1.4/80.0 ± 0.0"], ["1", "70.0/80.0"], ["1", "60.0/80.0"]]
    # A mean says of how many runs it is.
    several = seeded(tmp_path / "d", [(70.0, 80.0), None, (74.0, 84.0)])
    for run in (several[0], several[2]):
        results = json.loads((run / "results.json").read_text())
        write_json(run / "results.json", results | {"representation": "vector"})
    table = score_table(several)
    assert table.rows[0][3:] == ["3", "72.0 ± 2.8/82.0 ± 2.8 (2)"]
    assert any(note.startswith("seq-seq-seed2: this model has not been evaluated") for note in table.notes)
