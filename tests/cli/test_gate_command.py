"""``structviews gate``: its tables, the file that it leaves, and its errors."""

import pytest
from corpora import small_config, topic_corpus
from rich.console import Console
from shell import fails, shell_command

from structviews.runs.folder import GATE
from structviews.training.loop import train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def command(monkeypatch, capsysbinary, tmp_path):
    monkeypatch.setenv("COLUMNS", "100")
    return shell_command(monkeypatch, capsysbinary, tmp_path)


@pytest.fixture
def run(tmp_path):
    corpus = topic_corpus(tmp_path / "x.parsed", documents=60)
    return train(small_config(corpus, tmp_path / "run", epochs=2, held_out=0.2, pooling="mean"), Console(quiet=True))


def test_a_gate_is_fitted_shown_and_used(command, run, tmp_path):
    ended = command("gate", "run")
    assert ended.code == 0, ended.errors
    output = ended.output.decode()
    for expected in ("same weights for all", "concatenation", "gate's gain", "without a subordinate clause", "words"):
        assert expected in output
    lines = output.splitlines()
    for view in ("dep", "const"):
        assert lines.index(f"trust {view} most:") + 3 < len(lines)
    assert (run / GATE).is_file()
    gate = (run / GATE).read_bytes()
    again = command("gate", "run")
    assert again.output == ended.output
    assert (run / GATE).read_bytes() == gate
    assert command("verify", "run").output == b"run: no faults\n"


def test_errors(command, run, tmp_path):
    (tmp_path / "a.txt").write_text("The bird sings .\n")
    encode = ("encode", "run", "a.txt", "--join", "gate", "-o", "x.npy")
    error = fails(command, tmp_path, *encode)
    assert error == f"error: run: join = gate, but there is no {GATE}: fit one with `structviews gate run`"
    assert command("gate", "run", "--pooling", "vector").code == 0
    error = fails(command, tmp_path, *encode)
    assert error == (
        f"error: run/{GATE}: was fitted for the vectors vector, not mean: fit one with `structviews gate run`, or join "
        "otherwise"
    )
    error = fails(command, tmp_path, *encode, "--view-weights", "1,2")
    assert error == "error: view_weights = 1,2, but a gate weighs the views: give 1,1, or another join"
    assert "bundled models are read-only" in fails(command, tmp_path, "gate", "default")
    content = (run / GATE).read_bytes()
    (run / GATE).write_bytes(content[:-2])
    assert f"run/{GATE}: damaged" in fails(command, tmp_path, *encode)
    ended = command("verify", "run")
    assert (ended.code, ended.output.count(b"damaged")) == (1, 1)
