"""The table: rows, missing scores, intervals, marks, published rows, signatures; each format; the matrix of views."""

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from shell import refused

from structviews.evaluation.scores import heatmap
from structviews.evaluation.scores.rendering import as_latex, as_markdown, as_rich, html_table
from structviews.evaluation.scores.results import CAPTION_TASK, load_results, save_results, signature
from structviews.evaluation.scores.tables import BEST, TIE, score_table
from structviews.evaluation.senteval.suite import evaluate
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


def change_results(run, name="results.json", **changes):
    write_json(run / name, json.loads((run / "results.json").read_text()) | changes)


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


def test_rows_and_notes(runs, does):
    table = score_table(runs)
    assert table.header == ["run", "views", "dim", "MR", "CR", "MRPC", "SICK-R", "STS14"]
    assert [row.texts for row in table.runs] == [
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
    assert "*: scored on part of the task, as results.json counts: MRPC" in table.legend
    assert "seq-seq: CR, MRPC, SICK-R, STS14 not evaluated" in notes
    assert f"bow-seq: this model has not been evaluated; run: structviews eval {runs[2]}" in notes
    lines = as_markdown(table).split("\n")
    assert lines[1] == "| --- | --- | --: | --: | --: | --: | --: | --: |"
    assert lines[2] == "| dep-const | dep,const | 600 | 0.0 | - | 73.3/81.0* | 82.1 | 55.1 |"
    assert lines[5:7] == ["", f"- {table.legend[0]}"]
    assert [line for line in score_table(runs[1:]).legend if "signature" not in line] == ["accuracy in percent"]
    assert score_table(runs[2:]).legend == []
    assert "CR unavailable" in does("table", *runs)
    # Scores of other weights are not shown.
    write_arrays(runs[1] / "model.safetensors", {}, {"name": "trained on"})
    table = score_table(runs)
    assert table.runs[1].texts[2:] == ["-"] * 6
    assert any(note.startswith("seq-seq: this model has not been evaluated") for note in table.notes)
    (runs[1] / "config.toml").write_text("view = 3")
    assert "config.toml: [views] has no list of names" in refused(score_table, runs)


def test_a_narrow_terminal_gets_several_tables_with_every_score_whole(runs):
    table = score_table(runs)
    console = Console(width=50, file=io.StringIO())
    parts = as_rich(table, console.width)
    console.print(*parts, sep="\n")
    shown = console.file.getvalue()
    assert len(parts) > 1
    assert len(as_rich(table, 200)) == 1
    assert "…" not in shown
    assert all(cell in shown for row in (table.header, *(each.texts for each in table.runs)) for cell in row)
    assert max(map(len, shown.split("\n"))) <= 50


def test_a_task_that_was_not_scored_is_asked_for_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
    # Captions are not asked of eval; and a folder of the bundled run's name is told apart.
    captions = make_run(tmp_path, "captions", ["dep"], {CAPTION_TASK: {"scores": {"image to text R@1": 1.0}}})
    make_run(tmp_path, "default", ["dep"], {"TREC": accuracy})
    assert score_table([captions, a, Path("default")]).notes == [
        f"captions: MR, TREC not evaluated; run: structviews eval {captions} --senteval DIR --tasks MR,TREC",
        f"a: TREC not evaluated; run: structviews eval {a} --senteval DIR --tasks TREC",
        "default: MR not evaluated; run: structviews eval ./default --senteval DIR --tasks MR",
    ]


def test_scores_of_other_vectors_and_protocols_are_rows_beside_the_runs_own(tmp_path):
    run = make_run(tmp_path, "dep-seq", ["dep", "seq"], {"MR": {"scores": {"accuracy": 70.0}}})
    change_results(run, "results.kiros.json", protocol={"name": "kiros"}, flags=" --protocol kiros")
    change_results(run, "results.mean.json", representation="mean", flags=" --pooling mean", dim=10, tasks={})
    table = score_table([run])
    scores = {row.texts[0]: row.texts[3] for row in table.runs}
    assert scores == {"dep-seq": "70.0", "dep-seq (kiros)": "70.0", "dep-seq (mean)": "-"}
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
    assert table.runs[0].texts == ["seq-seq", "seq,seq", "600", "3", "-", "-", "72.0 ± 2.6/81.0 ± 1.7", "-", "-"]
    assert [row.texts[3] for row in table.runs] == ["3", "1", "1", "1"]
    assert table.runs[1].texts[6] == "73.3/81.0*"
    assert any("sample standard deviation" in note for note in table.legend)
    assert "72.0 ± 2.6/81.0 ± 1.7" in as_markdown(table)
    # Other settings and the same seed are rows of their own.
    one = seeded(tmp_path / "a", [(70.0, 80.0), (72.0, 80.0)])
    other = seeded(tmp_path / "b", [(70.0, 80.0)], hidden=9)
    again = seeded(tmp_path / "c", [(60.0, 80.0)], tree_backend="naive")
    rows = [row.texts[3:] for row in score_table([*one, *other, *again]).runs]
    assert rows == [["2", "71.0 ± 1.4/80.0 ± 0.0"], ["1", "70.0/80.0"], ["1", "60.0/80.0"]]
    # A mean says of how many runs it is.
    several = seeded(tmp_path / "d", [(70.0, 80.0), None, (74.0, 84.0)])
    for run in (several[0], several[2]):
        change_results(run, representation="vector")
    table = score_table(several)
    assert table.runs[0].texts[3:] == ["3", "72.0 ± 2.8/82.0 ± 2.8 (2)"]
    assert any(note.startswith("seq-seq-seed2: this model has not been evaluated") for note in table.notes)
    # Scores stay those of a run whose settings were edited badly.
    file = several[2] / "config.toml"
    file.write_text("optimisation = 3\n" + re.sub(r"\[optimisation\]\n(.+\n)+", "", file.read_text()))
    assert score_table(several).runs[1].texts[3:] == ["1", "74.0/84.0"]


def test_a_mean_of_tasks_stands_behind_them_where_a_run_has_all(tmp_path):
    whole = {task: {"scores": {"accuracy": 80.0}} for task in ("MR", "CR", "SUBJ", "MPQA", "TREC")}
    whole["MRPC"] = {"scores": {"accuracy": 70.0, "f1": 80.0}}
    whole["SICK-R"] = {"scores": {"pearson": 0.8, "spearman": 0.7, "mse": 0.3}}
    whole["STS13"] = {"scores": {"pearson mean": 0.5}, "sets": {"SMT": {}}}
    several = seeded(tmp_path, [(70.0, 80.0), (72.0, 80.0)])
    change_results(several[0], tasks={task: {"partial": {}, **entry} for task, entry in whole.items()})
    table = score_table(several)
    assert table.header[-2:] == ["STS13", "SentEval mean"]
    # (5 * 80 + (70 + 80) / 2 + (80 + 70 + 100 - 30) / 3) / 7; the other run lacks scores.
    assert table.runs[0].texts[-2:] == ["50.0‡ (1)", "78.3 (1)"]
    assert "‡: with the SMT set of 2013, which SentEval lacks" in table.legend
    # SimCSE's seven, of which one is incomplete.
    years = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
    seven = {task: {"scores": {"spearman all": 0.1 * n}} for n, task in enumerate(years)}
    seven["STS16"]["partial"] = {"STS/x": "9 of 10"}
    table = score_table([make_run(tmp_path, "seven", ["seq"], seven)])
    assert (table.header[-1], table.runs[0].texts[-1]) == ("STS mean", "30.0*")


def scored(root, name, views, **scores):
    """A run with accuracies, or Pearson correlations below 1, and intervals of one point to each side."""
    tasks = {}
    for task, value in scores.items():
        score, width = ("pearson", 0.01) if value < 1 else ("accuracy", 1.0)
        tasks[task] = {"scores": {score: value}, "intervals": {score: [value - width, value + width]}}
    return make_run(root, name, views, tasks)


@pytest.fixture
def with_intervals(tmp_path):
    return [
        scored(tmp_path, "a_1", ["seq", "seq"], MR=78.04, TREC=91.0),
        scored(tmp_path, "b", ["dep", "seq"], MR=79.5, TREC=90.1),
        scored(tmp_path, "c", ["dep", "const"], MR=80.0),
    ]


def marks(table):
    return [[[figure.mark for figure in cell.figures] for cell in row.cells] for row in table.runs]


def test_the_best_and_those_within_its_interval_are_marked_but_no_score_on_part_of_a_task(with_intervals, tmp_path):
    part = {"MR": {"scores": {"accuracy": 99.0}, "partial": {"MR/x": "9 of 10"}}}
    with_intervals.append(make_run(tmp_path, "d", ["avg", "avg"], part))
    assert marks(score_table(with_intervals)) == [[[""], [BEST]], [[TIE], [TIE]], [[BEST], []], [[""], []]]
    # Both numbers of MRPC by themselves; without intervals none ties.
    table = score_table([*seeded(tmp_path / "x", [(72.0, 80.0)]), *seeded(tmp_path / "y", [(71.9, 82.0)], hidden=9)])
    assert marks(table) == [[[BEST, ""]], [["", BEST]]]


def test_intervals_on_request_and_of_several_runs_their_mean(with_intervals, tmp_path):
    table = score_table(with_intervals, intervals=True)
    assert table.runs[0].texts[3:] == ["78.0 [77.0, 79.0]", "91.0 [90.0, 92.0]"]
    assert table.runs[2].texts[4] == "-"
    assert any("bootstrap" in note for note in table.legend)
    several = seeded(tmp_path / "sweep", [(70.0, 80.0), (72.0, 80.0)])
    for run, ends in zip(several, ([68.0, 71.5], [70.0, 74.5]), strict=True):
        tasks = json.loads((run / "results.json").read_text())["tasks"]
        tasks["MRPC"]["intervals"] = {"accuracy": ends, "f1": [78.0, 82.0]}
        change_results(run, tasks=tasks)
    text = "71.0 ± 1.4 [69.0, 73.0]/80.0 ± 0.0 [78.0, 82.0]"
    assert score_table(several, intervals=True).runs[0].texts[4] == text


def test_published_rows_stand_apart_in_every_format(with_intervals):
    table = score_table(with_intervals, published=True)
    own = ["dep,const" in row.texts for row in table.runs]
    assert own == [False, False, True]
    model, source, dim, mr, trec = next(row.texts for row in table.published if row.labels[0].startswith("DEP, CONST"))
    assert (model, source, dim, mr, trec) == ("DEP, CONST (UMBC 40M)", "S 1", "4800", "80.7", "92.6")
    assert all(row.cells[0].figures or row.cells[1].figures for row in table.published)
    assert not any(figure.mark for row in table.published for cell in row.cells for figure in cell.figures)
    lines = as_markdown(table).split("\n")
    assert lines[5] == "| **published** |  |  |  |  |"
    console = Console(width=200, file=io.StringIO())
    console.print(*as_rich(table, 200))
    shown = console.file.getvalue()
    assert shown.index("b ") < shown.index("published") < shown.index("DEP, CONST")
    assert "\\emph{published}" in as_latex(table)
    assert "<tbody class='published'>" in html_table(table, range(2))
    table = score_table(with_intervals)
    assert not table.published
    named = replace(table, runs=[replace(table.runs[0], labels=("a|b](x)", *table.runs[0].labels[1:]))], notes=["`a`"])
    lines = as_markdown(named).split("\n")
    assert lines[2].startswith("| a\\|b\\](x) | ")
    assert lines[-2] == "- \\`a\\`"


def test_latex_has_equal_rows_escapes_names_and_marks_scores(with_intervals, tmp_path):
    latex = as_latex(score_table(with_intervals))
    assert "a\\_1 & seq,seq & 600 & 78.0 & \\textbf{91.0} \\\\" in latex
    assert "b & dep,seq & 600 & \\underline{79.5} & \\underline{90.1} \\\\" in latex
    assert "c & dep,const & 600 & \\textbf{80.0} & -- \\\\" in latex
    assert "% c: TREC not evaluated" in latex
    assert "95 \\% interval" in latex
    assert latex.count("\\toprule") == latex.count("\\bottomrule") == 1
    # Many tasks are several tabulars, with every score once.
    names = ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "SICK-E", "SICK-R", "STS12", "STS13", "STS14", "STS15"]
    run = scored(tmp_path, "a", ["seq", "seq"], **{name: 50.0 + i for i, name in enumerate(names)})
    latex = as_latex(score_table([run]))
    assert latex.count("\\begin{tabular}{@{}llrrrrrrr@{}}") == 2
    assert all(latex.count(f"& {50 + i}.0") == 1 for i in range(len(names)))


def test_html_names_are_text_and_scores_have_marks_and_intervals(with_intervals, tmp_path):
    odd = scored(tmp_path, "a&b<i>", ["seq"], MR=70.0)
    html = html_table(score_table([*with_intervals, odd], intervals=True), range(2))
    ElementTree.fromstring(html)  # what is opened is closed
    assert html.count("<td") == 4 * 4
    assert html.count("<th scope='row'") == 4
    assert "<td title='95 % interval [79.0, 81.0]'><b>80.0</b><small>[79.0, 81.0]</small></td>" in html
    assert "<u>79.5</u>" in html
    assert "a&amp;b&lt;i&gt;" in html


def test_a_matrix_has_each_pair_on_both_sides_and_holes_where_there_is_none(with_intervals, tmp_path):
    matrix = heatmap.view_matrix(with_intervals, "MR")
    assert matrix.views == ["const", "dep", "seq"]
    expected = [[np.nan, 80.0, np.nan], [80.0, np.nan, 79.5], [np.nan, 79.5, 78.04]]
    np.testing.assert_array_equal(matrix.values, expected)
    assert matrix.texts == [["-", "80.0", "-"], ["80.0", "-", "79.5"], ["-", "79.5", "78.0"]]
    matrix = heatmap.view_matrix(with_intervals, "TREC")
    assert (matrix.views, matrix.interval) == (["dep", "seq"], 2)
    assert "not in the matrix (not two views, or no score): c" in matrix.notes
    for width, ends, scale in ((2, (70, 71), (65.5, 75.5)), (8, (70, 71), (62.5, 78.5)), (2, (98, 99), (90, 100))):
        assert replace(matrix, values=np.array(ends), interval=width).scale == scale
    again = scored(tmp_path / "other", "b2", ["seq", "dep"], MR=70.0)
    for given, task, message in (
        (with_intervals, "CR", "--matrix CR: no run has a score for it; scored tasks: MR, TREC"),
        ([*with_intervals, again], "MR", "b and b2 have the same views seq, dep; give one of them"),
        ([scored(tmp_path, "one", ["seq"], MR=1.5)], "MR", "no run with two views has a score"),
    ):
        assert message in refused(heatmap.view_matrix, given, task)


def test_the_flags_of_the_table_command(with_intervals, tmp_path, command, does):
    runs = ("table", *with_intervals)
    assert "\\toprule" in does(*runs, "--format", "latex")
    assert "[79.0, 81.0]" in does(*runs, "--format", "md", "--intervals")
    assert "78.0" in does(*runs, "--matrix", "MR")
    assert command(*runs, "--matrix", "MR", "--published")[0] == command(*runs, "--picture", "x.png")[0] == 2
    pytest.importorskip("matplotlib")
    for name, start in (("heat.png", b"\x89PNG"), ("heat.svg", b"<?xml"), ("again.svg", b"<?xml")):
        does(*runs, "--matrix", "MR", "--picture", name)
        assert (tmp_path / name).read_bytes().startswith(start)
    # The same picture in every run.
    assert (tmp_path / "heat.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def scored_task(data="a", version="0.1", **scores):
    return {"scores": scores, "data": {"file": data}, "versions": {"structviews": version}, "partial": {}}


def test_scores_of_equal_signatures_can_be_compared():
    base = {"tasks": {"MR": scored_task(accuracy=70.0)}, "protocol": {"name": "senteval"}, "representation": "mean, l2"}
    line = signature(base, ["MR"])
    assert line.startswith("MR|data:")
    assert line.endswith("|protocol:senteval|scores:accuracy|precision:fp32|vectors:mean, l2|structviews:0.1")
    assert signature({**base, "tasks": {"MR": scored_task(accuracy=1.0)}}, ["MR"]) == line
    others = [
        {**base, "tasks": {"MR": scored_task(data="b", accuracy=70.0)}},
        {**base, "tasks": {"MR": scored_task(version="0.2", accuracy=70.0)}},
        {**base, "protocol": {"name": "kiros"}},
        {**base, "representation": "mean, l2, bf16"},
        {**base, "representation": "mean"},
    ]
    assert len({line, *(signature(other, ["MR"]) for other in others)}) == 6
    assert "|precision:bf16|vectors:mean, l2|" in signature(others[3], ["MR"])
    both = {**base, "tasks": {"MR": scored_task(accuracy=1.0), "SICK-R": scored_task(pearson=0.5, spearman=0.4)}}
    assert signature(both, ["MR", "SICK-R"]).startswith("2 tasks|data:")
    assert "|scores:accuracy, pearson|" in signature(both, ["MR", "SICK-R"])


def test_every_table_and_entry_has_a_signature(run, folder, encode, tmp_path):
    runs = [shutil.copytree(run, tmp_path / name) for name in ("x", "y", "z")]
    for each, protocol in zip(runs, ("senteval", "senteval", "simcse"), strict=True):
        save_results(each, evaluate(encode, ["STS12", "STS-B"], folder, protocol=protocol, allow_partial=True))
    for task, found in load_results(runs[0])["tasks"].items():
        assert found["signature"] == signature(load_results(runs[0]), [task])
    lines = [line for line in score_table(runs).legend if line.startswith("signature of")]
    assert [line.partition(":")[0] for line in lines] == ["signature of x, y", "signature of z"]
    assert "|scores:pearson, pearson mean|" in lines[0]
    assert "protocol:simcse|scores:spearman all|" in lines[1]
