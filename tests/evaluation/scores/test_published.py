"""The papers' figures: their file, and whether the papers print them."""

import re
from pathlib import Path

import pytest

from structviews.evaluation.scores.published import MEANS, SENTEVAL, papers, published
from structviews.evaluation.scores.tables import published_rows
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.downstream import STS_SETS

PAPERS = Path(__file__).resolve().parents[4] / "shared" / "papers"
SCORES = {"classification": ("accuracy", "f1"), "pairs": ("pearson", "spearman", "mse")}
# Lines between a table's caption and its rows.
NEAR = 45
# What has no caption: the appendix that figures stand in, by its first words.
HEADINGS = {("Q", "C"): "C TRAINING EFFICIENCY"}
# LaTeX in the labels of rows, garbled in places.
LATEX = r"\\?(mathbf|text(?={)|b?oldsymbol|b?oxed)"


def printed(paper, model, *tasks):
    """The labels of a model's row, and its cells."""
    row = published_rows(tasks)[paper, model]
    return row.labels, [str(cell) for cell in row.cells]


def test_every_figure_is_a_number_with_its_place_and_a_known_measure():
    scored = {f"{task} {score}" for task in TASKS for kind in SCORES.values() for score in kind}
    of_sets = {f"{year}/{name}" for year, names in STS_SETS.items() for name in (*names, "SMT")}
    aggregates = {f"{year} {kind}" for year in STS_SETS for kind in ("mean", "weighted mean")}
    aggregates |= {each.name for each in MEANS} | {f"{task} spearman all" for task in TASKS}
    assert len(published()) > 1400
    for each in published():
        assert each.paper in papers()
        assert each.table
        assert each.row or (each.paper, each.table) in UNLABELLED
        assert each.model
        if each.measure.startswith(("COCO ", "analogies ", "neighbour ")) or each.measure in ("dim", "hours"):
            assert each.score >= 0, each
            continue
        several = each.measure.removesuffix(" mean").split(", ")
        assert each.measure in scored | of_sets | aggregates or (len(several) > 1 and set(several) <= set(TASKS)), each
        if not each.measure.endswith("mse"):
            assert 4 <= each.score <= 100, each


def test_no_figure_stands_twice():
    places = [(each.paper, each.model, each.corpus, each.measure) for each in published()]
    # Q prints MC-QT in two tables, the second time beside other models.
    assert {place for place in places if places.count(place) > 1} == {
        ("Q", "MC-QT", "BookCorpus+UMBC", f"{task} {score}")
        for task in ("MR", "CR", "SUBJ", "MPQA", "TREC", "MRPC")
        for score in (("accuracy", "f1") if task == "MRPC" else ("accuracy",))
    }


def test_figures_that_the_papers_print():
    name = "DEP, CONST (UMBC 40M)"
    found = printed("S", name, "MR", "TREC", "MRPC", "SICK-R")
    assert found == ((name, "S 1", "4800"), ["80.7", "92.6", "76.8/83.6", "87.0"])
    for paper, model, task, text in (
        ("Q", "MC-QT (BookCorpus)", "SICK-R", "86.8"),  # printed as 0.868
        ("M", "multi-view D1 (BookCorpus)", "SICK-R", "87.9"),  # printed as 87.85
        ("F", "multi-view G1 (BookCorpus)", "STS13", "60.5‡"),
        # The paper's 0.49 is weighted by numbers of pairs; the mean of its six sets is (48+15+53+62+53+48) / 6.
        ("Q", "combine-QT (BookCorpus)", "STS14", "46.5"),
    ):
        assert printed(paper, model, task)[1] == [text]
    # Printed for 2013: 60.1, with the SMT set; (46.3 + 69.9 + 83.4) / 3 without.
    labels, cells = printed("M", "multi-view D1 (BookCorpus)", *STS_SETS)
    assert (labels[1], cells) == ("M S1", ["60.9", "66.5", "71.5", "76.5", "75.8"])
    # Variants of a study stand in no table of all models.
    assert ("C", "skip connection, f") in {(each.paper, each.model) for each in published() if each.study}
    variants = ("skip connection", "single-view", "generative")
    assert not any(model.startswith(variants) for _, model in published_rows(list(TASKS)))


def letters(text: str) -> str:
    return re.sub("[^a-z0-9]", "", re.sub(rf"</?\w+>|{LATEX}", "", text).lower())


def test_means_are_those_that_are_printed_of_the_same_rows():
    """T prints the means of S's rows, to one decimal, and its own figures stand in what we know of it."""
    rows = published_rows(list(SENTEVAL.parts), [SENTEVAL])
    means = {(paper, name): str(row.cells[-1]) for (paper, name), row in rows.items() if paper in "ST"}
    for pair in ("DEP, CONST", "DEP, SEQ", "SEQ, CONST"):
        assert means["S", f"{pair} (UMBC 40M)"] == means["T", f"{pair} (UMBC 40M)"]
    assert means["S", "InferSent"] == "-"  # which lacks scores
    notes = PAPERS.parent / "METHODS.md"
    if notes.is_file():
        printed = set(re.findall(r"\d\d\.\d", notes.read_text("utf-8").partition("## Later sources")[2]))
        assert {each.text for each in published() if each.paper == "T" and each.measure != "dim"} <= printed


@pytest.mark.parametrize("paper", [key for key, paper in papers().items() if paper["text"]])
def test_the_paper_prints_every_figure_in_that_row_of_that_table(paper):
    text = PAPERS / papers()[paper]["text"]
    if not text.is_file():
        pytest.skip(f"needs the papers' texts in {PAPERS}")
    lines = text.read_text(encoding="utf-8").splitlines()
    printed: dict[tuple[str, ...], list[str]] = {}
    for each in published():
        if each.paper == paper:
            # A row of the file: of one model, or where the columns are models of one measure.
            side = each.measure if each.table in COLUMNS_ARE_MODELS[paper] else f"{each.model}; {each.corpus}"
            printed.setdefault((each.table, each.row, side), []).append(each.text)
    for (table, row, _), figures in printed.items():
        # The supplement has tables of its own, the last of the text.
        heading = HEADINGS.get((paper, table), rf"Table {table.removeprefix('S')}[.:]")
        captions = [i for i, line in enumerate(lines) if re.search(heading, line)]
        caption = captions[-1] if table.startswith("S") else captions[0]
        near = lines[max(0, caption - NEAR) : caption + NEAR]
        labelled = [line for line in near if letters(line).startswith(letters(row))]
        if (paper, table) == ("S", "2"):  # a row stands below each of its three queries
            labelled = [" ".join(line for line in labelled if line.startswith(f"{row}\t"))]
        assert any(in_order(figures, line) for line in labelled), (table, row)


UNLABELLED = {("F", "6"), ("Q", "C")}
COLUMNS_ARE_MODELS = {"S": (), "Q": ("C",), "M": ("S1", "3"), "F": ("3",), "C": ("4",)}


def in_order(figures: list[str], line: str) -> bool:
    """Whether a line has these numbers, with others between them at most."""
    numbers = iter(re.findall(r"\d+(?:\.\d+)?", line))
    return all(figure in numbers for figure in figures)
