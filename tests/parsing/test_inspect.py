import os
import subprocess
import sys

import pytest
from chain_parser import chain
from nltk.tree import Tree

from structviews.cache import Row, Skipped, new_job, write_manifest, write_shard
from structviews.parsing.drawing import draw_arcs, draw_constituents
from structviews.sentence import ParsedSentence

SENTENCE = ParsedSentence(
    tokens=("A", "black", "bird", "sings", "."),
    tags=("DT", "JJ", "NN", "VBZ", "."),
    heads=(3, 3, 4, 0, 4),
    relations=("det", "amod", "nsubj", "root", "punct"),
    left=(0, 5, 6, 7),
    right=(1, 2, 3, 4),
    labels=("", "", "", "VP", "", "", "NP", "", "S"),
)


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "x.parsed"
    folder.mkdir()
    write_shard(folder, 0, [Row(0, 0, 1, SENTENCE), Row(0, 2, 3, chain(["No", "."]))], [Skipped(0, 1, 2, "odd [x]")])
    write_manifest(folder, 1, new_job(parser={"name": "chain", "version": "1"}, tokeniser={"name": "none"}))
    return folder


def structviews(*arguments, folder):
    done = subprocess.run(
        [sys.executable, "-m", "structviews", *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_overview(corpus, tmp_path):
    code, output, _ = structviews("inspect", "x.parsed", folder=tmp_path)
    assert code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    assert ["tokens", "2", "4", "3.5", "5", "5"] in rows
    assert ["dependency depth", "1", "2", "1.5", "2", "2"] in rows
    assert ["binary constituency depth", "1", "2", "2.5", "4", "4"] in rows
    flat = [cell for row in rows for cell in row]
    assert flat[flat.index("nsubj") + 1] == "1"
    assert flat[flat.index("root") + 1] == "2"
    assert ["odd [x]", "1"] in rows
    assert "2 sentences, 7 tokens, 1 documents, 1 skipped" in output


def test_both_trees_of_a_sentence(corpus, tmp_path):
    code, output, _ = structviews("inspect", "x.parsed", "--sentence", "0", folder=tmp_path)
    assert code == 0
    assert output == EXPECTED


EXPECTED = """\
document 0, position 0, line 1

A black bird sings .

           S
      ┌────┴─────┬────┐
      NP         VP   │
 ┌────┼────┐     │    │
 DT   JJ   NN   VBZ   .
 │    │    │     │    │
 A  black bird sings  .

┌─────► A      DT   det
│   ┌─► black  JJ   amod
└─┬─┴─► bird   NN   nsubj
  └─┬── sings  VBZ  root
    └─► .      .    punct
"""


def test_arcs():
    # 1 <- 2 -> 4 and 4 -> 3: the short arc lies inside the long one.
    assert draw_arcs([2, 0, 4, 2]) == [
        "  ┌─►",
        "┌─┴──",
        "│ ┌─►",
        "└─┴─►",
    ]
    assert draw_arcs([0]) == [" "]


def test_crossing_arcs_are_both_drawn():
    # 1 -> 3 and 4 -> 2.
    assert draw_arcs([0, 4, 1, 1]) == [
        "┌─┬────",
        "│ │ ┌─►",
        "│ └─┼─►",
        "└───┴─►",
    ]


def test_a_wide_tree_lies_on_its_side():
    tree = Tree.fromstring("(S (NP (DT A) (NN bird)) (VP (VBZ sings)) (. .))")
    assert "sings" in draw_constituents(tree, 80).splitlines()[-1]
    assert draw_constituents(tree, 10).splitlines() == [
        "S",
        "├─ NP",
        "│  ├─ DT A",
        "│  └─ NN bird",
        "├─ VP VBZ sings",
        "└─ . .",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "x.parsed", "--sentence", "2"), "x.parsed has no sentence 2: it has 2, numbered from 0"),
        (("inspect", "y.parsed"), "y.parsed does not exist: make a parsed corpus with `structviews parse`"),
        (("parse", "none.txt"), "none.txt does not exist: give the path of a text"),
        (("parse", "[/odd] name.txt"), "[/odd] name.txt does not exist"),
        (("parse", "empty.txt"), "empty.txt is empty: give a text with sentences"),
        (("parse", "latin.txt"), "latin.txt:1: not UTF-8 at byte 3 of the text (0xe9)"),
        (("parse", "a.txt", "--parser", "nope"), "no parser 'nope': choose one of builtin"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(corpus, tmp_path, arguments, message):
    (tmp_path / "a.txt").write_text("A sentence.\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes("café".encode("latin1"))
    before = sorted(tmp_path.iterdir())
    code, output, errors = structviews(*arguments, folder=tmp_path)
    assert (code, output) == (2, "")
    assert errors.startswith(f"error: {message}")
    assert len(errors.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["parse", "inspect"])
def test_help_has_an_example(command, tmp_path):
    code, output, _ = structviews(command, "--help", folder=tmp_path)
    assert code == 0
    assert f"Example: structviews {command}" in output
