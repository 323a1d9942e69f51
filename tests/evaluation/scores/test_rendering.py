"""Intervals, marks and published rows in the table; LaTeX, HTML and the matrix of views."""

import io
import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from test_tables import make_run, seeded
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.errors import InputError
from structviews.evaluation.scores import heatmap
from structviews.evaluation.scores.rendering import as_latex, as_markdown, as_rich, html_table
from structviews.evaluation.scores.tables import BEST, TIE, score_table
from structviews.runtime.documents import write_json


def scored(root, name, views, **scores):
    """A run with accuracies, or Pearson correlations below 1, and intervals of one point to each side."""
    tasks = {}
    for task, value in scores.items():
        score, width = ("pearson", 0.01) if value < 1 else ("accuracy", 1.0)
        tasks[task] = {"scores": {score: value}, "intervals": {score: [value - width, value + width]}}
    return make_run(root, name, views, tasks)


@pytest.fixture
def runs(tmp_path):
    return [
        scored(tmp_path, "a_1", ["seq", "seq"], MR=78.04, TREC=91.0),
        scored(tmp_path, "b", ["dep", "seq"], MR=79.5, TREC=90.1),
        scored(tmp_path, "c", ["dep", "const"], MR=80.0),
    ]


def marks(table):
    return [[[figure.mark for figure in cell.figures] for cell in row.cells] for row in table.runs]


def test_the_best_and_those_within_its_interval_are_marked_but_no_score_on_part_of_a_task(runs, tmp_path):
    part = {"MR": {"scores": {"accuracy": 99.0}, "partial": {"MR/x": "9 of 10"}}}
    runs.append(make_run(tmp_path, "d", ["avg", "avg"], part))
    assert marks(score_table(runs)) == [[[""], [BEST]], [[TIE], [TIE]], [[BEST], []], [[""], []]]
    # Both numbers of MRPC by themselves; without intervals none ties.
    table = score_table([*seeded(tmp_path / "x", [(72.0, 80.0)]), *seeded(tmp_path / "y", [(71.9, 82.0)], hidden=9)])
    assert marks(table) == [[[BEST, ""]], [["", BEST]]]


def test_intervals_on_request_and_of_several_runs_their_mean(runs, tmp_path):
    table = score_table(runs, intervals=True)
    assert table.rows[0][3:] == ["78.0 [77.0, 79.0]", "91.0 [90.0, 92.0]"]
    assert table.rows[2][4] == "-"
    assert any("bootstrap" in note for note in table.legend)
    several = seeded(tmp_path / "sweep", [(70.0, 80.0), (72.0, 80.0)])
    for run, ends in zip(several, ([68.0, 71.5], [70.0, 74.5]), strict=True):
        results = json.loads((run / "results.json").read_text())
        results["tasks"]["MRPC"]["intervals"] = {"accuracy": ends, "f1": [78.0, 82.0]}
        write_json(run / "results.json", results)
    text = "71.0 ± 1.4 [69.0, 73.0]/80.0 ± 0.0 [78.0, 82.0]"
    assert score_table(several, intervals=True).rows[0][4] == text


def test_published_rows_stand_apart_in_every_format(runs):
    table = score_table(runs, published=True)
    own = ["dep,const" in row for row in table.rows]
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
    table = score_table(runs)
    assert not table.published
    named = replace(table, runs=[replace(table.runs[0], labels=("a|b](x)", *table.runs[0].labels[1:]))], notes=["`a`"])
    lines = as_markdown(named).split("\n")
    assert lines[2].startswith("| a\\|b\\](x) | ")
    assert lines[-2] == "- \\`a\\`"


def test_latex_has_equal_rows_escapes_names_and_marks_scores(runs, tmp_path):
    latex = as_latex(score_table(runs))
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


def test_html_names_are_text_and_scores_have_marks_and_intervals(runs, tmp_path):
    odd = scored(tmp_path, "a&b<i>", ["seq"], MR=70.0)
    html = html_table(score_table([*runs, odd], intervals=True), range(2))
    ElementTree.fromstring(html)  # what is opened is closed
    assert html.count("<td") == 4 * 4
    assert html.count("<th scope='row'") == 4
    assert "<td title='95 % interval [79.0, 81.0]'><b>80.0</b><small>[79.0, 81.0]</small></td>" in html
    assert "<u>79.5</u>" in html
    assert "a&amp;b&lt;i&gt;" in html


def test_a_matrix_has_each_pair_on_both_sides_and_holes_where_there_is_none(runs, tmp_path):
    matrix = heatmap.view_matrix(runs, "MR")
    assert matrix.views == ["const", "dep", "seq"]
    expected = [[np.nan, 80.0, np.nan], [80.0, np.nan, 79.5], [np.nan, 79.5, 78.04]]
    np.testing.assert_array_equal(matrix.values, expected)
    assert matrix.texts == [["-", "80.0", "-"], ["80.0", "-", "79.5"], ["-", "79.5", "78.0"]]
    matrix = heatmap.view_matrix(runs, "TREC")
    assert (matrix.views, matrix.interval) == (["dep", "seq"], 2)
    assert "not in the matrix (not two views, or no score): c" in matrix.notes
    again = scored(tmp_path / "other", "b2", ["seq", "dep"], MR=70.0)
    for given, task, message in (
        (runs, "CR", "--matrix CR: no run has a score for it; scored tasks: MR, TREC"),
        ([*runs, again], "MR", "b and b2 have the same views seq, dep; give one of them"),
        ([scored(tmp_path, "one", ["seq"], MR=1.5)], "MR", "no run with two views has a score"),
    ):
        with pytest.raises(InputError, match=message):
            heatmap.view_matrix(given, task)


def test_a_colour_scale_spans_ten_points_and_two_intervals_and_ends_at_a_hundred():
    for interval, scores, ends in (
        (2, [70.0, 71.0], (65.5, 75.5)),
        (8, [70.0, 71.0], (62.5, 78.5)),
        (8, [40.0, 71.0, 50.0], (40.0, 71.0)),
        (2, [99.0, 98.0], (90.0, 100.0)),
    ):
        assert heatmap.Matrix("MR", [], np.array([*scores, np.nan]), [], interval, []).scale == ends


def test_the_flags_of_the_table_command(runs):
    def run(*flags):
        return CliRunner().invoke(app, ["table", *map(str, runs), *flags])

    assert "\\toprule" in run("--format", "latex").output
    assert "[79.0, 81.0]" in run("--format", "md", "--intervals").output
    shown = run("--matrix", "MR")
    assert (shown.exit_code, "78.0" in shown.output) == (0, True)
    assert isinstance(run("--matrix", "MR", "--published").exception, InputError)
    assert isinstance(run("--picture", "x.png").exception, InputError)


def test_pictures_are_the_same_in_every_run(runs, tmp_path):
    pytest.importorskip("matplotlib")
    for name, start in (("heat.png", b"\x89PNG"), ("heat.svg", b"<?xml"), ("again.svg", b"<?xml")):
        command = ["table", *map(str, runs), "--matrix", "MR", "--picture", str(tmp_path / name)]
        assert CliRunner().invoke(app, command).exit_code == 0
        assert (tmp_path / name).read_bytes().startswith(start)
    assert (tmp_path / "heat.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
