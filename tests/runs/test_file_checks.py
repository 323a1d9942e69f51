"""``structviews verify`` finds damage in every file that a later command believes."""

import shutil

import numpy as np
import pytest
from corpora import small_config, topic_corpus, vectors_of
from rich.console import Console

from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.encoding.kinds.joined import join_runs
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
from structviews.evaluation.scores.results import save_entry, save_results
from structviews.runs.file_checks import verify
from structviews.runs.folder import model_checksum
from structviews.training.loop import train


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with everything a run can have, a join of it, and caches."""
    folder = tmp_path_factory.mktemp("made")
    corpus = topic_corpus(folder / "x.parsed")
    vectors = vectors_of(corpus, folder / "v.vec")
    config = small_config(corpus, folder / "run", channels=("fixed", "trained"), vectors=str(vectors), steps=2)
    run = train(config, Console(quiet=True))
    expand(run, vectors)
    tested = {"test": (np.array([1, 0]), np.array([1, 1]))}
    entry = {"scores": {"accuracy": 50.0}, "data": {"x": "0"}, "partial": {}}
    results = {"format": 1, "protocol": {}, "tasks": {"MR": entry}, "unavailable": {}, "representation": "vector"}
    save_results(run, results | {"predictions": {"MR": tested}})
    save_entry(run, {"task": "next", "data": "0", "representation": "vector", "settings": {}, "scores": {}})
    join_runs([run, run], folder / "joined")
    pool_vectors(Pool(corpus), run, Embedder.load(run))
    return folder


@pytest.fixture
def copied(made, tmp_path):
    """A copy, times included: a vector file of another time is converted again."""
    return shutil.copytree(made, tmp_path / "made")


def faults(path):
    return list(verify(path, lambda *_: None))


WHOLES = ["x.parsed", "run", "joined", "x.parsed.vectors", "v.vec"]


@pytest.mark.parametrize("name", WHOLES)
def test_what_was_written_has_no_faults_and_nothing_is_written(copied, name):
    for folder in (copied, *(path for path in copied.rglob("*") if path.is_dir())):
        (folder / f".{name}.lock").touch()  # as of a writer that died
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    assert faults(copied / name) == []
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


def test_every_file_that_is_believed_is_found_damaged(copied):
    believed = 0
    for name in WHOLES:
        folder = copied / name
        files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else [copied / "v.vec.arrow"]
        for path in files:
            if path.name in ("config.toml", "log.jsonl") or path.name.startswith("."):
                continue
            whole = path.read_bytes()
            for place in (len(whole) // 3, len(whole) // 2, len(whole) - 2):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
                (fault,) = faults(folder)
                assert path.name in fault or path.with_suffix(".npy").name in fault
            path.write_bytes(whole)
            believed += 1
        assert faults(folder) == []
    assert believed > 20


def test_weights_of_another_run_are_another_model(copied):
    before = model_checksum(copied / "run")
    (copied / "run" / "expansion.safetensors").unlink()
    assert model_checksum(copied / "run") != before


@pytest.mark.parametrize("name", ["none", "a folder", "text.txt"])
def test_what_is_neither_is_refused(tmp_path, name):
    (tmp_path / "a folder").mkdir()
    (tmp_path / "text.txt").write_text("A sentence.\n")
    with pytest.raises(InputError, match=rf"{name}: .*: give "):
        faults(tmp_path / name)
