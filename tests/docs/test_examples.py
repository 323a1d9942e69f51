"""The programs of examples/ are run as a newcomer runs them, from another folder, and print what they promise."""

import ast
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
    # On so little text nothing is learnt, which is said.
    assert "warning" not in ended.stderr.lower().replace("warning: the held-out loss is no better than chance", "")
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
    assert name in (*PROMISES, "train_a_pair", "search")


def without_faiss(folder):
    """A folder of modules in which FAISS is not installed."""
    (folder / "modules").mkdir()
    (folder / "modules/faiss.py").write_text("raise ImportError\n")
    return folder / "modules"


# What the others promise to print; of accuracies in six classes, where chance is 17 %, at least 40.
ACCURACY = r"(?:[4-9]\d|100)\.\d"
PROMISES = {
    "own_text": (
        r"mine\.parsed: \d+ sentences in 4 documents",
        r"^dep-const & .*\nseq-seq & ",
        r"report\.html, vectors\.npy\n\Z",
    ),
    "own_view": (r"^arcs +cosine 0\.(?!99)\d+ of: The", r"^bow +cosine 1\.000 of: The"),
    "own_objective": (
        r"^spread 0\.0: mean cosine of 1,000 sentences (?:1\.000|0\.[5-9]\d+)$",
        r"^spread 1\.0: mean cosine of 1,000 sentences -?0\.[0-2]\d+$",
    ),
    "fine_tune": (
        rf"accuracy on 12 questions {ACCURACY} %(?s:.*)accuracy on 12 questions {ACCURACY} %",
        r"How many legs does a spider have\? -> number",
    ),
    "probe": (
        r"height of the dependency tree",
        r"(?s:(?:\n  default .*?\n  random .*?\n  most frequent class .*?){4})",
    ),
    "gold_trees": (
        r"83 sentences in 3 documents, 0 skipped",
        r"sample\.conllu: the same, byte for byte\nsample\.ptb: the same, byte for byte\n\Z",
    ),
    "grid_search": (
        rf"(?:\n +{ACCURACY} %  C \S+, pooling (?:vector|mean), view (?:dep-rel|const|None)){{12}}",
        r"accuracy +(?:0\.[5-9]\d|1\.00)",
    ),
    "open_the_page": (
        r"default: a sentence has [\d,]+ dimensions, from the views dep-rel, const",
        r"\n  joined +-?\d\.\d{3}  closer than \d+% of random pairs\n",
        r"\n  He +nsubj +walked\n",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_it_prints_what_it_promises(name, tmp_path):
    for library in {"grid_search": ["sklearn"], "open_the_page": ["fastapi"]}.get(name, []):
        pytest.importorskip(library)
    printed = run(name, tmp_path)
    for promise in PROMISES[name]:
        assert re.search(promise, printed, re.MULTILINE), f"{promise}\n{printed}"


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
