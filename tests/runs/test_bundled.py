"""The models that come with the package: small ones in their place, and the real ones where they are."""

import shutil
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import small_config, tiny_corpus, vectors_of
from packed_runs import pack
from safetensors.torch import load_file

from structviews.adapters.sklearn import SentenceVectorizer
from structviews.encoding.embedder import Embedder
from structviews.evaluation.scores.results import load_results, save_results
from structviews.runs import bundled
from structviews.runs.weights import fixed_vectors, write_weights
from structviews.training.loop import train
from structviews.words.vector_files import WordVectors

ROOT = Path(__file__).parents[2]
TEXTS = ["A bird sings.", "The oven is hot.", "It sat on the dead tree."]
TASK = {"scores": {"accuracy": 75.0}, "partial": {}, "dim": 16}
READ_ONLY = "{0}: bundled models are read-only: use a copy, which `structviews pull {0} -o runs/{0}` makes"
BUNDLED = ("default", "default-small")
MOST_BYTES = dict(zip(BUNDLED, (60e6, 12e6), strict=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus, word vectors, a run with them, and a folder of models as the package's, with the run packed twice."""
    place = tmp_path_factory.mktemp("place")
    corpus = tiny_corpus(place / "x.parsed")
    vectors = vectors_of(corpus, place / "v.vec")
    settings = {"views": ("seq", "avg"), "channels": ("fixed",), "vectors": str(vectors), "epochs": 1}
    run = train(small_config(corpus, place / "run", **settings))
    folders = [place / "models" / name for name in BUNDLED]
    for folder, words in zip(folders, (1000, 20), strict=True):
        pack(run, folder, words)
        (folder / "README.md").write_text(f"the card of {folder.name}")
    results = {"format": 1, "dim": 16, "representation": "vector", "protocol": {"name": "senteval"}}
    for each in (run, *folders):
        save_results(each, results | {"tasks": {"MR": TASK}, "unavailable": {}})
    (place / "sentences.txt").write_text("\n".join(TEXTS) + "\n")
    return place


@pytest.fixture
def models(place, monkeypatch, tmp_path):
    """That folder of models in the place of the package's; nothing may change in it."""
    monkeypatch.setattr(bundled, "MODELS", place / "models")
    monkeypatch.chdir(tmp_path)
    before = contents(bundled.MODELS)
    yield bundled.MODELS
    assert contents(place / "models") == before


def test_one_is_loaded_by_its_name(models, place, tmp_path):
    embedder = Embedder.load("default")
    assert embedder.folder == models / "default"
    assert repr(embedder).startswith("Embedder(run='default', ")
    vectors = embedder.encode(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((3, 16), np.float32)
    assert {weight.dtype for weight in embedder.model.parameters()} == {torch.float32}
    assert load_file(models / "default/model.safetensors")["channels.fixed.words.0.weight"].dtype == torch.int8
    np.testing.assert_array_equal(vectors, Embedder.load(models / "default").encode(TEXTS))
    np.testing.assert_array_equal(SentenceVectorizer("default").fit_transform(TEXTS), vectors)
    shutil.copytree(place / "run", tmp_path / "default")
    for run in ("./default", Path("default")):
        assert Embedder.load(run).folder == Path("default")
        assert repr(Embedder.load(run)).startswith("Embedder(run='./default', ")
    assert Embedder.load("default").folder == models / "default"


def contents(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("folder", "name", "others"),
    [
        ("no", "default", " (this copy of structviews has no bundled model)"),
        ("models", "default-tiny", ", or a bundled model: default, default-small"),
    ],
)
def test_one_line_says_which_there_are(place, command, tmp_path, monkeypatch, folder, name, others):
    monkeypatch.setattr(bundled, "MODELS", place / folder)
    line = f"error: {name}: not a run: no such folder; give a folder that structviews train made{others}\n"
    assert command("encode", name, place / "sentences.txt", "-o", "v.npy") == (2, "", line)
    line = f"error: {name}: not a repository name: give OWNER/NAME{others}\n"
    assert command("pull", name) == (2, "", line)
    assert not list(tmp_path.iterdir())


def test_commands_that_read(models, place, does):
    does("encode", "default", place / "sentences.txt", "-o", "v.npy")
    expected = Embedder.load("default").encode(TEXTS)
    np.testing.assert_allclose(np.load("v.npy"), expected, atol=1e-6)
    rows = ["| default | seq,avg | 16 | 75.0 |", "| run | seq,avg | 16 | 75.0 |"]
    assert does("table", "default", place / "run", "--format", "md").splitlines()[2:4] == rows
    given = ("--views", "seq,avg", "--corpus", place / "x.parsed", "--channels", "fixed", "--vectors", place / "v.vec")
    sizes = ("--hidden", 8, "--word-dim", 6, "--batch-size", 8, "--steps", 1, "--lr", 1e-9, "--held-out", 0.3)
    assert does("train", *given, *sizes, "--init-from", "default") == "runs/seq-avg\n"
    np.testing.assert_allclose(Embedder.load("runs/seq-avg").encode(TEXTS), expected, atol=1e-2)


def test_commands_that_write_refuse_it(models, command):
    for arguments in (
        ["tasks", "retrieval", "runs/x", "default"],
        ["tasks", "captions", "default", "--images", "coco"],
        ["tasks", "analogies", "default", "--tuples", "t.tsv", "--pool", "s.txt"],
        ["runs", "expand", "default", "--vectors", "v.vec"],
        ["train", "--resume", "default", "--epochs", "2"],
    ):
        assert command(*arguments) == (2, "", f"error: {READ_ONLY.format('default')}\n")


def test_words_of_a_run_go_to_a_file(models, place, command):
    """Of a packed run, what its 8 bits say; a file that another run is trained on."""
    assert command("runs", "words", place / "run", "-o", "own.bin")[0] == 0
    status, said, _ = command("runs", "words", "default", "-o", "packed.vec")
    own, packed = WordVectors.open("own.bin"), WordVectors.open("packed.vec")
    assert (status, said.splitlines()[0]) == (0, f"packed.vec: {len(own)} words, {own.dim} dimensions")
    original = WordVectors.open(place / "v.vec")
    for file, error in ((own, 0), (packed, np.abs(own.rows(np.arange(len(own)))).max() / 127)):
        rows = original.rows(original.find(file.words.to_pylist()))
        np.testing.assert_allclose(file.rows(np.arange(len(file))), rows, atol=error)
    assert fixed_vectors(models / "default-small")[0] == fixed_vectors(place / "run")[0][:20]


def test_eval_scores_a_copy(models, command, tmp_path):
    scoring = ("eval", "default", "--senteval", ROOT / "data/senteval", "--tasks", "TREC", "--partial")
    status, table, said = command(*scoring)
    assert (status, "default is read-only: its scores go to a copy, runs/default\n" in said) == (0, True), said
    assert "TREC" in load_results(tmp_path / "runs/default")["tasks"]
    status, again, said = command(*scoring)
    assert (status, again, "copy" in said) == (0, table, False)
    write_weights(tmp_path / "runs/default", {"other": torch.zeros(1)})
    refusal = "runs/default: not a copy of the bundled model default: rename it, or score it as ./runs/default"
    assert command(*scoring) == (2, "", f"error: {refusal}\n")


def test_a_copy_is_a_run_like_any_other(models, command, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert command("pull", "default") == (0, "runs/default\n", "")
    copy = tmp_path / "runs/default"
    assert {path.name for path in copy.iterdir()} == {path.name for path in (models / "default").iterdir()}
    assert (copy / "README.md").read_text() == "the card of default"
    np.testing.assert_array_equal(Embedder.load(copy).encode(TEXTS), Embedder.load("default").encode(TEXTS))
    again = "error: runs/default: already exists: give another folder with --out\n"
    assert command("pull", "default") == (2, "", again)


@pytest.mark.parametrize("name", bundled.bundled_names())
def test_the_shipped_models_are_small_and_whole(name):
    """The real ones; without a warning, such as one that another parser is built in than made their trees."""
    warnings.simplefilter("error")
    embedder = Embedder.load(name)
    vectors = embedder.encode(["A black bird is sitting on a dead tree.", "Nobody knows why.", "zxqv"])
    assert vectors.shape == (3, embedder.dim)
    assert np.isfinite(vectors).all()
    assert np.linalg.norm(vectors[0] - vectors[1]) > 0.1
    folder = bundled.MODELS / name
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MOST_BYTES[name]
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packaged = {path for pattern in patterns["structviews"] for path in bundled.MODELS.parent.glob(pattern)}
    assert set(folder.iterdir()) <= packaged
    assert (folder / "README.md").read_text().startswith("---\n")
    assert load_results(folder)["tasks"]
