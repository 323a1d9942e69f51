import io
import sys

import numpy as np
import pytest
from scripts_for_tests import load

from structviews.words.vector_files import WordVectors


@pytest.fixture
def script(monkeypatch):
    pytest.importorskip("gensim")
    return load("parser_words", monkeypatch)


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "a.txt").write_text("On May 3, 1887, the bird sat.\n\nA worm sat, too.\n")
    (tmp_path / "b.txt").write_text("The Bird sat on a worm.\n")
    return [tmp_path / "a.txt", tmp_path / "b.txt"]


def test_forms_are_those_that_the_parser_looks_up(script, texts):
    file = io.StringIO()
    assert script.write_forms(texts, file) == 3
    lines = file.getvalue().splitlines()
    assert lines == ["on may 0 , 0000 , the bird sat .", "a worm sat , too .", "the bird sat on a worm ."]


def test_the_same_vectors_come_out_again(script, texts, tmp_path, monkeypatch):
    found = []
    for name in ("one.vec", "two.vec"):
        command = ["parser_words.py", *texts, "-o", tmp_path / name, "--dim", 8, "--min-count", 2]
        monkeypatch.setattr(sys, "argv", [*map(str, command)])
        script.main()
        vectors = WordVectors.open(tmp_path / name)
        found.append(vectors.rows(vectors.find(["bird", "sat", "worm"])))
        assert set(vectors.words.to_pylist()) == {",", ".", "a", "bird", "on", "sat", "the", "worm"}
    assert found[0].shape == (3, 8)
    assert np.array_equal(*found)
