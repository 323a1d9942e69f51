import sys

import numpy as np
import pytest
from scripts_for_tests import load

from structviews.words.vector_files import WordVectors

FIRST = "On May 3, 1887, the bird sat.\n\nA worm sat, too.\n"
SECOND = "The Bird sat on a worm.\n"


@pytest.fixture
def script(monkeypatch):
    pytest.importorskip("gensim")
    return load("parser_words", monkeypatch)


@pytest.fixture
def texts(tmp_path):
    for name, text in (("a.txt", FIRST), ("b.txt", SECOND)):
        (tmp_path / name).write_text(text)
    return [tmp_path / "a.txt", tmp_path / "b.txt"]


def test_forms_are_those_that_the_parser_looks_up(script, texts, tmp_path):
    with (tmp_path / "forms.txt").open("w") as file:
        assert script.write_forms(texts, file) == 3
    lines = (tmp_path / "forms.txt").read_text().splitlines()
    assert lines == ["on may 0 , 0000 , the bird sat .", "a worm sat , too .", "the bird sat on a worm ."]


def test_the_same_vectors_come_out_again(script, texts, tmp_path, monkeypatch, capsys):
    found = []
    for name in ("one.vec", "two.vec"):
        command = ["parser_words.py", *texts, "-o", tmp_path / name, "--dim", 8, "--min-count", 2]
        monkeypatch.setattr(sys, "argv", [*map(str, command)])
        script.main()
        assert "3 sentences" in capsys.readouterr().out
        vectors = WordVectors.open(tmp_path / name)
        found.append(vectors.rows(vectors.find(["bird", "sat", "worm"])))
        assert set(vectors.words.to_pylist()) == {",", ".", "a", "bird", "on", "sat", "the", "worm"}
    assert found[0].shape == (3, 8)
    assert np.array_equal(*found)
    assert sorted(file.name for file in tmp_path.glob("tmp*")) == []
