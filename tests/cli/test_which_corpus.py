"""Where commands find a corpus, and put what they make, unless they are told."""

import pytest
from corpora import tiny_corpus, topic_corpus
from shell import fails, shell_command
from vector_files import write_vectors

from structviews.training.baselines import default_folder


@pytest.fixture
def command(monkeypatch, capsysbinary, tmp_path):
    return shell_command(monkeypatch, capsysbinary, tmp_path)


OF_A_CORPUS = [
    ("inspect", 0),
    ("cache stats", 0),
    ("cache export", 0),
    ("cache split --parts 2 -o parts", 0),
    ("vectors -o x.vec --epochs 1 --dim 4", 0),
    ("probe make -o probing", 2),
    ("nearest default --query he", 0),
    ("project default -o x.svg", 0),
]


@pytest.mark.parametrize(("typed", "code"), OF_A_CORPUS)
def test_the_only_corpus_here_is_found(command, tmp_path, typed, code):
    topic_corpus(tmp_path / "x.parsed")
    (tmp_path / "words.txt").write_text("he she dad mom\n")
    ended = command(*typed.split())
    assert ended.code == code, ended.errors
    if code:  # too small for these two
        assert ended.errors[-1].startswith("error: x.parsed: ")


@pytest.mark.parametrize("typed", [typed for typed, _ in OF_A_CORPUS])
def test_none_and_several_are_errors(command, tmp_path, typed):
    said = fails(command, tmp_path, *typed.split())
    assert "no *.parsed folder in" in said
    assert ("--text" in said) == (typed == "inspect")
    tiny_corpus(tmp_path / "a.parsed")
    tiny_corpus(tmp_path / "b.parsed")
    remedy = "choose one with --corpus" if "default" in typed else "name one of them"
    said = fails(command, tmp_path, *typed.split())
    assert said == f"error: several parsed corpora (a.parsed, b.parsed): {remedy}"


def test_baselines_have_a_folder_of_their_own(command, tmp_path):
    topic_corpus(tmp_path / "x.parsed")
    write_vectors(tmp_path / "x.vec", ["the", "of"])
    for typed, out in [
        ("average --vectors x.vec", "runs/average"),
        ("random --views bow,avg --hidden 4", "runs/random-bow-avg"),
    ]:
        ended = command("baseline", *typed.split())
        assert (ended.code, ended.output.decode()) == (0, f"{out}\n"), ended.errors
        assert (tmp_path / out / "config.toml").exists()
        assert "already exists" in fails(command, tmp_path, "baseline", *typed.split())
    assert str(default_folder("sentence-transformers:models/all-MiniLM-L6-v2/", {})) == "runs/all-MiniLM-L6-v2"


def test_a_wrong_baseline_is_told_before_the_corpus(command, tmp_path):
    assert "unknown baseline 'siff' (did you mean sif?): choose" in fails(command, tmp_path, "baseline", "siff")


def test_training_on_a_device(command, tmp_path):
    topic_corpus(tmp_path / "x.parsed")
    train = ("train", "--views", "bow,avg", "--hidden", "4", "--word-dim", "4", "--epochs", "1")
    assert "--device gpu: no such device" in fails(command, tmp_path, *train, "--device", "gpu")
    assert command(*train, "--device", "cpu").code == 0
    assert "no such device" in fails(command, tmp_path, "sweep", "--views", "bow,avg", "--device", "gpu")
