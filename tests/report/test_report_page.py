"""The report: its parts, its numbers, what is missing, and bad input."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from corpora import load_random
from report_pages import read_page
from safetensors.numpy import load_file

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import plain_text
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.scores.results import save_results
from structviews.parsing.backends import PARSERS
from structviews.report import page as report
from structviews.report.page import write_report
from structviews.runs.settings_file import read_settings, write_settings
from structviews.runtime.seals import write_arrays

SECTIONS = ["scores", "curves", "pairs", "projection", "neighbours", "trees", "published", "settings"]


@pytest.fixture
def root(page):
    return read_page(page)


def section(root, name):
    (found,) = root.all("section", id=name)
    return found


def missing(part):
    return [each.text for each in part.all("p", of="missing")]


def test_all_sections_are_there_and_linked_and_the_page_needs_nothing_else(root, page):
    assert [each.attributes["id"] for each in root.all("section")] == SECTIONS
    assert [each.attributes["href"] for each in root.all("a")] == [f"#{name}" for name in SECTIONS]
    assert missing(root) == []
    text = page.read_text("utf-8")
    places = re.findall(r"""(?:src|href)=["']([^"']*)""", text) + re.findall(r"url\(([^)]*)\)|@import", text)
    assert places
    assert all(place.startswith(("#", "data:")) for place in places)
    assert "default-src 'none'" in text
    assert len(text) < 400_000


def test_tables_and_heat_maps_have_the_numbers_and_intervals_of_the_results(root, trained):
    header, *rows = section(root, "scores").all("table")[0].rows()
    assert header == ["run", "views", "dim", "MR", "STS14"]
    for row, run in zip(rows, trained[1], strict=True):
        tasks = json.loads((run / "results.json").read_text())["tasks"]
        cells = []
        for task, score, factor in (("MR", "accuracy", 1), ("STS14", "pearson mean", 100)):
            value, ends = tasks[task]["scores"][score], tasks[task]["intervals"][score]
            cells.append(f"{factor * value:.1f} [{factor * ends[0]:.1f}, {factor * ends[1]:.1f}]")
        assert (row[0], row[3:]) == (run.name, cells)
    first, second = section(root, "pairs").all("figure", of="matrix")
    assert first.text.split().count("71.2") == first.text.split().count("68.5") == 2
    assert second.text.split().count("62.6") == 2


def test_published_rows_and_long_notes_are_folded_away(root):
    (how,), (folded,) = section(root, "scores").all("details"), section(root, "published").all("details")
    assert "open" not in {*how.attributes, *folded.attributes}
    assert "95 % bootstrap interval" in how.text
    (table,) = folded.all("table")
    assert table.rows()[0] == ["model", "paper, table", "dim", "MR", "STS14"]
    assert ["DEP, CONST (UMBC 40M)", "S 1", "4800", "80.7", "-"] in table.rows()


def test_curves_are_named_and_drawn(root, trained):
    part = section(root, "curves")
    titles = [svg.attributes["aria-label"] for svg in part.all("svg") if "aria-label" in svg.attributes]
    assert titles == ["Loss by step", "Context accuracy by step", "Sentences per second by step"]
    assert [each.text for each in part.all("button")] == [run.name for run in trained[1]]


def test_the_projections_show_each_sentence_of_the_corpus(root, trained):
    data = json.loads(root.all("script", id="points")[0].text)
    texts = list(dict.fromkeys(" ".join(row.sentence.tokens) for row in ParsedCorpus.open(trained[0])))
    assert data["texts"] == texts
    assert sorted(data["order"]) == list(range(len(texts)))
    clouds = root.all("figure", of="cloud")
    assert [sum(len(group.all("use")) for group in each.all("g", of="points")) for each in clouds] == [len(texts)] * 2
    assert [label.text for label in section(root, "projection").all("button")] == ["● kind 0", "● kind 1", "● kind 2"]


def test_neighbours_are_those_of_the_cosine(root, trained):
    part = section(root, "neighbours")
    sentences = {plain_text(row.sentence.tokens): row.sentence for row in ParsedCorpus.open(trained[0])}
    texts = list(sentences)
    queries, tables = [each.text for each in part.all("h3")], part.all("table")
    assert len(queries) == len(tables) == 3
    for column, run in enumerate(trained[1]):
        vectors = Embedder.load(run).encode(list(sentences.values()))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for query, table in zip(queries, tables, strict=True):
            header, *rows = table.rows()
            assert header == [run.name for run in trained[1]]
            cosines = vectors @ vectors[texts.index(query)]
            cosines[texts.index(query)] = -np.inf
            for row, best in zip(rows, np.sort(cosines)[::-1][:3], strict=True):
                number, text = row[column].split(" ", 1)
                assert float(number) == pytest.approx(best, abs=6e-4)
                assert cosines[texts.index(text)] == pytest.approx(best, abs=1e-3)


def test_arcs_bear_the_weights_of_the_attentive_view(root, trained):
    part = section(root, "trees")
    assert {each.text for each in part.all("figcaption") if each.text} == {"dep-const: attention of dep"}
    sentences = {plain_text(row.sentence.tokens): row.sentence for row in ParsedCorpus.open(trained[0])}
    trees = [each for each in part.all("figure", of="tree") if each.all("path", of="arc")]
    for heading, tree in zip(part.all("h3"), trees, strict=True):
        (weights,) = Embedder.load(trained[1][0]).attention([sentences[heading.text]])["dep"]
        expected = [f"dep {weight:.2f}" for weight in weights if not np.isnan(weight)]  # the root has none
        assert [each.text for each in tree.all("text", of="relation")] == expected


def test_settings_that_differ_stand_before_those_in_common(root, trained):
    different, common = ({row[0]: row[1:] for row in each.rows()} for each in section(root, "settings").all("table"))
    assert different[""] == [run.name for run in trained[1]]
    assert different["views.names"] == ["dep, const", "seq, avg"]
    for name, value in (("views.hidden", "8"), ("scored with x", "1.5"), ("parser.name", "random")):
        assert common[name][0] == value
        assert name not in different


def test_the_same_runs_give_the_same_bytes_and_queries_are_taken(trained, tmp_path, monkeypatch, command):
    monkeypatch.setitem(PARSERS._known, "random", load_random)
    queries, out = tmp_path / "queries.txt", tmp_path / "report.html"
    queries.write_text('the topic0-1 of it\n"><i> it </i> .\n')
    flags = ("--query", queries, "--query", "of the", "--tokenised", "--corpus", trained[0], "-o", out)
    assert command("report", *trained[1], *flags)[:2] == (0, f"{out}\n")
    first, root = out.read_bytes(), read_page(out)
    headings = [each.text for each in section(root, "neighbours").all("h3")]
    assert headings == ["the topic0-1 of it", '"><i> it </i> .', "of the"]
    assert not root.all("i")
    command("report", *trained[1], *flags)
    assert out.read_bytes() == first


def test_what_is_missing_says_which_command_makes_it(trained, tmp_path):
    bare = Path(shutil.copytree(trained[1][1], tmp_path / "bare"))
    for name in ("results.json", "log.jsonl"):
        (bare / name).unlink()
    settings = (bare / "config.toml").read_text()
    (bare / "config.toml").write_text(settings.replace(str(trained[0]), "gone.parsed"))
    write_report([bare], tmp_path / "x.html")
    root = read_page(tmp_path / "x.html")
    no_corpus = "the corpus gone.parsed does not exist: give one with --corpus"
    for name, message in {
        "scores": f"bare: this model has not been evaluated; run: structviews eval {bare} --senteval DIR",
        "curves": f"bare: no training log; create one with structviews train --resume {bare}",
        **dict.fromkeys(("projection", "neighbours", "trees"), no_corpus),
    }.items():
        assert missing(section(root, name)) == [message]
    assert missing(section(root, "settings")) == []


def test_bad_input_is_one_line(trained, tmp_path, command):
    runs = trained[1]
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(runs[0] / "config.toml", empty)
    for arguments, message in [
        ((empty,), "empty: nothing to report: no scores, log or weights: finish training first"),
        ((*runs, "-o", "no/x.html"), "the folder no does not exist"),
        ((*runs, "-o", "x.pdf"), "x.pdf: pages must end in .html, .htm"),
        ((*runs, "--labels", "gone.txt"), "gone.txt: No such file or directory"),
    ]:
        code, _, errors = command("report", *arguments)
        assert (code, message in errors.splitlines()[-1]) == (2, True), errors
    assert not list(tmp_path.glob("*.html"))


def test_a_page_that_cannot_be_written_leaves_the_earlier_one(trained, tmp_path, monkeypatch):
    out = tmp_path / "x.html"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "jinja2", None)
        with pytest.raises(InputError, match=r"a report needs jinja2: pip install 'structviews\[report\]'"):
            write_report(trained[1], out)
    out.write_text("an earlier page")
    monkeypatch.setattr(report, "settings", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(trained[1], out)
    assert out.read_text() == "an earlier page"
    assert not list(tmp_path.glob(".x.html*"))


def test_what_one_run_lacks_is_told_and_the_others_are_shown(trained, tmp_path, monkeypatch):
    """A parser; a score, and vectors that are finite."""
    monkeypatch.setitem(PARSERS._known, "random", load_random)
    first, second = trained[1]
    foreign, diverged = (shutil.copytree(first, tmp_path / name) for name in ("foreign", "diverged"))
    settings = read_settings(foreign)
    settings["parsed"]["parser"] |= {"name": "gone"}
    write_settings(foreign, settings)
    weights = load_file(diverged / "model.safetensors")
    write_arrays(diverged / "model.safetensors", {name: np.full_like(each, np.nan) for name, each in weights.items()})
    results = json.loads((diverged / "results.json").read_text())
    (diverged / "results.json").unlink()
    del results["tasks"]["STS14"], results["checksum"]
    save_results(diverged, results)
    text = tmp_path / "x.txt"
    text.write_text("one bird\ntwo birds\nno bird\n")
    write_report([second, foreign, diverged], tmp_path / "page.html", corpus=text)
    root = read_page(tmp_path / "page.html")
    no_parser, not_finite = missing(section(root, "neighbours"))
    assert no_parser.startswith("foreign: the run's parser cannot be loaded here")
    assert not_finite == f"diverged: {text}:1: its vector is not finite: train the run with a lower --lr"
    assert len(root.all("figure", of="cloud")) == 1
    assert "diverged: STS14 not evaluated; run: structviews eval" in section(root, "scores").text
