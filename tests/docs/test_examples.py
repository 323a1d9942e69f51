"""The programs of examples/ are run as a newcomer runs them, from another folder, and print what they promise."""

import ast
import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from code_blocks import ROOT

from structviews import Embedder

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
# A line of a hit: its cosine, and the sentence.
HIT = re.compile(r"^  (-?\d\.\d\d)  (\S.*)$", re.MULTILINE)


def run(name, folder, path=None):
    """What an example prints, whose ``--out`` is below ``folder``; ``path`` has modules that come before all others."""
    here, temporary = folder / "here", folder / "temporary"
    for each in (here, temporary):
        each.mkdir(exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    if path:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, EXAMPLES / f"{name}.py", "--out", folder / "out"]
    ended = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "warning" not in ended.stderr.lower()
    # PyTorch makes a temporary folder of its own.
    assert not [*here.iterdir(), *temporary.glob("structviews*")], "it writes elsewhere than below --out"
    return ended.stdout


def hits_of(printed, queries):
    """The cosines and sentences of the hits of each query, three for each, checked."""
    hits = [(float(cosine), sentence) for cosine, sentence in HIT.findall(printed)]
    assert len(hits) == 3 * queries
    for start in range(0, len(hits), 3):
        cosines = [cosine for cosine, _ in hits[start : start + 3]]
        assert cosines == sorted(cosines, reverse=True)
        assert all(-1 <= cosine <= 1 for cosine in cosines)
    return hits


@pytest.mark.parametrize("name", NAMES)
def test_each_explains_itself_is_tested_and_stands_in_the_readme(name):
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 80, f"{name}: too long for a newcomer"
    assert f"({name}.py)" in (EXAMPLES / "README.md").read_text("utf-8")
    assert f"test_{name}" in globals()


def without_faiss(folder):
    """A folder of modules in which FAISS is not installed."""
    (folder / "modules").mkdir()
    (folder / "modules/faiss.py").write_text("raise ImportError\n")
    return folder / "modules"


@pytest.mark.slow
def test_own_text(tmp_path):
    printed = run("own_text", tmp_path)
    assert printed.count("$ structviews ") == 8
    sentences = int(re.search(r"mine\.parsed: (\d+) sentences in 4 documents", printed)[1])
    rows = [line.split(" & ")[0] for line in printed.splitlines() if " & " in line]
    assert rows == ["run", "dep-const", "seq-seq"]
    assert printed.endswith("report.html, vectors.npy\n")
    assert np.load(tmp_path / "out/vectors.npy").shape == (sentences, 2 * 2 * 32)


@pytest.mark.slow
def test_train_a_pair(tmp_path):
    printed = run("train_a_pair", tmp_path, without_faiss(tmp_path))
    found = int(re.search(r"(\d+) sentences parsed", printed)[1])
    assert 500 < found < 1000
    assert "views=['dep', 'const'], dim=128" in printed
    assert f"{found} vectors, searched by similarity" in printed
    queries = ["The old captain looked at the sea.", "Would you like to help us with the project?"]
    hits = hits_of(printed, queries=2)
    saved = Embedder.load(tmp_path / "out/saved")
    assert not (tmp_path / "out/saved/state").exists()
    cosines = saved.similarity(saved.encode(queries), saved.encode([sentence.split() for _, sentence in hits]))
    np.testing.assert_allclose(cosines.numpy()[[0] * 3 + [1] * 3, range(6)], [cosine for cosine, _ in hits], atol=0.02)


@pytest.mark.slow
def test_own_view(tmp_path):
    cosines = dict(re.findall(r"^(\w+) +cosine (\d\.\d{3}) of: The", run("own_view", tmp_path), re.M))
    assert cosines.keys() == {"arcs", "bow"}
    assert float(cosines["arcs"]) < 0.99
    assert float(cosines["bow"]) == 1


@pytest.mark.slow
def test_own_objective(tmp_path):
    row = r"^spread (\d\.\d): mean cosine of 1,000 sentences (-?\d\.\d{3})$"
    means = dict(re.findall(row, run("own_objective", tmp_path), re.M))
    assert means.keys() == {"0.0", "1.0"}
    assert abs(float(means["1.0"])) < 0.3
    assert 0.5 < float(means["0.0"]) <= 1


@pytest.mark.slow
def test_fine_tune(tmp_path):
    printed = run("fine_tune", tmp_path)
    accuracies = re.findall(r"accuracy on 12 questions (\d+\.\d) %", printed)
    assert len(accuracies) == 2
    assert all(40 < float(each) <= 100 for each in accuracies)  # of one in six classes, by chance, 17 %
    assert "How many legs does a spider have? -> number" in printed
    words = [["Where", "is", "it", "?"]]
    before, after = (Embedder.load(each).encode(words) for each in ("default", tmp_path / "out/tuned"))
    assert f"gives vectors of {before.shape[1]} numbers" in printed
    assert not np.allclose(before, after)


@pytest.mark.slow
def test_probe(tmp_path):
    blocks = run("probe", tmp_path).split("\n\n")[1:]
    assert len(blocks) == 4
    for block in blocks:
        row = r"^  (\S.*?) +(\d+\.\d) \[(\d+\.\d), (\d+\.\d)\]$"
        rows = {name: tuple(map(float, values)) for name, *values in re.findall(row, block, re.M)}
        assert rows.keys() == {"default", "random", "most frequent class"}
        assert all(0 <= low <= value <= high <= 100 for value, low, high in rows.values())
        assert rows["default"][0] > rows["most frequent class"][0]


@pytest.mark.slow
def test_gold_trees(tmp_path):
    printed = run("gold_trees", tmp_path)
    assert "83 sentences in 3 documents, 0 skipped" in printed
    answers = re.findall(r"^  (it.*?) +(\d+\.\d) \[.*, most frequent answer (\d+\.\d) \[", printed, re.M)
    assert len(answers) == 3
    assert all(0 < float(value) <= 100 for _, *values in answers for value in values)
    assert printed.endswith("sample.conllu: the same, byte for byte\nsample.ptb: the same, byte for byte\n")


@pytest.mark.slow
def test_search(tmp_path):
    """A second time with the vectors that the first has left, and without FAISS."""
    pytest.importorskip("faiss")
    printed = run("search", tmp_path)
    vectors = np.load(tmp_path / "out/vectors.npy")
    dim = Embedder.load("default").for_similarity().dim
    assert f"{len(vectors)} sentences, {dim} dimensions, searched by FAISS" in printed
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)
    hits = hits_of(printed, queries=3)
    assert "open source" in hits[0][1].lower()
    again = run("search", tmp_path, without_faiss(tmp_path))
    assert "searched by numpy" in again
    assert [sentence for _, sentence in hits_of(again, queries=3)] == [sentence for _, sentence in hits]


@pytest.mark.slow
def test_grid_search(tmp_path):
    pytest.importorskip("sklearn")
    printed = run("grid_search", tmp_path)
    rows = re.findall(r"^ +(\d+\.\d) %  C \S+, pooling (\w+), view (\w+)$", printed, re.M)
    assert {row[1:] for row in rows} == set(itertools.product(("vector", "mean"), ("dep", "const", "None")))
    accuracies = [float(accuracy) for accuracy, *_ in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[-1] > 40  # of one in six classes, by chance, 17 %
    assert float(re.search(r"accuracy +(\d\.\d\d)", printed)[1]) > 0.5
    assert any((tmp_path / "out/memory").rglob("output.pkl"))


@pytest.mark.slow
def test_open_the_page(tmp_path):
    pytest.importorskip("fastapi")
    printed = run("open_the_page", tmp_path)
    model = Embedder.load("default")
    assert f"default: a sentence is {model.dim:,} numbers, by the views {', '.join(model.view_names)}" in printed
    shares = re.findall(r"^  (\w+) +(-?\d\.\d{3})  closer than (\d+)% of random pairs$", printed, re.M)
    assert [view for view, _, _ in shares] == [*model.view_names, "joined"]
    assert all(-1 <= float(cosine) <= 1 and int(share) <= 100 for _, cosine, share in shares)
    hits_of(printed, queries=2)
    assert re.search(r"^  He +nsubj +walked$", printed, re.M)
