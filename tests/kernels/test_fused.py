"""The steps in Triton against those in PyTorch: on the GPU, or without one in Triton's interpreter."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from corpora import small_config, topic_corpus
from test_cells import CELLS, check_half_precision, in_single_precision, make, results_and_gradients
from trees_for_tests import SHAPES, WORD, chain, chain_to_the_left, random_sentence, star

from structviews.batches.batch import collate
from structviews.kernels import steps
from structviews.training.checkpoint import Progress
from structviews.training.trainer import Training

pytest.importorskip("triton", reason="needs triton")
from structviews.kernels import fused

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
needs_gpu = pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU")
cells = pytest.mark.parametrize("name", CELLS)
SOME = [star(9), WORD, chain(5), random_sentence(12, random.Random(0)), chain_to_the_left(4), star(3)]
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}


def on_device(name, some, **sizes):
    """A cell, word vectors, words and batch, see ``make``."""
    cell, vectors, _, batch = make(name, some, **sizes)
    batch = batch.to(DEVICE)
    return cell.to(DEVICE), vectors.detach().to(DEVICE).requires_grad_(), batch.ids["words"], batch


@pytest.mark.parametrize(
    ("dtype", "size", "some"),
    [
        *((torch.float64, 5, some) for some in (SOME, [WORD, WORD], SHAPES["pair"])),
        (torch.float32, 33, SOME),
        (torch.bfloat16, 48, SOME),
        (torch.float64, 300, [star(3), chain(3)]),  # more columns than a program takes
    ],
)
@pytest.mark.parametrize("name", ["dep", "dep-sum", "dep-rel", "const"])
@pytest.mark.filterwarnings("ignore:invalid value")  # the interpreter's, of numbers that nobody keeps
def test_fused_steps_are_those_of_pytorch(name, dtype, size, some, monkeypatch):
    """Forwards and backwards, in batches whose levels have many nodes, few, one, and none."""
    cell, vectors, *others = on_device(name, some, input_dim=3, hidden=size)
    made = cell.to(dtype), vectors.detach().to(dtype).requires_grad_(), *others
    outcomes = []
    for module in (fused, steps):
        monkeypatch.setattr(steps, "on", lambda _, module=module: module)
        outcomes.append(results_and_gradients(*made, "level"))
    found, expected = outcomes
    for what, value in expected.items():
        if value is not None and what != "key.bias":  # what that gets all but cancels
            assert value.isfinite().all()
            assert found[what].dtype == value.dtype
            error = (found[what] - value).double().norm()
            assert error <= TOLERANCES[dtype] * value.double().norm(), what


@pytest.mark.filterwarnings("ignore:invalid value")
def test_attention_of_more_nodes_than_a_program_takes():
    trees = collate([star(4)] * 5 + [chain(2)] * fused.NODES, {}, ["dependency"]).to(DEVICE).dependency
    (level,) = trees.upper_levels()

    query, key = (torch.randn(n, 2, dtype=torch.float64).to(DEVICE) for n in (level.siblings[0], 9))
    children = torch.randint(9, (len(level.parent),)).to(DEVICE)
    for found, expected in zip(*(module.attend(level, children, query, key) for module in (fused, steps)), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


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


@needs_gpu
@cells
def test_half_precision_is_within_two_percent_on_a_gpu(name):
    assert steps.on(DEVICE) is fused
    made = on_device(name, SHAPES["random"], input_dim=32, hidden=64)
    check_half_precision(in_single_precision(*made), of_key_bias=0.1)


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
