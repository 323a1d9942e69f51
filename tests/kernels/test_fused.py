"""The steps in Triton against those in PyTorch: on the GPU, or without one in Triton's interpreter."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from corpora import small_config, topic_corpus
from test_cells import CELLS, in_single_precision, make, results_and_gradients
from trees_for_tests import (
    SHAPES,
    WORD,
    chain,
    chain_to_the_left,
    random_sentence,
    star,
)

from structviews.batches.batch import collate
from structviews.kernels import steps
from structviews.training.checkpoint import Progress
from structviews.training.trainer import Training

pytest.importorskip("triton", reason="needs triton")
from structviews.kernels import fused

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
needs_gpu = pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU")
cells = pytest.mark.parametrize("name", CELLS)
SOME = [star(9), WORD, chain(5), random_sentence(20, random.Random(0)), chain_to_the_left(4), star(3)]
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}
# 300 columns are more than a program takes.
types_and_sizes = pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float64, 5), (torch.float64, 33), (torch.float32, 33), (torch.bfloat16, 48), (torch.float64, 300)],
    ids=str,
)


def levels():
    """The lowest level of ``SOME``, where the wide ones are, and the highest, which has one node."""
    trees = collate(SOME, {}, ["dependency"]).to(DEVICE).dependency
    first, *_, last = trees.upper_levels()
    assert len(first.siblings) > 2
    assert last.siblings[0] == 1
    return [first, last]


def some_rows(n):
    """Rows of tables of nine, as those of children are."""
    return torch.randint(9, (n,)).to(DEVICE)


def random_tensor(*shape, dtype):
    return torch.randn(shape, dtype=torch.float64).to(DEVICE, dtype)


def unwritten(*shape, dtype):
    return torch.full(shape, torch.nan, device=DEVICE, dtype=dtype)


def check_same(step, make_arguments, dtype):
    """A step gives the same, and leaves its arguments the same."""
    outcomes = []
    for module in (fused, steps):
        torch.manual_seed(2)
        arguments = make_arguments()
        result = getattr(module, step)(*arguments)
        outcomes.append((result, arguments))
    check_close(*outcomes, TOLERANCES[dtype])


def check_close(actual, expected, tolerance):
    if isinstance(expected, torch.Tensor):
        assert expected.isfinite().all()
        assert actual.dtype == expected.dtype
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    elif isinstance(expected, tuple):
        for one, other in zip(actual, expected, strict=True):
            check_close(one, other, tolerance)


@types_and_sizes
@pytest.mark.parametrize("n", [1, 4])
def test_gates(n, dtype, size):
    wide = steps.working_dtype(dtype)

    def forwards():
        gates, c = random_tensor(n, 3 * size, dtype=dtype), random_tensor(n, size, dtype=wide)
        return gates, c, unwritten(n, size, dtype=dtype)

    def backwards():
        gates, c, _ = forwards()
        d_h, d_c = random_tensor(n, size, dtype=dtype), random_tensor(n, size, dtype=wide)
        return gates.sigmoid(), c, d_h, d_c, unwritten(*gates.shape, dtype=dtype)

    check_same("open_gates", forwards, dtype)
    check_same("close_gates", backwards, dtype)


@types_and_sizes
@pytest.mark.parametrize("n", [1, 4])
def test_gates_of_pairs(n, dtype, size):
    wide, nodes = steps.working_dtype(dtype), slice(9, 9 + n)

    def forwards():
        children = torch.randint(9, (n, 2)).to(DEVICE)
        sent, c = random_tensor(9 + n, 5 * size, dtype=dtype), random_tensor(9 + n, size, dtype=wide)
        gates, h = unwritten(n, 5 * size, dtype=dtype), unwritten(n, size, dtype=dtype)
        return children, sent, c, gates, nodes, h

    def backwards():
        children, _, c, *_ = forwards()
        gates = torch.rand(n, 5 * size).to(DEVICE, dtype)
        d_h, d_c = random_tensor(n, size, dtype=dtype), random_tensor(n, size, dtype=wide)
        d_gates, below = unwritten(n, 5 * size, dtype=dtype), unwritten(n, 2, size, dtype=wide)
        return children, c, gates, nodes, d_h, d_c, d_gates, below

    check_same("open_pairs", forwards, dtype)
    check_same("close_pairs", backwards, dtype)


@types_and_sizes
@pytest.mark.parametrize("attention", [False, True])
def test_sums_over_children(attention, dtype, size):
    wide = steps.working_dtype(dtype)
    for level in levels():
        n_nodes, n_edges = level.siblings[0], len(level.parent)

        def forwards(level=level, n_nodes=n_nodes, n_edges=n_edges):
            sent, own = random_tensor(9, 2 * size, dtype=dtype), random_tensor(n_nodes, 2 * size, dtype=dtype)
            h, c = random_tensor(9, size, dtype=dtype), random_tensor(9, size, dtype=wide)
            weight = torch.rand(n_edges).to(DEVICE, wide) if attention else None
            into = unwritten(n_edges, size, dtype=dtype), unwritten(n_nodes, size, dtype=dtype)
            into = *into, unwritten(n_nodes, size, dtype=wide)
            return level, some_rows(n_edges), (sent[:, :size], own[:, :size]), (h, c), weight, into

        def backwards(level=level, n_nodes=n_nodes, n_edges=n_edges):
            _, children, _, (_, c), weight, _ = forwards(level, n_nodes, n_edges)
            forget = torch.rand(n_edges, size).to(DEVICE, dtype)
            d_h_sum, d_c = random_tensor(n_nodes, size, dtype=dtype), random_tensor(n_nodes, size, dtype=wide)
            below = unwritten(n_edges, size, dtype=dtype), unwritten(n_edges, size, dtype=wide)
            d_forget, d_own = unwritten(n_edges, size, dtype=dtype), unwritten(n_nodes, 2 * size, dtype=dtype)
            return level, children, forget, c, weight, (d_h_sum, d_c), (*below, d_forget, d_own[:, :size])

        check_same("sum_children", forwards, dtype)
        check_same("spread_to_children", backwards, dtype)


@types_and_sizes
@pytest.mark.filterwarnings("ignore:invalid value")  # the interpreter's, of numbers that nobody keeps
def test_attention(dtype, size):
    wide = steps.working_dtype(dtype)
    for level in levels():
        n_nodes, n_edges = level.siblings[0], len(level.parent)

        def forwards(level=level, n_nodes=n_nodes, n_edges=n_edges):
            key, query = random_tensor(9, 2 * size, dtype=dtype), random_tensor(n_nodes, 2 * size, dtype=dtype)
            return level, some_rows(n_edges), query[:, size:], key[:, size:]

        def backwards(level=level, n_nodes=n_nodes, n_edges=n_edges):
            _, children, query, key = forwards(level, n_nodes, n_edges)
            attention = steps.attend(level, children, query, key)
            h, d_h_sum = random_tensor(9, size, dtype=dtype), random_tensor(n_nodes, size, dtype=dtype)
            # As the gradient of a sum is: one number, as often as needed.
            d_weight = torch.ones((), dtype=wide, device=DEVICE).expand(n_edges)
            into = tuple(unwritten(n, 2 * size, dtype=dtype)[:, size:] for n in (n_nodes, n_edges))
            return level, children, (query, key), attention, h, (d_h_sum, d_weight), into

        check_same("attend", forwards, dtype)
        check_same("attend_backward", backwards, dtype)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_attention_of_more_nodes_than_a_program_takes():
    trees = collate([star(4)] * 5 + [chain(2)] * fused.NODES, {}, ["dependency"]).to(DEVICE).dependency
    (level,) = trees.upper_levels()

    def arguments():
        query, key = random_tensor(level.siblings[0], 2, dtype=torch.float64), random_tensor(9, 2, dtype=torch.float64)
        return level, some_rows(len(level.parent)), query, key

    check_same("attend", arguments, torch.float64)


def on_device(name, some, **sizes):
    """A cell, word vectors, words and batch, see ``make``."""
    cell, vectors, _, batch = make(name, some, **sizes)
    batch = batch.to(DEVICE)
    return cell.to(DEVICE), vectors.detach().to(DEVICE).requires_grad_(), batch.ids["words"], batch


@cells
@pytest.mark.parametrize("some", [[WORD, WORD], [chain(2), star(2)], SOME], ids=len)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_fused_cells_are_naive(name, some, monkeypatch):
    monkeypatch.setattr(steps, "on", lambda _: fused)
    made = on_device(name, some)
    fast, naive = (results_and_gradients(*made, backend) for backend in ("level", "naive"))
    for what, expected in naive.items():
        if expected is not None:
            torch.testing.assert_close(fast[what], expected, rtol=0, atol=1e-10, msg=lambda m, w=what: f"{w}: {m}")


@pytest.mark.skipif(DEVICE.type == "cuda", reason="the other tests compile them")
def test_the_kernels_compile_without_a_gpu(tmp_path):
    here = Path(__file__).parent
    environment = os.environ | {
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(map(str, (here, here.parent, *sys.path))),
    }
    command = [sys.executable, here / "compile_fused.py"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    names = {name for name, value in vars(fused).items() if "block" in getattr(value, "arg_names", ())}
    assert set(run.stdout.split()) == names
    assert len(names) == 10


def test_a_cpu_has_the_steps_in_pytorch():
    assert steps.on(torch.device("cpu")) is steps


@needs_gpu
def test_a_gpu_has_the_fused_steps():
    assert steps.on(DEVICE) is fused


@needs_gpu
@cells
def test_half_precision_is_within_two_percent_on_a_gpu(name):
    made = in_single_precision(*on_device(name, SHAPES["random"], input_dim=32, hidden=64))
    exact = results_and_gradients(*made, "level")
    with torch.autocast("cuda", torch.bfloat16):
        half = results_and_gradients(*made, "level")
    for what, expected in exact.items():
        if expected is not None:
            error = (half[what] - expected).norm() / expected.norm()
            assert 1e-5 < error < (0.1 if what == "key.bias" else 0.02), (what, error)


@needs_gpu
@cells
def test_results_are_the_same_every_time_on_a_gpu(name):
    made = on_device(name, SHAPES["random"])
    once, again = (results_and_gradients(*made, "level") for _ in range(2))
    for what, expected in once.items():
        assert expected is None or torch.equal(again[what], expected), what


@needs_gpu
@pytest.mark.parametrize("views", [("dep", "const"), ("seq", "avg")], ids=",".join)
def test_no_step_of_training_waits_for_the_gpu(views, tmp_path):
    training = Training(small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "run", views=views))
    steps = training.steps(Progress())
    training.step(*next(steps).batches)  # compiles, and makes what the optimiser remembers
    batches = next(steps).batches
    try:
        torch.cuda.set_sync_debug_mode("error")
        metrics, _ = training.step(*batches)
        with pytest.raises(RuntimeError, match="synchronizing"):  # what any wait would have raised
            metrics["trained"]["loss"].item()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert metrics["trained"]["loss"].isfinite()
