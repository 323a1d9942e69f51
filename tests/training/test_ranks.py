"""Two processes that train together, against one; gloo on the CPU."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ranks as worker
import torch
import torch.distributed as dist
from corpora import opened, small_config, topic_corpus, topic_rows, write_corpus
from safetensors.torch import load_file
from test_training import log_of, result
from tiny_encoders import encoder_folder, published_model

from structviews.pretrained.sentence_models import Teacher
from structviews.pretrained.stored_states import store_states
from structviews.runs.settings_file import Parsed, save_config
from structviews.training.checkpoint import Progress, extend, extended, read_progress
from structviews.training.loop import train
from structviews.training.ranks import Ranks
from structviews.training.trainer import Training

HERE = Path(__file__).parent
without_gloo = not (dist.is_available() and dist.is_gloo_available())
pytestmark = [pytest.mark.slow, pytest.mark.skipif(without_gloo, reason="needs PyTorch with gloo")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents of unequal numbers of sentences, and a teacher that has read them."""
    folder = tmp_path_factory.mktemp("corpus")
    path = topic_corpus(folder / "x.parsed", documents=13, sentences=5)
    store_states(opened(path), Teacher.open(str(published_model(folder))), lambda sentences, size: None)
    return path


def start(command, folder):
    """The two processes of a command, with the variables that torchrun sets."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}", "OMP_NUM_THREADS": "1"}
    common["TORCHELASTIC_RUN_ID"] = "test"
    environments = [os.environ | common | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    how = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen([sys.executable, *map(str, command)], env=each, **how) for each in environments]


def ended(processes):
    """Exit codes, and what was said on both streams by anybody."""
    said = [process.communicate(timeout=60) for process in processes]
    lines = [line for streams in said for text in streams for line in text.splitlines()]
    assert not any("Traceback" in line for line in lines), lines
    return [process.returncode for process in processes], [line for line in lines if "run  " not in line]


@pytest.fixture(scope="module")
def gradients(corpus, tmp_path_factory):
    """The folder with both ranks' gradients."""
    folder = tmp_path_factory.mktemp("gradients")
    codes, lines = ended(start([HERE.parent / "ranks.py", "gradients", corpus, folder], folder))
    assert (codes, lines) == ([0, 0], [])
    return folder


def steps_of(gradients, name):
    """For each step the rows of each rank's batches, and the results by name, which both ranks agree on."""
    rows = [json.loads((gradients / f"{name}.{rank}.json").read_text()) for rank in range(2)]
    results = [load_file(gradients / f"{name}.{rank}.safetensors") for rank in range(2)]
    assert results[0].keys() == results[1].keys()
    for number, batches in enumerate(zip(*rows, strict=True)):
        both = [
            {n.removeprefix(f"{number}."): t for n, t in each.items() if n.startswith(f"{number}.")} for each in results
        ]
        for key in both[0].keys() - {"loss"}:
            assert torch.equal(both[0][key], both[1][key])
        yield number, batches, both


def test_gathered_negatives_are_those_of_one_process(gradients, corpus, tmp_path):
    """Loss and gradients of two ranks are those of a single one with both batches, for every objective."""
    configs = worker.case_configs(corpus, tmp_path / "run")
    sizes = set()
    for name, config in configs.items():
        if not config.optimisation.gather_negatives:
            continue
        alone = worker.prepared(config)
        for number, (((first,), (second,))), both in steps_of(gradients, name):
            sizes.add((len(first), len(second)))
            torch.manual_seed(number)
            metrics, _ = alone.step(alone.data.reader.batch(np.array(first + second)))
            expected = worker.gradients(alone) | {"loss": metrics["trained"]["loss"]}
            for results in both:
                assert results.keys() == expected.keys()
                for key, value in expected.items():
                    close = {"rtol": 1e-10, "atol": 1e-12, "check_dtype": False, "msg": f"{name}: {key}"}
                    torch.testing.assert_close(results[key], torch.as_tensor(value), **close)
            assert any(gradient.abs().max() > 1e-6 for gradient in worker.gradients(alone).values())
    assert len(sizes) > 1, "batches of unequal sizes were not tried"


@pytest.mark.parametrize("name", ["own", "own-accumulated"])
def test_own_negatives_give_the_mean_of_the_batches(gradients, corpus, tmp_path, name):
    config = worker.case_configs(corpus, tmp_path / "run")[name]
    alone = worker.prepared(config.replaced(accumulate=1))
    for _, batches, (results, _) in steps_of(gradients, name):
        of_batches = []
        for rows in (rows for of_rank in batches for rows in of_rank):
            alone.step(alone.data.reader.batch(np.array(rows)))
            of_batches.append(worker.gradients(alone))
        for key in of_batches[0]:
            expected = torch.stack([each[key] for each in of_batches]).mean(dim=0)
            torch.testing.assert_close(results[key], expected, rtol=1e-10, atol=1e-12)


def settings(corpus, out, **others):
    return small_config(corpus, out, **{"epochs": 3, "batch_size": 8, "precision": "fp32"} | others)


def launch(config, folder):
    """``train`` with a configuration, on two ranks."""
    run = folder / f"{Path(config.data.out).name}-settings"
    run.mkdir()
    save_config(run, config, Parsed.of(opened(config.data.corpus)))
    return start(["-m", "structviews", "train", "--config", run / "config.toml"], folder)


def wait_for_step(run, step, process):
    until = time.monotonic() + 60
    log = run / "log.jsonl"
    while not log.exists() or log.read_bytes().count(b'"train"') < step:
        assert time.monotonic() < until, "waited too long"
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


@pytest.fixture(scope="module")
def stopped(corpus, tmp_path_factory):
    """A run of two ranks of which one was asked to stop, and what they said."""
    folder = tmp_path_factory.mktemp("stopped")
    run = folder / "run"
    processes = launch(settings(corpus, run, epochs=20), folder)
    wait_for_step(run, 5, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    return run, *ended(processes)


def test_a_signal_to_one_rank_stops_all(stopped):
    run, codes, lines = stopped
    place = read_progress(run)
    assert codes == [128 + signal.SIGTERM] * 2
    assert lines[-1] == f"stopped at step {place.step}, saved; run the same command again to resume"
    assert sum("stopped" in line for line in lines) == 1
    assert (place.ranks, place.finished) == (2, False)
    assert log_of(run, "train")[-1]["step"] == place.step


def test_as_many_ranks_go_on_as_if_nothing_had_been(stopped, corpus, tmp_path):
    run = shutil.copytree(stopped[0], tmp_path / "run")
    whole = tmp_path / "whole"
    for folder in (run, whole):
        assert ended(launch(settings(corpus, folder, epochs=20), tmp_path))[0] == [0, 0]
    assert result(run)[:2] == result(whole)[:2]


def test_words_of_an_encoder(corpus, tmp_path):
    """Their ids are no rows of a table, so no rank tells the others which ones it read."""
    encoder = str(encoder_folder(tmp_path / "encoder"))
    words = {"channels": ["trained", "contextual"], "encoder": encoder, "steps": 3}
    assert ended(launch(settings(corpus, tmp_path / "run", **words), tmp_path))[0] == [0, 0]
    assert log_of(tmp_path / "run", "train")[-1]["step"] == 3


@pytest.mark.parametrize("ranks", [1, 2])
def test_another_number_of_ranks_goes_on(stopped, corpus, tmp_path, ranks):
    """After a run of the other number of them; no step is left out, none taken twice."""
    if ranks == 1:
        run = shutil.copytree(stopped[0], tmp_path / "run")
        before = read_progress(run)
        train(settings(corpus, run, epochs=20))
    else:
        run = train(settings(corpus, tmp_path / "run", steps=9))
        before = read_progress(run)
        extend(extended(run, None, 0))
        assert ended(launch(settings(corpus, run), tmp_path))[0] == [0, 0]
    after = read_progress(run)
    assert (before.ranks, after.ranks, after.finished) == (3 - ranks, ranks, True)
    assert after.step > before.step
    assert [entry["step"] for entry in log_of(run, "train")] == list(range(1, after.step + 1))


def test_the_place_in_an_epoch_is_kept_to_a_step(corpus, tmp_path):
    made = Training(settings(corpus, tmp_path / "run", accumulate=2))
    length, of_two = made.data.epoch_length(1), made.data.epoch_length(1, 2)
    assert of_two < length
    (tmp_path / "run").mkdir()
    for batch in range(of_two):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("structviews.training.trainer.load_state", lambda *_, b=batch: Progress(7, 1, b, ranks=2))
            place = made.restore()
        assert place == Progress(7, 1, place.batch, ranks=1)
        assert place.batch % 2 == 0
        assert 0 <= batch / of_two - place.batch / length < 2 / length
        steps = list(made.steps(place))
        assert steps[-1].progress.step == made.data.last_step(place) == 7 + len(steps)


@pytest.mark.parametrize(
    ("task", "code", "message"),
    [("fail", 2, "error: this rank cannot go on"), ("die", -signal.SIGKILL, "error: another rank was killed (see")],
)
def test_an_error_of_one_rank_is_one_line(tmp_path, task, code, message):
    codes, (line,) = ended(start([HERE.parent / "ranks.py", task], tmp_path))
    assert codes == [2, code]
    assert line.startswith(message)


def test_sentences_that_unequal_shares_leave_out(tmp_path):
    """Documents of 30, 6 and 6 sentences make shares of 30 and 12."""
    rows = [replace(row, document=max(0, row.document - 4)) for row in topic_rows(documents=7, sentences=6)]
    config = settings(write_corpus(tmp_path / "x.parsed", rows), tmp_path / "run", held_out=0.0)
    assert Training(config).data.left_out == 0
    assert Training(config, Ranks(1, 2)).data.left_out == pytest.approx(1 - 2 * 12 / 42)


def test_every_rank_has_as_many_steps(corpus, tmp_path):
    for accumulate in (1, 2):
        config = settings(corpus, tmp_path / "run", accumulate=accumulate)
        made = [Training(config, Ranks(rank, 3)) for rank in range(3)]
        steps = [list(training.steps(Progress(ranks=3))) for training in made]
        assert {len(each) for each in steps} == {made[0].data.last_step()}
        documents = [{d for s in each for b in s.batches for d in b.document.tolist()} for each in steps]
        assert not any(documents[i] & documents[j] for i, j in ((0, 1), (0, 2), (1, 2)))
        assert [[s.progress for s in each] for each in steps[1:]] == [[s.progress for s in steps[0]]] * 2
