"""The table: one row per run, missing scores said."""

import csv
import io
import json
import sys
import types

import pytest
from rich.console import Console
from typer.testing import CliRunner

from structviews.cli import app
from structviews.errors import InputError
from structviews.evaluation.results import load_results, model_checksum
from structviews.evaluation.tables import as_csv, as_markdown, as_rich, score_table


class Represented:
    """An encoder that has two representations."""

    def __init__(self, encode, pooling="vector"):
        self.encode = encode if pooling == "vector" else lambda sentences: encode(sentences)[:, ::2]
        self.pooling = self.description = pooling
        self._whole = encode

    def represented(self, pooling="vector"):
        return Represented(self._whole, pooling)

    def for_similarity(self):
        return self


def make_run(root, name, views, tasks=None, unavailable=None):
    run = root / name
    run.mkdir(parents=True)
    (run / "model.safetensors").write_bytes(name.encode())
    (run / "config.toml").write_text(f"views = {json.dumps(views)}\n")
    if tasks is not None:
        tasks = {task: {"partial": {}, **entry} for task, entry in tasks.items()}
        results = {"format": 1, "dim": 600, "protocol": {}, "tasks": tasks, "unavailable": unavailable or {}}
        results["model"] = model_checksum(run)
        (run / "results.json").write_text(json.dumps(results))
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
    assert "unweighted mean" in table.notes[0]
    assert "CR unavailable: data/CR/custrev.pos: no such file" in notes
    assert "MRPC*: scored on part of the task, MRPC/x.txt has 39 of 4,076 examples" in notes
    assert "seq-seq: CR, MRPC, SICK-R, STS14 not evaluated" in notes
    assert f"bow-seq: this model is not evaluated; run: structviews eval {runs[2]}" in notes


def test_markdown_and_csv(runs):
    table = score_table(runs)
    lines = as_markdown(table).split("\n")
    assert lines[0] == "| run | views | dim | MR | CR | MRPC | SICK-R | STS14 |"
    assert lines[1] == "| --- | --- | --: | --: | --: | --: | --: | --: |"
    assert lines[2] == "| dep-const | dep,const | 600 | 0.0 | - | 73.3/81.0* | 82.1 | 55.1 |"
    assert lines[5:7] == ["", f"- {table.notes[0]}"]
    assert list(csv.reader(as_csv(table).splitlines())) == [table.header, *table.rows]


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


def test_scores_of_weights_that_have_changed_are_not_shown(runs):
    (runs[1] / "model.safetensors").write_bytes(b"trained on")
    table = score_table(runs)
    assert table.rows[1][2:] == ["-"] * 6
    assert any(note.startswith("seq-seq: this model is not evaluated") for note in table.notes)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "not a run folder, it has no config.toml"),
        ("views = [", "config.toml: not TOML"),
        ("view = 3", "config.toml: views is None, not a list of names"),
    ],
)
def test_bad_runs(config, message, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    if config:
        (run / "config.toml").write_text(config)
    with pytest.raises(InputError, match=message):
        score_table([run])


def test_the_table_command(runs):
    paths = [str(run) for run in runs]
    shown = CliRunner().invoke(app, ["table", *paths, "--format", "csv"])
    assert shown.exit_code == 0
    assert 'dep-const,"dep,const",600,0.0,-' in shown.output
    shown = CliRunner().invoke(app, ["table", *paths, "--format", "md"])
    assert shown.output.startswith("| run | views |")
    shown = CliRunner().invoke(app, ["table", *paths])
    assert "dep,const" in shown.output
    assert "CR unavailable" in shown.output


def test_the_eval_command(tmp_path, folder, encode, monkeypatch):
    embedder = types.ModuleType("structviews.embedder")
    embedder.Embedder = types.SimpleNamespace(load=lambda run: Represented(encode))
    monkeypatch.setitem(sys.modules, "structviews.embedder", embedder)
    run = make_run(tmp_path, "dep-seq", ["dep", "seq"])
    (folder / "TREC/TREC_10.label").unlink()
    command = ["eval", str(run), "--senteval", str(folder), "--tasks", "MR, TREC"]
    shown = CliRunner().invoke(app, [*command, "--partial"])
    assert shown.exit_code == 0, shown.output
    assert load_results(run)["tasks"]["MR"]["scores"]["accuracy"] > 95
    assert "*" in shown.output
    assert "TREC unavailable" in shown.output
    shown = CliRunner().invoke(app, [*command[:-1], "CR"])
    assert shown.exit_code == 2  # nothing was scored
    assert "CR unavailable" in shown.output
    assert "MR*" in shown.output  # the earlier score is still there
    assert isinstance(CliRunner().invoke(app, [*command[:-1], "nonsense"]).exception, InputError)


def test_scores_of_other_vectors_are_kept_beside_the_runs_own(tmp_path, folder, encode, monkeypatch):
    embedder = types.ModuleType("structviews.embedder")
    embedder.Embedder = types.SimpleNamespace(load=lambda run: Represented(encode))
    monkeypatch.setitem(sys.modules, "structviews.embedder", embedder)
    run = make_run(tmp_path, "dep-seq", ["dep", "seq"])
    command = ["eval", str(run), "--senteval", str(folder), "--partial", "--tasks"]
    for more in (["SICK-R"], ["MR,SICK-R", "--pooling", "mean"], ["MR"]):
        shown = CliRunner().invoke(app, [*command, *more])
        assert shown.exit_code == 0, shown.output
    assert sorted(load_results(run)["tasks"]) == ["MR", "SICK-R"]
    assert load_results(run)["representation"] == "vector"
    other = load_results(run, "results.mean.json")
    assert (other["representation"], other["flags"], other["dim"]) == ("mean", " --pooling mean", 10)
    assert [row[:3] for row in score_table([run]).rows] == [
        ["dep-seq", "dep,seq", "20"],
        ["dep-seq (mean)", "dep,seq", "10"],
    ]
    del other["tasks"]["MR"]
    (run / "results.mean.json").write_text(json.dumps(other))
    assert (
        f"dep-seq (mean): MR not evaluated; run: structviews eval {run} --senteval DIR --tasks MR --pooling mean"
        in (score_table([run]).notes)
    )
