"""Every kind of run: the names that sentence-transformers' users know, saving, pickling."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from corpora import RandomParser
from kinds_of_runs import TEXTS
from vector_files import random_vectors, write_vectors

from structviews import SentenceEncoder
from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import cosines, cosines_of_pairs
from structviews.errors import InputError
from structviews.parsing import specification
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.runs.folder import model_checksum
from structviews.words.vector_files import WordVectors

pytestmark = pytest.mark.filterwarnings("ignore:these sentences were parsed with")
STRINGS = [" ".join(words) for words in TEXTS]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_one_sentence_has_one_vector(embedder):
    vectors = embedder.encode(STRINGS)
    assert vectors.shape == (3, embedder.dim)
    (parsed,) = embedder.prepare(STRINGS[:1])
    for one in (STRINGS[0], np.str_(STRINGS[0]), parsed):
        np.testing.assert_allclose(embedder.encode(one), vectors[0], atol=1e-5)
    assert embedder.encode([TEXTS[0]]).shape == (1, embedder.dim)
    np.testing.assert_array_equal(embedder.encode_query(STRINGS, batch_size=256), vectors)
    np.testing.assert_array_equal(embedder.encode_document(STRINGS), vectors)
    units = embedder.encode(STRINGS, normalize_embeddings=True)
    found = embedder.similarity(vectors, torch.from_numpy(vectors[:2]))
    np.testing.assert_allclose(found, units @ units[:2].T, atol=1e-5)
    tensor = embedder.encode(STRINGS[0], device="cpu", convert_to_tensor=True, normalize_embeddings=True)
    assert tensor.shape == (embedder.dim,)
    assert tensor.norm().item() == pytest.approx(1, abs=1e-5)


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(TypeError, match=r"argument 'max_token': did you mean 'max_tokens'\?"):
        Embedder.load("default", max_token=9)
    embedder = Embedder.load("default")
    with pytest.raises(TypeError, match=r"argument 'normalise': did you mean 'normalize_embeddings'\?"):
        embedder.encode(STRINGS, normalise=True)


def test_a_saved_run_gives_the_same(embedder, tmp_path, monkeypatch):
    vectors, run = embedder.encode(STRINGS), embedder.folder
    (tmp_path / "saved").mkdir()  # an empty folder will do
    (run / ".x.lock").write_text("")  # stays behind, as the state of training does
    embedder.save(tmp_path / "saved")
    (run / ".x.lock").unlink()
    assert files(tmp_path) == ["saved", *(f"saved/{name}" for name in files(run) if not name.startswith("state"))]
    again = Embedder.load(tmp_path / "saved")
    for each in (again, *getattr(again, "members", ())):
        monkeypatch.setitem(each.preparer.parsed.parser, "name", "builtin")
    np.testing.assert_array_equal(again.encode(STRINGS), vectors)
    assert model_checksum(again.folder) == model_checksum(run)
    assert repr(again).partition(", ")[2] == repr(embedder).partition(", ")[2]


@pytest.mark.parametrize("embedder", ["default", "joined"], indirect=True)
def test_a_run_is_saved_whole_or_not_at_all(embedder, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("")
    with pytest.raises(InputError, match="mine: already exists: save to another folder"):
        embedder.save(tmp_path / "mine")
    with pytest.raises(InputError, match="inside the run itself"):
        embedder.save(embedder.folder / "copy")
    for other in (embedder.with_view(embedder.view_names[0]), embedder.with_representation(join="average")):
        with pytest.raises(InputError, match="views can be saved: save the run as it was loaded"):
            other.save(tmp_path / "other")
    embedder.with_limit(max_tokens=7).save(tmp_path / "limited")

    monkeypatch.setattr("shutil.copytree", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        embedder.save(tmp_path / "half")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["limited", "mine"]


def test_cosines_are_those_of_sentence_transformers():
    theirs = pytest.importorskip("sentence_transformers.util", reason="needs structviews[sentence-transformers]")
    a, b = np.random.default_rng(0).normal(size=(2, 4, 3))
    a[1] = 0
    for first, second in ((a, b), (torch.from_numpy(a), b), (list(a), b), (a[0], b), (a[0], b[0]), (a, b[2])):
        np.testing.assert_allclose(cosines(first, second), theirs.cos_sim(first, second), atol=1e-6)
        if np.ndim(a) == np.ndim(b):
            pairs = cosines_of_pairs(first, second)
            np.testing.assert_allclose(pairs, theirs.pairwise_cos_sim(first, second), atol=1e-6)


def test_what_has_no_cosine_is_one_line(one_line):
    for first, second, message in (
        (["a bird"], np.ones((1, 3)), "not vectors: give what encode returns"),
        (np.ones((2, 3)), np.ones((2, 4)), "vectors of 3 and 4 dimensions: give vectors of one run"),
        (np.ones((2, 3)), np.ones((4, 3)), r"vectors of shapes \(2, 3\) and \(4, 3\): give as many of each"),
    ):
        with one_line(message):
            cosines_of_pairs(first, second)


def hashed(value):
    """As datasets names its caches, where it is installed."""
    try:
        from datasets.fingerprint import Hasher
    except ImportError:
        return pickle.dumps(value)
    return Hasher.hash(value)


@pytest.mark.parametrize("embedder", ["trees", "expanded", "average", "joined", "vectors"], indirect=True)
@pytest.mark.parametrize("encode", [Embedder.encode, SentenceEncoder.forward])
def test_it_is_the_same_after_use(embedder, encode):
    """A run, and its encoders as a module."""
    used = embedder if encode is Embedder.encode else SentenceEncoder(embedder, trainable=False)
    before, fresh = hashed(used), pickle.loads(pickle.dumps(used))
    vectors = encode(used, TEXTS)
    assert hashed(used) == before
    for again in (fresh, pickle.loads(pickle.dumps(used)), copy.deepcopy(used)):
        np.testing.assert_array_equal(encode(again, TEXTS), vectors)
    assert hashed(embedder.with_limit(max_tokens=7)) != hashed(embedder)


@pytest.mark.parametrize("make", [BuiltinParser.read, lambda: specification.load("builtin"), RandomParser])
def test_a_parser_that_was_given_goes_along(runs_of_all_kinds, make):
    embedder = Embedder.load(runs_of_all_kinds["trees"], make())
    pickled = [pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)]
    vectors = embedder.encode(TEXTS)
    for again in (*pickled, pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)):
        np.testing.assert_array_equal(again.encode(TEXTS), vectors)


def test_word_vectors_are_opened_again(tmp_path, monkeypatch):
    words = ["a", "b"]
    write_vectors(tmp_path / "v.vec", words, random_vectors(words, 5000))
    monkeypatch.chdir(tmp_path)
    vectors = WordVectors.open("v.vec")
    pickled = pickle.dumps(vectors)
    assert len(pickled) < 500
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(pickled).rows(np.array([1, 0])), vectors.rows(np.array([1, 0])))


def test_importing_the_package_imports_nothing_else():
    code = "import sys; before = set(sys.modules); import structviews; print(*set(sys.modules) - before)"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "structviews" in imported
    assert [name for name in imported if name.startswith(("structviews.", "torch", "numpy"))] == []
