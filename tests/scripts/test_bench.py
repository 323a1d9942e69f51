"""Benchmarks: each runs at a tiny size and tells what it measured; and what is raced is what it is said to be."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import small_config, topic_corpus
from scripts_for_tests import SCRIPTS, load
from trees_for_tests import SHAPES

from structviews.runs.config import Optimisation
from structviews.training.trainer import Training

DATA = Path(__file__).parents[2] / "data"
TEXTS = ["A bird sings.", "The old man sees a very small bird in the dead tree.", "Nobody", "It rains, it pours."]
needs_dgl = pytest.mark.skipif(find_spec("dgl") is None, reason="needs structviews[dgl]")


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


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


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("".join(f"The {i} birds in the tree sing.\n" for i in range(30)))
    return path


@pytest.mark.parametrize("part", ["step", pytest.param("kernels", marks=pytest.mark.slow)])
def test_train(bench, module, monkeypatch, part):
    monkeypatch.setattr(module("train"), "VOCABULARY", 101)
    monkeypatch.setattr(module("train"), "PAPERS_SIZE", (4, 6))
    small = ("--sizes", 4, "--hidden", 6, "--sentences", 60, "--seconds", 1e-9, "--ceiling", 16, "--threads", 1)
    printed, found = bench("train", "--only", part, *small)
    names = {"kernels": module("train").ENCODERS, "step": ("dep,const step", "dep,const step, 2 channels")}[part]
    assert [row["what"] for row in found[part]] == list(names)
    for row in found[part]:
        assert list(row["sentences_per_second"]) == list(module("train").ways(row["what"]))
        assert (row["times_dgl"] != {}) == ("DGL" in row["sentences_per_second"])
        for figures in ("sentences_per_second", "share_of_ceiling", "ceiling_gflops", "times_dgl"):
            assert all(value > 0 for value in row[figures].values())
        assert f"| {row['what']} | 4 | 6 | 1 |" in printed
    if part == "step":
        rates = found["step"][0]["sentences_per_second"]
        assert found["step"][0]["times_the_paper"] == {name: rate / 285 for name, rate in rates.items()}


@pytest.mark.slow
def test_encode(bench):
    pytest.importorskip("transformers", reason="needs structviews[sentence-transformers]")
    names = ("default", "all-MiniLM-L6-v2")
    printed, found = bench("encode", "--quick", "--encoders", *names)
    rows = [row for row in found["rows"] if row["batch"] > 1]
    assert {row["encoder"] for row in rows} == set(names)
    assert all(row["sentences_per_second"] > 0 < row["times_reference"] for row in rows)
    assert "| default | raw | fp32 |" in printed
    assert "Milliseconds of a call" in printed


def test_loader(bench):
    _, found = bench("loader", "--rows", 300, "--batch-size", 16)
    assert found["sentences"] <= 300
    assert 0 < found["batches"] <= found["sentences"] / 8
    assert found["sentences_per_cpu_second"] > 0
    assert found["rss_anon_mb"]["most"] > 0


def test_pipeline(bench, text):
    """Also where there are more processes than threads."""
    printed, found = bench("pipeline", text, "--threads", 1)
    assert all(each > 0 for each in found["stages"].values())
    one, two = found["pipeline"]
    assert (one["processes"], two["processes"], one["others wait"]) == (1, 2, 0)
    assert one["sentences/s"] > 0
    assert "| processes | sentences/s | this one waits | others wait |" in printed


def test_parsers(bench, text):
    pytest.importorskip("spacy")
    printed, found = bench("parsers", text, "--parsers", "spacy", "--tiny", "--sentences", 6, "--rounds", 1)
    assert list(found["parsers"]) == ["builtin", "spacy"]
    assert found["parsers"]["builtin"]["slower than builtin"] == 1
    assert "| builtin |" in printed


@pytest.mark.parametrize("flags", [["--quick"], ["--quick", "--suite", "--tasks", "MRPC"]])
def test_eval(bench, flags):
    printed, found = bench("eval", "--senteval", DATA / "senteval", "--dim", 6, "--threads", 1, *flags)
    (task,) = found["tasks"]
    assert task["seconds"] > 0
    assert ("scikit-learn seconds" in task) == ("--suite" not in flags)
    assert f"| {task['task']} |" in printed


def test_seals(bench, module, monkeypatch):
    monkeypatch.setattr(module("seals"), "PARAMETERS", 8000)
    _, found = bench("seals", "--rows", 100, "--rounds", 1)
    assert len(found["seconds"]) == 4
    assert all(each["without"] > 0 < each["with"] for each in found["seconds"].values())


@pytest.mark.slow
def test_ranks(bench, tmp_path):
    corpus = topic_corpus(tmp_path / "x.parsed")
    small = ("--views", "bow,avg", "--hidden", 4, "--batch-size", 8, "--steps", 2, "--rounds", 1)
    printed, found = bench("ranks", "--corpus", corpus, *small)
    assert {"1 process, 1 thread", "2 ranks, 1 thread each"} <= found["rates"].keys()
    assert "| 2 ranks, 1 thread each |" in printed


def test_states(bench, tmp_path):
    pytest.importorskip("transformers")
    corpus = topic_corpus(tmp_path / "x.parsed", documents=4)
    _, found = bench("states", "--corpus", corpus, "--layers", 1, "--dim", 64, "--sentences", 20)
    assert len(found["rates"]) == 6
    assert all(rate > 0 for rate in found["rates"].values())
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".parsed"] == ["x.parsed"]
    with pytest.raises(SystemExit, match="--dim 200: give a multiple of 64"):
        bench("states", "--corpus", corpus, "--dim", 200)


def test_training_is_measured_with_what_training_needs():
    """A GPU machine may have nothing but PyTorch, numpy, pyarrow and safetensors."""
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
    batch = module("corpora").batch_of(SHAPES["random"], ["dependency", "constituency"])
    for name in train.ENCODERS:
        encoder = train.Encoder(name, 6, torch.device("cpu"))
        found = {way: encoder.run(batch, how) for way, how in train.ways(name).items()}
        for others in found.values():
            for one, other in zip(found["fp32"], others, strict=True):
                assert (one - other).norm() < 0.05 * one.norm(), name


def test_operations_are_those_of_the_products(module):
    first, second = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)
    with module("train").Operations() as counted:
        (first @ second).sum().backward()
        torch.empty(3, 5).addmm_(first.detach(), second)
    assert counted.count == 2 * 3 * 4 * 5 * 3


def test_turns_are_taken(module):
    measure, order = module("measure"), []
    runs = {name: lambda number, name=name: order.append((name, number)) for name in "ab"}
    times = measure.race(runs, 4)
    assert order == [("a", 0), ("b", 0), *((name, number) for number in range(4) for name in "ab")]
    assert [len(each) for each in times.values()] == [4, 4]
    assert len(measure.race(runs, 9, 0.0)["a"]) == measure.LEAST_ROUNDS


def test_random_trees_are_shaped_like_english(module):
    sentences = module("corpora").random_sentences(400, 1)
    n_words = sum(len(s.tokens) for s in sentences)
    leaves = sum(height == 0 for s in sentences for height in s.dependency_heights)
    assert 15 < n_words / 400 < 20
    assert 0.6 < leaves / n_words < 0.7
    some = module("corpora").random_sentences(50, 1, 17)
    heights = [sum(max(getattr(s, f"{kind}_heights")) for s in some) / 50 for kind in ("dependency", "constituency")]
    assert heights == pytest.approx((4, 9.5), abs=0.6)


def test_a_large_corpus_lists_its_shards_repeatedly(module, monkeypatch, tmp_path):
    for name, number in (("WRITTEN", 80), ("SHARD", 40)):
        monkeypatch.setattr(module("corpora"), name, number)
    corpus = module("corpora").random_corpus(tmp_path / "x.parsed", 200)
    rows = list(corpus)
    assert (len(corpus), corpus.n_shards) == (240, 6)
    assert rows[:80] == rows[80:160] == rows[160:]
    assert corpus.manifest["tokens"] == sum(len(row.sentence.tokens) for row in rows)


def test_sentences_of_one_length_are_different_ones_and_longer_ones_are_cut(module):
    lines = [f"a b {i}" for i in range(10)] + ["a b 3", "x", "a b 1 d", "q r s t u"]
    assert sorted(module("corpora").of_length(lines, 3, 99)) == sorted([*(f"a b {i}" for i in range(10)), "q r s"])
    assert len(module("corpora").of_length(lines, 3, 4)) == 4


def test_transformers_give_the_same_vectors_whatever_the_batch(module):
    pytest.importorskip("transformers")
    encode = module("encode")
    pieces = encode.tokeniser(None, TEXTS * 2)
    size = encode.SIZES[encode.REFERENCE]._replace(layers=2, width=8, heads=2, inner=16)
    transformer = encode.Transformer("x", "fp32", size.model(pieces), pieces)
    alone = np.concatenate([transformer.encode([text], 1) for text in TEXTS])
    np.testing.assert_allclose(transformer.encode(TEXTS, 3), alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-5)


def test_ratios_are_to_the_best_rate_of_the_reference(module):
    pytest.importorskip("transformers")

    def row(encoder, batch, wall, cpu, threads=1, precision="fp32"):
        about = {"words": 20, "threads": threads, "batch": batch, "encoder": encoder, "precision": precision}
        return about | {"sentences_per_second": wall, "sentences_per_cpu_second": cpu}

    reference = "all-MiniLM-L6-v2"
    rows = [row("a", 8, 1, 30), row("a", 64, 1, 60), row(reference, 8, 1, 20), row(reference, 64, 1, 10)]
    rows += [row("a", 8, 9, 1, threads=2), row(reference, 8, 3, 1, threads=2), row("a", 8, 1, 1, precision="bf16")]
    ratios = [each.get("times_reference") for each in module("encode").with_ratios(rows)]
    assert ratios == [1.5, 3, 1, 0.5, 3, 1, None]
