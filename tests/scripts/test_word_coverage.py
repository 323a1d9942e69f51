"""Which words of texts a run knows."""

import sys

import numpy as np
import pytest
from corpora import opened, small_config, tiny_corpus
from packed_runs import pack
from scripts_for_tests import load
from vector_files import fasttext_model

from structviews.encoding.embedder import Embedder
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.words.vocabulary import count_words

DIM, ROWS = 6, 64


@pytest.fixture
def script(monkeypatch):
    module = load("word_coverage", monkeypatch)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["word_coverage.py", *map(str, arguments)])
        module.main()

    return call


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus):
    words = sorted(count_words(opened(corpus)))
    path = corpus.parent / "v.bin"
    path.write_bytes(fasttext_model(words, np.ones((len(words) + ROWS, DIM), np.float32)))
    return path


@pytest.fixture
def packed(corpus, vectors, tmp_path):
    """A run with the vectors of 3 words, which composes others of n-grams; both channels."""
    channels = {"channels": ("fixed", "trained"), "vectors": str(vectors)}
    run = train(small_config(corpus, tmp_path / "run", epochs=1, **channels))
    pack(run, tmp_path / "packed", 3)
    return tmp_path / "packed"


def test_words_are_counted_as_often_as_they_occur(script, packed, tmp_path, capsys):
    known = Embedder.load(packed).vocabularies["trained"].words[1:]
    (tmp_path / "a.txt").write_text(f"{known[0]} {known[1]} zxqv!\n\nthen {known[0]} zxqv\n")
    comments = f"# sent_id = 1\n# text = {known[0]} zxqv\n"
    (tmp_path / "b.conllu").write_text(f"{comments}1\tword\tword\tX\tX\t_\t0\troot\t_\t_\n\n")
    script(packed, tmp_path / "a.txt", tmp_path / "b.conllu")
    output = capsys.readouterr().out.splitlines()
    assert output[:2] == ["| text | channel | words | stored | composed | unknown |", "|---|---|--:|--:|--:|--:|"]
    # 7 words: 3 that are stored, "zxqv" twice, "!" (with < and > an n-gram of 3) and "then".
    assert output[2:] == [
        "| a.txt | fixed | 7 | 42.86% | 57.14% | 0.00% |",
        "| a.txt | trained | 7 | 42.86% | 0.00% | 57.14% |",
        "| b.conllu | fixed | 2 | 50.00% | 50.00% | 0.00% |",
        "| b.conllu | trained | 2 | 50.00% | 0.00% | 50.00% |",
    ]


def test_only_a_trained_run_has_such_words(script, corpus, vectors, tmp_path, capsys):
    run = make_baseline("average", corpus, tmp_path / "average", vectors)
    (tmp_path / "a.txt").write_text("A bird sings.\n")
    for given, message in (
        ((run, tmp_path / "a.txt"), f"{run}: not a trained run: give one that structviews train made"),
        (
            (tmp_path, tmp_path / "a.txt"),
            f"{tmp_path}: not a run: it has no config.toml; give a folder that structviews",
        ),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            script(*given)
        assert stop.value.code == 2
        assert capsys.readouterr().err.startswith(f"error: {message}")
