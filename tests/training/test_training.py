import io
import json
import os
import signal
import sys
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import opened, random_trees, small_config, topic_corpus
from rich.console import Console
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode

from structviews.batches.reader import held_out
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.kernels import message_passing
from structviews.kernels.cells import run_nodes
from structviews.runs.folder import append_log, cut_log, read_log
from structviews.runs.settings_file import Parsed, load_run, save_config
from structviews.runtime.processes import Interrupted
from structviews.training.checkpoint import Progress, extend, extended, read_progress
from structviews.training.loop import estimate, train
from structviews.training.reporting import cosines
from structviews.training.trainer import Training

# 88 training sentences and batches of 16: 5 whole ones and a rest, in the third epoch none.
STEPS_AN_EPOCH = 6
STEPS = 17
needs_dgl = pytest.mark.skipif(find_spec("dgl") is None, reason="needs structviews[dgl]")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def config(topics, tmp_path):
    return small_config(topics, tmp_path / "run", epochs=3, validate_every=4)


def log_of(run, kind=None):
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [entry for entry in entries if kind in (None, entry["kind"])]


def result(run):
    """All that training leaves, but for rates of progress, which no two runs share."""
    (state,) = (run / "state").glob("step-*.safetensors")  # a kill may leave what was being written
    log = [{k: v for k, v in entry.items() if k != "sentences_per_second"} for entry in log_of(run)]
    paths = (run / "model.safetensors", state, run / "words.safetensors")
    files = {path.name: path.read_bytes() for path in paths}
    return files, log, load_run(run)


def quietly(config):
    screen = io.StringIO()
    return train(config, Console(file=screen, width=200)), screen.getvalue()


def test_parts_make_the_whole_bit_for_bit(config, tmp_path):
    whole_files, whole_log, whole_settings = result(train(config))
    assert whole_log[-1]["step"] == Training(config).data.last_step() == STEPS
    for step in (1, STEPS_AN_EPOCH):
        parts = tmp_path / f"parts-{step}"
        train(config.replaced(out=str(parts), steps=step))
        assert read_progress(parts).step == step
        extend(extended(parts, epochs=None, steps=0))
        files, log, settings = result(train(extended(parts, None, None)))
        assert files == whole_files
        assert settings == whole_settings
        # The end of the first part has a validation, where the whole has none.
        own = [entry for entry in log if entry["kind"] == "validation" and entry not in whole_log]
        assert [entry["step"] for entry in own] == ([step] if step == 1 else [])
        assert [entry for entry in log if entry not in own] == whole_log
    begun = tmp_path / "begun"  # but killed before its first checkpoint
    begun.mkdir()
    save_config(begun, config, Parsed.of(opened(config.data.corpus)))
    (begun / "log.jsonl").write_text('{"kind": "train", "step": 1}\n')
    assert result(train(config.replaced(out=str(begun)))) == (whole_files, whole_log, whole_settings)


def test_a_stop_changes_nothing(config, monkeypatch):
    """Between checkpoints, of which the stop's is the first, and at the last step."""
    whole, config = (config.replaced(epochs=5, steps=8, out=config.data.out + end) for end in ("-whole", ""))
    expected = result(train(whole))
    step, taken, stops = Training.step, [], (1, 2, 8)

    def interrupted(self, *batches, **words):
        taken.append(batches)
        if len(taken) in stops:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *batches, **words)

    monkeypatch.setattr(Training, "step", interrupted)
    for number in stops:
        with pytest.raises(Interrupted) as stop:
            train(config)
        assert (stop.value.signal, stop.value.step) == (signal.SIGTERM, number)
        assert not read_progress(Path(config.data.out)).finished
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert result(train(config)) == expected
    assert len(taken) == 8


def test_other_settings_or_another_corpus_need_another_folder(tmp_path):
    """A finished run is left alone."""
    corpus = topic_corpus(tmp_path / "x.parsed")
    config = small_config(corpus, tmp_path / "run", steps=2)
    run = train(config)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert quietly(config) == (run, f"{run}: already trained\n")
    with pytest.raises(InputError, match=r"run: already has a run with hidden = 8 \(you asked for 10\): .*--out"):
        train(small_config(corpus, run, steps=2, hidden=10))
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    extend(extended(run, None, 4))
    unfinished = result(run)
    corpus.rename(tmp_path / "old.parsed")
    topic_corpus(tmp_path / "x.parsed", documents=13)
    with pytest.raises(InputError, match=r"run: was trained on another version of .*x\.parsed: .*--out"):
        train(extended(run, None, None))
    assert result(run) == unfinished


@pytest.mark.parametrize("backend", ["naive", pytest.param("dgl", marks=needs_dgl)])
def test_the_tree_backend_is_no_setting_of_the_run(topics, tmp_path, backend, monkeypatch):
    def settings(out, **others):
        return small_config(topics, tmp_path / out, steps=3, precision="fp32", **others)

    calls = []
    monkeypatch.setattr(message_passing, "run", lambda *arguments: calls.append(1) or run_nodes(*arguments))
    run = train(settings("run", tree_backend=backend))
    assert bool(calls) == (backend == "dgl")
    assert quietly(settings("run")) == (run, f"{run}: already trained\n")
    weights = load_file(train(settings("level")) / "model.safetensors")
    for name, weight in load_file(run / "model.safetensors").items():
        torch.testing.assert_close(weight, weights[name], rtol=0, atol=1e-4)
    monkeypatch.setitem(sys.modules, "dgl", None)  # encoding does without
    assert Embedder.load(run).encode([random_trees(["topic1-2", "of"])]).shape == (1, 16)


def test_neighbours_are_found_in_a_corpus_of_topics(tmp_path):
    """Two sentences a document, and no two documents share a topic's words."""
    corpus = topic_corpus(tmp_path / "x.parsed", documents=60, sentences=2)
    run = train(small_config(corpus, tmp_path / "run", ("bow", "avg"), epochs=30, held_out=0.05, hidden=16))
    log = log_of(run, "train")
    first, last = log[:6], log[-6:]

    def mean(entries, name):
        return np.mean([entry[name] for entry in entries])

    assert mean(last, "loss") < 0.5 * mean(first, "loss")
    assert mean(last, "accuracy") > 3 * mean(last, "chance_accuracy")
    assert abs(mean(first, "loss") - mean(first, "chance_loss")) < 0.3


class Operations(TorchDispatchMode):
    """Notes the operations that run."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


# Not seq: a packed sequence has its sizes on the CPU, where PyTorch reads them.
@pytest.mark.parametrize("views", [("dep", "const"), ("dep-gru", "const-gru"), ("dep-sum", "dep-rel"), ("bow", "bow")])
def test_a_step_asks_the_device_for_nothing(config, views):
    """No value and no size that depends on values; sorting a sparse gradient needs such a size."""
    made = Training(small_config(config.data.corpus, config.data.out, views))
    batches = [step.batches[0] for step in islice(made.steps(Progress()), 3)]
    with Operations() as ran:
        for batch in batches:
            made.step(batch)
    waiting = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_coalesce"}
    assert not ran.names & (waiting | {name for name in ran.names if "unique" in name})
    assert "_fused_adam_" in ran.names


def test_held_out_documents_are_never_trained_on(config, monkeypatch):
    made = Training(config.replaced(seed=2, held_out=0.3))
    documents = made.data.reader.documents()
    left_out = set(documents[held_out(documents, 2, 0.3)].tolist())
    assert 0 < len(left_out) < 12
    batches = [batch for step in made.steps(Progress()) for batch in step.batches]
    assert set().union(*(batch.document.tolist() for batch in batches)) == set(range(12)) - left_out
    validated, losses = [], made.losses
    monkeypatch.setattr(made, "losses", lambda batch: validated.append(batch) or losses(batch))
    made.validate()
    assert set().union(*(batch.document.tolist() for batch in validated)) == left_out


def test_a_validation_is_the_mean_over_its_anchors(config):
    made, alone = (Training(config.replaced(held_out=0.3)) for _ in range(2))
    rows, size = made.data.held_out_rows, config.optimisation.batch_size
    sums, anchors = {"loss": 0.0, "accuracy": 0.0, "chance_loss": 0.0}, 0
    for start in range(0, len(rows), size):
        batch = alone.data.reader.batch(rows[start : start + size])
        _, metrics, _ = alone.losses(batch)
        places = set(zip(batch.document.tolist(), batch.position.tolist(), strict=True))
        n = sum((d, p - 1) in places or (d, p + 1) in places for d, p in places)
        anchors += n
        for name in sums:
            sums[name] += n * float(metrics["trained"][name])
    assert len(rows) > size
    assert {n: made.validate()[n] for n in sums} == pytest.approx({n: s / anchors for n, s in sums.items()})


@pytest.mark.parametrize(("log_every", "rate"), [(1, 1e30), (1000, 1e39)])
def test_a_loss_that_is_no_number_keeps_the_last_checkpoint(config, log_every, rate, monkeypatch, one_line):
    """There is a checkpoint after each step; the weights explode at the sixth, within or beyond a float's range."""
    config = small_config(config.data.corpus, config.data.out, epochs=4, log_every=log_every, checkpoint_minutes=1e-9)
    run, step, taken = Path(config.data.out), Training.step, []

    def explosive(self, *batches, **words):
        taken.append(batches)
        if len(taken) == 6:
            self.optimiser.param_groups[0]["lr"] = rate
        return step(self, *batches, **words)

    monkeypatch.setattr(Training, "step", explosive)
    with one_line(r"run: (the loss|a weight) is NaN or infinite .*step \d+.*: give a lower --lr; .* kept"):
        train(config)
    assert 5 <= read_progress(run).step < len(taken) <= 8
    assert all(tensor.isfinite().all() for tensor in load_file(run / "model.safetensors").values())


@pytest.mark.parametrize("dense", [False, True])
def test_words_that_are_not_in_the_batch_move_with_dense_adam_alone(config, dense):
    training = Training(config.replaced(views=("seq", "bow"), dense_adam=dense))
    table = training.model.channels["trained"].words[0].weight
    plain = torch.nn.Parameter(table.detach().clone())
    oracle = torch.optim.Adam([plain], config.optimisation.lr)
    for step in islice(training.steps(Progress()), 4):
        before = table.detach().clone()
        training.step(*step.batches)
        plain.grad = table.grad.to_dense().clone()
        oracle.step()
        moved = (table != before).any(dim=1)
        assert moved[step.words["trained"]].all()
        absent = np.setdiff1d(np.arange(len(before)), step.words["trained"])
        assert moved[absent].any() == (dense and step.progress.step > 1)
    if dense:
        torch.testing.assert_close(table, plain)


def test_the_log_has_its_lines_at_their_steps(config):
    """Which metrics a line has, test_objectives_in_training.py says for each objective."""
    run = train(config.replaced(epochs=2, log_every=3, validate_every=5))
    for entry in log_of(run, "train"):
        assert entry["chance_loss"] in [pytest.approx(np.log(n - 1), abs=1e-5) for n in (16, 8)]
        assert all(-1 <= entry[name] <= 1 for name in ("cos_ff", "cos_gg", "cos_fg"))
    assert [(e["kind"][0], e["step"], e["epoch"]) for e in log_of(run)] == [
        ("t", 3, 0), ("v", 5, 0), ("t", 6, 1), ("v", 6, 1), ("t", 9, 1), ("v", 10, 1), ("t", 12, 2), ("v", 12, 2),
    ]  # fmt: skip


def test_cosines_are_means_over_pairs():
    f, g = torch.randn(5, 3), torch.randn(5, 3)
    others = [(i, j) for i in range(5) for j in range(5) if i != j]

    def mean(pairs):
        return np.mean([torch.nn.functional.cosine_similarity(a, b, dim=0).item() for a, b in pairs])

    expected = {f"cos_{name}{name}": mean((v[i], v[j]) for i, j in others) for name, v in (("f", f), ("g", g))}
    assert cosines([f, g]) == pytest.approx(expected | {"cos_fg": mean(zip(f, g, strict=True))}, abs=1e-5)


def test_a_log_is_cut_behind_the_step_to_go_on_from(tmp_path):
    lines = [f'{{"kind": "train", "step": {step}, "epoch": 0, "loss": 1.5}}\n' for step in range(1, 6)]
    damaged = ["\n", '{"kind": "train", "step": 2, "epoch": 0, "loss": "\n', '{"kind": 7}\n', "[" * 10**5 + "\n"]
    (tmp_path / "log.jsonl").write_text("".join([*lines[:2], *damaged, *lines[2:], '{"kind": "tr']))
    cut_log(tmp_path, 3)
    assert (tmp_path / "log.jsonl").read_text() == "".join(lines[:3])
    append_log(tmp_path, {"kind": "validation", "step": 4, "epoch": 0}, {"loss": float("nan"), "accuracy": 0.5})
    assert read_log(tmp_path)[3] == {"kind": "validation", "step": 4, "epoch": 0, "accuracy": 0.5}
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_an_estimate_writes_nothing(config, tmp_path):
    needed = estimate(config)
    assert needed.steps == STEPS
    assert needed.parameters == sum(p.numel() for p in Training(config).model.parameters())
    assert needed.gigabytes == pytest.approx(4 * 4 * needed.parameters / 1e9)
    assert min(needed.seconds, needed.sentences_per_second) > 0
    assert list(tmp_path.iterdir()) == []
