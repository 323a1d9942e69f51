"""Runs, corpora and tasks as commands take them: by name, or where they are found; and where output goes."""

import shutil
from pathlib import Path

import pytest
from corpora import tiny_corpus, topic_corpus
from shell import fails
from vector_files import write_vectors

from structviews.cli.options import named_member
from structviews.runs.bundled import MODELS
from structviews.training.baselines import default_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path):
    """A run, a sweep of two, with a member that is no run of its own; and a note."""
    for name in ("dep-const", "sweep/bow-avg-seed1", "sweep/seq-seq-seed1", "sweep/seq-seq-seed1/members/seq"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text('[views]\nnames = ["dep", "seq"]\n')
    (tmp_path / "runs/.hidden").mkdir()
    (tmp_path / "runs/.hidden/config.toml").write_text("")
    (tmp_path / "runs/note.txt").write_text("to do\n")
    (tmp_path / "data").mkdir()
    return tmp_path / "runs"


def rows(ended):
    """The first column of a table in Markdown."""
    assert ended.code == 0, ended.errors
    lines = [line for line in ended.output.decode().splitlines() if line.startswith("|")]
    return [line.split("|")[1].strip() for line in lines[2:]]


ALL = ["dep-const", "bow-avg-seed1", "seq-seq-seed1"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["runs"], ALL),
        (["runs/dep-const", "runs/sweep"], ALL),
        (["dep-const", "sweep"], ALL),
        (["sweep/seq-seq-seed1", "runs/dep-const/"], ["seq-seq-seed1", "dep-const"]),
        (["."], ALL),
        (["runs/dep-const", "runs/note.txt", "runs/sweep"], ALL),
    ],
)
def test_a_folder_of_runs_means_all_of_them_and_files_are_skipped(command, runs, typed, found):
    ended = command("table", *typed, "--format", "md")
    assert rows(ended) == found
    assert ("skipping runs/note.txt: not a run" in ended.errors) == ("runs/note.txt" in typed)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("table runs/dep-const data", "data: not a run: it has no config.toml; give"),
        ("table sweep", "sweep: not a run: it has no config.toml; give"),  # what is here goes before what is in runs/
        ("table runs/note.txt", "runs/note.txt: not a run: it is a file; give"),
        ("table dep-cnst", "dep-cnst: not a run: no such folder (did you mean runs/dep-const?); give"),
        ("table runs runs/dep-const", "runs/dep-const: named twice: name each run once"),
        ("runs expand runs --vectors x.vec", "runs: a folder of 3 runs: name one of them, such as runs/dep-const"),
        (f"table {'x' * 300}", f"{'x' * 300}: not a run: no such folder; give"),
    ],
)
def test_names_that_mean_no_run(command, runs, tmp_path, typed, said):
    (tmp_path / "sweep").mkdir()
    assert fails(command, tmp_path, *typed.split()).startswith(f"error: {said}")


@pytest.mark.parametrize(
    ("typed", "run", "view"),
    [
        ("default:dep", MODELS / "default", "dep"),
        ("dep-const:seq.2", "runs/dep-const", "seq.2"),
        ("a:b", "runs/a:b", ""),
        ("runs/a:b:seq", "runs/a:b", "seq"),
        ("dep-const:", "dep-const:", ""),
        (r"C:\none", r"C:\none", ""),
    ],
)
def test_single_views_of_runs(runs, monkeypatch, typed, run, view):
    monkeypatch.chdir(runs.parent)
    (runs / "a:b").mkdir()
    assert named_member(typed) == (Path(run), view)


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("inspect", 0),
        ("corpus stats", 0),
        ("tasks make-probing -o probing", 2),
        ("nearest default --query he", 0),
        ("train --views bow,avg --dry-run", 0),
    ],
)
def test_the_only_corpus_here_is_found(command, tmp_path, typed, code):
    said = fails(command, tmp_path, *typed.split())
    assert "no *.parsed folder in" in said
    assert ("--text" in said) == (typed == "inspect")
    topic_corpus(tmp_path / "x.parsed")
    ended = command(*typed.split())
    assert ended.code == code, ended.errors
    if code:  # too small for probing tasks
        assert ended.errors[-1].startswith("error: x.parsed: ")
    tiny_corpus(tmp_path / "y.parsed")
    remedy = "choose one with --corpus" if typed.startswith(("nearest", "train")) else "name one of them"
    ended = command(*typed.split())
    assert ended.errors == [f"error: several parsed corpora (x.parsed, y.parsed): {remedy}"]


def test_baselines_have_a_folder_of_their_own(command, tmp_path):
    topic_corpus(tmp_path / "x.parsed")
    write_vectors(tmp_path / "x.vec", ["the", "of"])
    made = {"average --vectors x.vec": "runs/average", "random --views bow,avg --hidden 4": "runs/random-bow-avg"}
    for typed, out in made.items():
        ended = command("baseline", *typed.split())
        assert (ended.code, ended.output.decode()) == (0, f"{out}\n"), ended.errors
        assert (tmp_path / out / "config.toml").exists()
        assert "already exists" in fails(command, tmp_path, "baseline", *typed.split())
    assert str(default_folder("sentence-transformers:models/all-MiniLM-L6-v2/", {})) == "runs/all-MiniLM-L6-v2"


@pytest.fixture
def tasks(tmp_path):
    shutil.copytree(ROOT / "data/senteval", tmp_path / "x/data/downstream")
    shutil.copytree(ROOT / "data/probing", tmp_path / "probing")


def sentences(command, *arguments):
    ended = command("tasks", "sentences", "-o", "x.txt", *arguments)
    assert ended.code == 0, ended.errors
    return ended.output


def test_tasks_are_named_in_any_case(command, tasks):
    folder = "x/data/downstream"
    assert sentences(command, "--senteval", folder, "--tasks", "mr,Sick-R,mr") == sentences(
        command, "--senteval", folder, "--tasks", "MR,SICK-R"
    )
    assert sentences(command, "--probing", "probing", "--tasks", "LENGTH_classes")


@pytest.mark.parametrize(
    ("verb", "given"), [("eval runs/none", "x"), ("parse", "."), ("tasks sentences -o y.txt", "x/data/downstream/MR")]
)
def test_a_folder_without_tasks_names_the_likely_one(command, tasks, tmp_path, verb, given):
    if verb.startswith("eval"):
        (tmp_path / "runs/none").mkdir(parents=True)
        (tmp_path / "runs/none/config.toml").write_text('[views]\nnames = ["bow"]\n')
    said = fails(command, tmp_path, *verb.split(), "--senteval", given)
    assert said == f"error: {given}: none of these tasks is in this folder: give --senteval x/data/downstream"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--senteval probing", "give the folder with MR/, SICK/, STS/, SentEval's data/downstream"),
        ("--senteval probing --tasks structure", "none of these tasks is in this folder: give the folder with paws-x-"),
        ("--senteval bad --tasks PAWS-X", "paws-x-dev.tsv:2: label 'often' is not one of 0, 1"),
        ("--probing bad", "error: no task could be read: bad/mine.txt:1: 1 tab-separated columns, not 3"),
        ("--senteval x/data/downstream --tasks trec", "error: no task could be read: x/data/downstream/TREC/"),
        ("--senteval x/data/downstream --tasks sick-s", "error: unknown task 'sick-s' (did you mean SICK-"),
    ],
)
def test_tasks_that_no_folder_near_holds(command, tasks, tmp_path, flags, said):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/paws-x-dev.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\toften\n")
    (tmp_path / "bad/mine.txt").write_text("no columns\n")
    shutil.rmtree(tmp_path / "x/data/downstream/TREC")
    assert said in fails(command, tmp_path, "parse", *flags.split())
