import pickle

import pytest
import torch
from torch import nn
from unpickled import Touch

from structviews.errors import InputError
from structviews.runs.weights import load_weights, write_weights
from structviews.training.checkpoint import Progress, load_state, random_state, read_progress, save_state

PLACE = Progress(step=12, epoch=1, batch=3)


def model_and_optimiser(seed=0, width=3):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, width), nn.Linear(width, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.1, fused=True)


def state_file(run):
    (path,) = (run / "state").glob("step-*.safetensors")
    return path


@pytest.fixture
def run(tmp_path):
    """A run two steps in."""
    model, optimiser = model_and_optimiser()
    for _ in range(2):
        optimiser.zero_grad()
        model(torch.randn(4, 2)).square().sum().backward()
        optimiser.step()
    save_state(tmp_path, model, optimiser, PLACE, random_state()[None])
    write_weights(tmp_path, model.state_dict())
    return tmp_path


def test_a_run_without_a_state(tmp_path):
    assert read_progress(tmp_path) is None
    assert load_state(tmp_path, *model_and_optimiser()) == Progress()
    with pytest.raises(InputError, match=r"model\.safetensors: no such file: .*no checkpoint yet"):
        load_weights(tmp_path, model_and_optimiser()[0])


def test_an_older_state_goes_once_the_newer_is_whole(run, monkeypatch):
    older = state_file(run)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            save_state(run, *model_and_optimiser(), Progress(step=1_000_000_000), random_state()[None])
        with pytest.raises(OSError, match="No space left"):
            write_weights(run, model_and_optimiser()[0].state_dict())
    assert sorted(p.name for p in run.rglob("*") if p.is_file()) == ["model.safetensors", older.name]
    assert read_progress(run) == PLACE
    save_state(run, *model_and_optimiser(), Progress(step=13), random_state()[None])
    assert state_file(run) != older


def refused(run, message, width=3):
    """Neither file is believed."""
    model, optimiser = model_and_optimiser(width=width)
    for act in (lambda: load_state(run, model, optimiser), lambda: load_weights(run, model)):
        with pytest.raises(InputError, match=message) as error:
            act()
        assert "\n" not in str(error.value)


def test_files_of_another_model_are_one_line(run):
    refused(run, r"has shape|size mismatch", width=4)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (lambda thing, path: path.write_bytes(pickle.dumps(thing)), lambda path: pickle.loads(path.read_bytes())),
        (torch.save, lambda path: torch.load(path.rename(path.with_suffix(".pt")), weights_only=False)),
    ],
)
def test_no_file_can_execute_code(run, write, read):
    for path in (state_file(run), run / "model.safetensors"):
        write(Touch(run / "executed"), path)
    refused(run, "damaged")
    assert not (run / "executed").exists()
    read(run / "model.safetensors")  # does it, loaded in another way
    assert (run / "executed").exists()
