import importlib
import json
import math
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
import torch
from corpora import small_config, topic_corpus
from torch.utils.flop_counter import FlopCounterMode
from trees_for_tests import SHAPES, gum

from structviews import kernels
from structviews.runs.config import Optimisation
from structviews.training.trainer import Training

SCRIPTS = Path(__file__).parents[2] / "scripts"
needs_dgl = pytest.mark.skipif(find_spec("dgl") is None, reason="needs structviews[dgl]")
TREES = {
    "dep-sum": "dependency",
    "dep": "dependency",
    "dep-gru": "dependency",
    "const": "constituency",
    "const-gru": "constituency",
}


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def module(monkeypatch):
    """A module of the benchmark by its name; word tables are small."""
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.setattr(importlib.import_module("benchmarks.contenders"), "VOCABULARY", 101)
    return importlib.import_module


@pytest.fixture
def settings(module, tmp_path):
    corpus = module("benchmarks.corpora").random_corpus(tmp_path / "x.parsed", 60)
    return module("benchmarks.parts").Settings(
        corpus.path, torch.device("cpu"), threads=[1], sizes=[4], hidden=[6], rounds=3, seconds=0.0, ceiling=16
    )


@pytest.fixture
def bench(module, monkeypatch, tmp_path, capsys):
    """The command: what it prints, and what it writes for machines."""

    def run(*flags):
        small = ("--sizes", 4, "--hidden", 6, "--sentences", 60, "--seconds", 1e-9, "--ceiling", 16, "--threads", 1)
        path = tmp_path / "bench.json"
        monkeypatch.setattr(sys, "argv", ["bench.py", *map(str, small), "--json", str(path), *map(str, flags)])
        module("bench").main()
        return capsys.readouterr().out, json.loads(path.read_text())

    return run


def all_different(some):
    """The same trees over words none of which occurs twice."""
    number = count()
    return [replace(s, tokens=tuple(f"word{next(number)}" for _ in s.tokens)) for s in some]


def outer_flops(first, second, **_):
    """A column times a row is how PyTorch makes the gradient of a matrix that multiplied a vector."""
    return 2 * math.prod(first) * math.prod(second) if tuple(first[1:]) == (1,) and len(second) == 1 else 0


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("shape", ["word", "star", "mixed", "random"])
def test_operations_are_those_of_recursion(module, monkeypatch, name, shape):
    """PyTorch's own count of the products, in the oracle, which makes no needless ones where no words are the same."""
    monkeypatch.setattr(module("benchmarks.contenders"), "WORD_DIM", 3)
    encoder = module("benchmarks.contenders").Encoder(name, 5, torch.device("cpu"))
    batch = module("benchmarks.corpora").batch_of(all_different(SHAPES[shape]), [TREES[name]])
    ops = torch.ops.aten
    with FlopCounterMode(
        display=False, custom_mapping={ops.mv: lambda matrix, *_, **__: 2 * math.prod(matrix), ops.mul: outer_flops}
    ) as counter:
        encoder.run(batch, module("benchmarks.contenders").WAYS["naive"])
    assert encoder.operations(batch) == counter.get_total_flops() > 0


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_depends_on_a_word_counts_once(module, name, shape):
    """Words that are the same save products by their vectors, and by the states of leaves; and nothing else."""
    batch_of, some = module("benchmarks.corpora").batch_of, SHAPES[shape]
    encoder = module("benchmarks.contenders").Encoder(name, 5, torch.device("cpu"))
    different, same = (batch_of(each, [TREES[name]]) for each in (all_different(some), some))
    words, heads, leaves = [], [], []
    for s in some:
        words += s.tokens
        heads += [word for i, word in enumerate(s.tokens, 1) if i in s.heads]
        if TREES[name] == "constituency":
            sides = (("left", s.left), ("right", s.right))
            leaves += [(side, s.tokens[i]) for side, nodes in sides for i in nodes if i < len(s.tokens)]
        else:
            leaves += [
                word
                for i, (word, head) in enumerate(zip(s.tokens, s.heads, strict=True), 1)
                if head and i not in s.heads
            ]
    saved = (2 if name.endswith("gru") else 3) * 300 * (len(words) - len(set(words)))
    if TREES[name] == "constituency":
        saved += (2 if name.endswith("gru") else 5) * 5 * (len(leaves) - len(set(leaves)))
    else:
        forget = 300 * (len(heads) - len(set(heads))) + 5 * (len(leaves) - len(set(leaves)))
        saved += (2 if name == "dep" else 1) * forget
    # Multiply and add, of the product and of both its gradients.
    assert encoder.operations(different) - encoder.operations(same) == 2 * 3 * saved * 5


@pytest.mark.parametrize("name", [*TREES, "seq"])
def test_what_is_done_is_little_more_than_what_counts(module, name):
    batch = module("benchmarks.corpora").batch_of(gum(100), ["dependency", "constituency"])
    encoder = module("benchmarks.contenders").Encoder(name, 60, torch.device("cpu"))
    in_place = {torch.ops.aten.addmm_: lambda _, first, second, **__: 2 * math.prod(first) * second[1]}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        encoder.run(batch, module("benchmarks.contenders").WAYS["fp32"])
    assert encoder.operations(batch) <= counter.get_total_flops() < 1.2 * encoder.operations(batch)


@pytest.mark.parametrize(("network", "gates"), [(torch.nn.GRU, 3), (torch.nn.LSTM, 4)])
def test_operations_of_a_recurrent_network(module, network, gates):
    n_products = 0
    for length in (1, 4, 7):
        for word in range(length):
            n_products += 2 * gates * 5 * (6 + 5 * (word > 0))  # each direction, each gate
    # Multiply and add; the product, and the gradients of both its factors.
    assert module("benchmarks.flops").of_recurrent(network(6, 5, bidirectional=True), 12, 9) == 2 * 3 * n_products


def test_operations_of_a_step(module, settings):
    contenders = module("benchmarks.contenders")
    batch, *_ = settings.batches().of_size(4)
    step = contenders.Step(("dep", "const"), 6, 2, settings.device)
    names = ("dep", "const")
    encoders = [contenders.Encoder(name, 6, settings.device).operations(batch) for name in names]
    assert step.operations(batch) == 2 * (sum(encoders) + 6 * 4 * 4 * 6)


def test_a_step_is_that_of_training(module, monkeypatch, tmp_path):
    contenders = module("benchmarks.contenders")
    settings = {"lr": 5e-4, "clip": 0.01, "precision": "fp32"}
    training = Training(small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path, **settings))
    assert (Optimisation().lr, Optimisation().clip) == (contenders.LEARNING_RATE, contenders.LARGEST_NORM)
    sizes = {"WORD_DIM": 6, "VOCABULARY": len(training.vocabularies["trained"]), "LARGEST_NORM": settings["clip"]}
    for name, size in sizes.items():
        monkeypatch.setattr(contenders, name, size)
    step = contenders.Step(("dep", "const"), 8, 1, torch.device("cpu"))
    channel = training.model.channels["trained"]
    step.model.channels["channel1"].load_state_dict(channel.state_dict())
    for rows in (training.data.train_rows[:9], training.data.train_rows[9:20]):
        batch = training.data.reader.batch(rows)
        training.step(batch)
        step.run(replace(batch, ids={"channel1": batch.ids["trained"]}), contenders.WAYS["fp32"])
    trained = channel.state_dict()
    for name, weight in step.model.channels["channel1"].state_dict().items():
        assert torch.equal(weight, trained[name]), name


@needs_dgl
@pytest.mark.parametrize(("name", "kind"), [("dep-sum", "dependency"), ("const", "constituency")])
def test_dgls_example_is_the_same_cell(module, name, kind):
    contenders = module("benchmarks.contenders")
    encoder = contenders.Encoder(name, 5, torch.device("cpu"))
    for parameter in encoder.view.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # biases are zero otherwise
    for some in SHAPES.values():
        batch = module("benchmarks.corpora").batch_of(some, [kind])
        found = encoder.run(batch, contenders.WAYS["DGL's example"])
        for one, other in zip(found, encoder.run(batch, contenders.WAYS["naive"]), strict=True):
            if one is not None and other is not None:
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_every_way_gives_the_same_gradients(module):
    contenders = module("benchmarks.contenders")
    batch = module("benchmarks.corpora").batch_of(SHAPES["random"], ["dependency", "constituency"])
    for name in contenders.ENCODERS:
        encoder = contenders.Encoder(name, 6, torch.device("cpu"))
        gradients = [encoder.run(batch, way) for way in contenders.ways(name).values()]
        for others in gradients:
            for one, other in zip(gradients[-2], others, strict=True):
                assert (one - other).norm() < 0.05 * one.norm(), name


def test_turns_are_taken(module, monkeypatch):
    measure, order = module("benchmarks.measure"), []
    runs = {name: lambda number, name=name: order.append((name, number)) for name in "ab"}
    times = measure.race(runs, 4, 1e9, torch.device("cpu"))
    assert order == [("a", 0), ("b", 0), *((name, number) for number in range(4) for name in "ab")]
    assert [len(each) for each in times.values()] == [4, 4]
    assert len(measure.race(runs, 9, 0.0, torch.device("cpu"))["a"]) == measure.LEAST_ROUNDS


@needs_dgl
def test_figures_are_medians_of_what_was_measured_side_by_side(module, monkeypatch, settings):
    parts, contenders = module("benchmarks.parts"), module("benchmarks.contenders")
    settings = replace(settings, sizes=[20])
    seconds = {"naive": 1.0, "DGL's example": 9.0, "DGL": 6.0, "fp32": 2.0, "bf16": 1.0}
    times = {name: [s, 3 * s, 2 * s] for name, s in seconds.items()}
    times |= {"fp32 product": [1e-6, 3e-6, 2e-6], "bf16 product": [1e-7, 3e-7, 2e-7]}
    monkeypatch.setattr(parts, "race", lambda runs, *_: {name: times[name] for name in runs})
    row = next(parts.kernels(settings))
    assert (row["what"], row["batch"], row["hidden"], row["threads"], row["rounds"]) == ("dep-sum", 20, 6, 1, 3)
    batches = settings.batches()
    full, few = batches.of_size(20), batches.of_size(contenders.N_FEW)
    words = [sum(batch.lengths) for batch in full]
    per_word = sorted(t / n for t, n in zip(times["fp32"], words, strict=True))[1]
    assert row["sentences_per_second"]["fp32"] == pytest.approx(1 / per_word / (sum(words) / 60))
    naive = sorted(t / sum(batch.lengths) for t, batch in zip(times["naive"], few, strict=True))[1]
    assert row["sentences_per_second"]["naive"] == pytest.approx(1 / naive / (sum(words) / 60))
    assert (row["times_dgl"]["fp32"], row["times_dgl"]["DGL's example"]) == pytest.approx((3, 6 / 9))
    encoder = contenders.Encoder("dep-sum", 6, settings.device)
    operations = [encoder.operations(batch) for batch in full]
    share = sorted(n / 2.0 for n in operations)[1] / (2 * 16**3 / 1e-6)
    assert row["share_of_ceiling"]["fp32"] == pytest.approx(share)
    assert row["share_of_ceiling"]["bf16"] == pytest.approx(share * 2 / 10)
    assert row["ceiling_gflops"] == pytest.approx({"fp32": 2 * 16**3 / 2e-6 / 1e9, "bf16": 2 * 16**3 / 2e-7 / 1e9})


@pytest.mark.slow
def test_one_run_has_all_figures(bench, module, monkeypatch):
    parts = module("benchmarks.parts")
    monkeypatch.setattr(parts, "GROWTH_BATCH", 2)
    monkeypatch.setattr(parts, "GROWTH_SIZES", (1, 2))
    printed, results = bench("--only", "kernels,step,shares,growth,loader")
    contenders = module("benchmarks.contenders")
    rows = [*results["kernels"], *results["step"]]
    assert [row["what"] for row in rows] == [*contenders.ENCODERS, "dep,const step", "dep,const step, 2 channels"]
    for row in rows:
        assert list(row["sentences_per_second"]) == list(contenders.ways(row["what"]))
        for figures in ("sentences_per_second", "share_of_ceiling", "ceiling_gflops", "times_dgl"):
            assert all(value > 0 for value in row[figures].values())
        assert f"| {row['what']} | 4 | 6 | 1 |" in printed
    assert [row["precision"] for row in results["shares"]] == ["fp32", "bf16"]
    for row in results["shares"]:
        assert 0 < row["share_outside_products"] < 1
    assert [row["by"] for row in results["growth"]] == ["length"] * 5 + ["height"] * 3 + ["batch"] * 2
    assert all(value > 0 for row in results["growth"] for value in row["microseconds_per_word"].values())
    (loader,) = results["loader"]
    assert loader["held_sentences_per_second"] > 0 < loader["loader_sentences_per_cpu_second"]
    assert results["machine"]["versions"]["torch"] == torch.__version__
    assert torch.__version__ in printed


def test_products_are_known_by_name(module):
    products = ("aten::mm", "aten::addmm_", "aten::mkldnn_rnn_layer", "nvjet_tst_128x256", "ampere_sgemm_128x64_nn")
    others = ("aten::mul", "aten::addcmul_", "aten::sum", "_BinaryBackward", "void at::native::elementwise_kernel")
    search = module("benchmarks.parts").PRODUCTS.search
    assert [bool(search(name)) for name in (*products, *others)] == [True] * len(products) + [False] * len(others)


def test_the_papers_rate_stands_beside_its_size(module, monkeypatch, settings):
    parts = module("benchmarks.parts")
    assert "times_the_paper" not in next(parts.step(settings))
    monkeypatch.setattr(parts, "PAPERS_SIZE", (4, 6))
    row = next(parts.step(settings))
    assert row["times_the_paper"] == {name: rate / 285 for name, rate in row["sentences_per_second"].items()}


def test_without_dgl(module, monkeypatch, settings):
    monkeypatch.setattr(module("benchmarks.contenders"), "find_spec", lambda _: None)
    rows = list(module("benchmarks.parts").kernels(settings))
    assert [list(row["sentences_per_second"]) for row in rows[:1]] == [["naive", "fp32", "bf16"]]
    assert all(row["times_dgl"] == {} for row in rows)
    assert "| dep | 4 | 6 | 1 |" in module("bench").compared(rows)


def test_memory_is_that_of_a_process_of_its_own(module, settings):
    assert 0.1 < next(module("benchmarks.parts").memory(settings))["peak_gigabytes"] < 4


def test_everything_is_repeated_for_each_number_of_threads(module, monkeypatch, settings):
    parts, used = module("benchmarks.parts"), []
    monkeypatch.setattr(
        parts, "race", lambda runs, *_: used.append(torch.get_num_threads()) or {name: [1.0] for name in runs}
    )
    rows = list(parts.kernels(replace(settings, threads=[2, 1])))
    n = len(module("benchmarks.contenders").ENCODERS)
    assert [row["threads"] for row in rows] == used == [2] * n + [1] * n


def test_random_trees_are_shaped_like_english(module):
    corpora = module("benchmarks.corpora")
    sentences = corpora.random_sentences(400, 1)
    n_words = sum(len(s.tokens) for s in sentences)
    leaves = sum(height == 0 for s in sentences for height in s.dependency_heights)
    assert 15 < n_words / 400 < 20
    assert 0.6 < leaves / n_words < 0.7

    def height(split):
        some = corpora.random_sentences(50, 1, split, 17)
        return sum(max(s.dependency_heights) for s in some) / 50, sum(max(s.constituency_heights) for s in some) / 50

    assert height(corpora.english_split) == pytest.approx((4, 9.5), abs=0.6)
    assert height(corpora.first_word)[1] == 16
    assert height(corpora.halves)[1] == 5


def test_it_needs_no_more_than_training_does():
    """A GPU machine may have nothing but PyTorch, numpy, pyarrow and safetensors."""
    missing = ("dgl", "nltk", "rich", "scipy", "sklearn", "spacy", "typer")
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); import bench, benchmarks.parts; print('ok')"
    run = subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "ok\n"), run.stderr


def test_an_unknown_part(bench, capsys):
    with pytest.raises(SystemExit) as stop:
        bench("--only", "kernels,speed")
    assert stop.value.code == 2
    assert "--only speed: the parts are memory, kernels" in capsys.readouterr().err


def test_the_backends_that_are_raced_are_there(module):
    raced = {way.backend for way in module("benchmarks.contenders").WAYS.values()}
    assert raced - {"example", "nn.GRU"} <= set(kernels.BACKENDS)
