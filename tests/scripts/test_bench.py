"""Benchmarks: each runs at a tiny size and tells what it measured; and what is raced is what it is said to be."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from corpora import small_config, topic_corpus
from scripts_for_tests import SCRIPTS, load
from trees_for_tests import SHAPES, WORDS

from structviews.batches.batch import collate
from structviews.corpus.sentence import ParsedSentence
from structviews.runs.config import Optimisation
from structviews.training.trainer import Training
from structviews.words.vocabulary import UNKNOWN, Vocabulary

DATA = Path(__file__).parents[2] / "data"
slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def module(monkeypatch):
    """A module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # a benchmark sets it
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def bench(module, monkeypatch, tmp_path, capsys):
    """The command: what it prints, and what it writes for machines."""

    def run(*words):
        path = tmp_path / "bench.json"
        monkeypatch.setattr(sys, "argv", [str(SCRIPTS / "bench.py"), *map(str, words), "--json", str(path)])
        load("bench", monkeypatch).main()
        found = json.loads(path.read_text())
        assert found["machine"]["versions"]["torch"] == torch.__version__
        return capsys.readouterr().out, found

    return run


@pytest.mark.parametrize("part", ["step", pytest.param("kernels", marks=slow)])
def test_train(bench, module, monkeypatch, part):
    monkeypatch.setattr(module("train"), "VOCABULARY", 101)
    monkeypatch.setattr(module("train"), "PAPERS_SIZE", (4, 6))
    small = ("--sizes", 4, "--hidden", 6, "--sentences", 60, "--seconds", 1e-9, "--ceiling", 16, "--threads", 1)
    printed, found = bench("train", "--only", part, *small)
    names = {"kernels": module("train").ENCODERS, "step": ("dep,const step", "dep,const step, 2 channels")}[part]
    assert [row["what"] for row in found[part]] == list(names)
    for row in found[part]:
        assert list(row["sentences_per_second"]) == list(module("train").ways(row["what"], torch.device("cpu")))
        assert (row["times_dgl"] != {}) == ("DGL" in row["sentences_per_second"])
        for figures in ("sentences_per_second", "share_of_ceiling", "ceiling_gflops", "times_dgl"):
            assert all(value > 0 for value in row[figures].values())
        assert f"| {row['what']} | 4 | 6 | 1 |" in printed
    if part == "step":
        rates = found["step"][0]["sentences_per_second"]
        assert found["step"][0]["times_the_paper"] == {name: rate / 285 for name, rate in rates.items()}


def measured(found):
    """The numbers of a report that are times or rates."""
    if isinstance(found, int | float):
        return [found]
    parts = found if isinstance(found, list) else found.values()
    return [number for part in parts if not isinstance(part, str | None) for number in measured(part)]


PARTS = [
    ("loader", "--rows 300 --batch-size 16", "sentences_per_cpu_second", ""),
    ("parsers", "x.txt --parsers spacy --tiny --sentences 6 --rounds 1", "parsers", "| builtin |"),
    ("attachment", "treebank/sample.conllu --rounds 1", "builtin", "| builtin |"),
    ("calibration", "treebank/sample.conllu treebank/sample.ptb --rounds 1", "cost", "| labels, "),
    ("eval", "--senteval senteval --dim 6 --threads 1 --quick", "tasks", "| scikit-learn"),
    ("states", "--corpus x.parsed --layers 1 --dim 64 --sentences 20", "rates", ""),
]
SLOW_PARTS = [
    (
        "ranks",
        "--corpus x.parsed --views bow,avg --hidden 4 --batch-size 8 --steps 2 --rounds 1",
        "rates",
        "| 2 ranks, 1 thread each |",
    ),
    ("busy", "--beside 0 --seconds 0.1 --sentences 600", "rows", "| serve |"),
    (
        "encode",
        "--encoders default all-MiniLM-L6-v2 --batches 1 8 --seconds 0.01 --sentences 8",
        "rows",
        "| default | raw | fp32 |",
    ),
]


@pytest.mark.parametrize(
    ("part", "flags", "name", "row"), [*PARTS, *(pytest.param(*each, marks=slow) for each in SLOW_PARTS)]
)
def test_a_part_runs_small_and_tells_what_it_measured(bench, module, monkeypatch, tmp_path, part, flags, name, row):
    for library in {"parsers": ["spacy"], "states": ["transformers"], "encode": ["transformers"]}.get(part, []):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    Path("senteval").symlink_to(DATA / "senteval")
    Path("treebank").symlink_to(DATA / "treebank")
    Path("x.txt").write_text("".join(f"The {i} birds in the tree sing.\n" for i in range(30)))
    topic_corpus(Path("x.parsed"), documents=4)
    printed, found = bench(part, *flags.split())
    assert measured(found[name])
    assert all(number > 0 for number in measured(found[name]))
    assert row in printed


def test_training_is_measured_with_what_training_needs():
    """A GPU machine may have no more: no command line, no scores, no other parsers."""
    missing = ("dgl", "nltk", "rich", "scipy", "sklearn", "spacy", "typer")
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); import bench, benchmarks.train; print('ok')"
    run = subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "ok\n"), run.stderr


def test_a_step_is_that_of_training(module, monkeypatch, tmp_path):
    train = module("train")
    settings = {"lr": 5e-4, "clip": 0.01, "precision": "fp32"}
    training = Training(small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path, **settings))
    assert (Optimisation().lr, Optimisation().clip) == (train.LEARNING_RATE, train.LARGEST_NORM)
    sizes = {"WORD_DIM": 6, "VOCABULARY": len(training.vocabularies["trained"]), "LARGEST_NORM": settings["clip"]}
    for name, size in sizes.items():
        monkeypatch.setattr(train, name, size)
    step = train.Step(("dep", "const"), 8, 1, torch.device("cpu"))
    channel = training.model.channels["trained"]
    step.model.channels["channel1"].load_state_dict(channel.state_dict())
    for rows in (training.data.train_rows[:9], training.data.train_rows[9:20]):
        batch = training.data.reader.batch(rows)
        training.step(batch)
        step.run(replace(batch, ids={"channel1": batch.ids["trained"]}), train.WAYS["fp32"])
    trained = channel.state_dict()
    for name, weight in step.model.channels["channel1"].state_dict().items():
        assert torch.equal(weight, trained[name]), name


def test_every_way_gives_the_same_gradients(module):
    train = module("train")
    words = {"words": Vocabulary([UNKNOWN, *WORDS])}
    batch = collate(SHAPES["random"], words, ["dependency", "constituency"])
    for name in train.ENCODERS:
        encoder = train.Encoder(name, 6, torch.device("cpu"))
        found = {way: encoder.run(batch, how) for way, how in train.ways(name, torch.device("cpu")).items()}
        for others in found.values():
            for one, other in zip(found["fp32"], others, strict=True):
                assert (one - other).norm() < 0.05 * one.norm(), name


def test_trees_of_another_scheme_become_universal_dependencies(module):
    """Prepositions, a form of be, conjuncts and a currency."""
    words = ["He", "was", "in", "town", ",", "sang", "songs", "and", "paid", "$", "5"]
    heads = (2, 0, 2, 3, 2, 2, 6, 6, 6, 11, 9)
    relations = ["nsubj", "ROOT", "prep", "pobj", "punct", "conj", "dobj", "cc", "conj", "quantmod", "dobj"]
    found = module("attachment").as_ud(ParsedSentence(tuple(words), (), heads, tuple(relations)))
    assert found == [4, 4, 4, 0, 4, 4, 6, 9, 4, 9, 10]
