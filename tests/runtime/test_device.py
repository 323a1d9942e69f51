"""What the machine can do decides only where it is asked to; unfilled weights cost no random numbers."""

import pytest
import torch
from torch import nn

from structviews.errors import InputError
from structviews.runtime import device
from structviews.runtime.device import Unfilled


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_auto_is_half_precision_where_the_device_multiplies_it(monkeypatch, kind):
    monkeypatch.setattr(device, "multiplies_half", lambda where: where.type == "cpu")
    found = [device.half_precision(precision, torch.device(kind)) for precision in ("auto", "bf16", "fp32")]
    assert found == [kind == "cpu", True, False]


def test_a_named_device_is_the_best_one_for_a_while():
    before = device.best_device()
    with device.using("meta"):
        assert device.best_device() == torch.device("meta")
        with device.using(""):
            assert device.best_device() == torch.device("meta")
    assert device.best_device() == before


def test_a_device_that_cannot_be_used():
    for name, reason in (("gpu", "no such device"), ("cuda:x", "no such device"), ("cuda:99", ".*")):
        with pytest.raises(InputError, match=f"^--device {name}: {reason}: give cpu, or cuda"), device.using(name):
            pass


def modules_of_all_kinds():
    linear = nn.Linear(4, 5)
    nn.init.xavier_uniform_(linear.weight[:, :2])
    nn.init.kaiming_normal_(linear.weight)
    nn.init.normal_(tensor=linear.bias)
    return nn.ModuleList([linear, nn.Embedding(7, 3), nn.GRU(4, 5), nn.LayerNorm(4), nn.Conv1d(2, 2, 3)])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_no_random_numbers_are_drawn(device):
    before = torch.get_rng_state()
    with torch.device(device), Unfilled():
        norm = modules_of_all_kinds()[3]
    assert torch.equal(torch.get_rng_state(), before)
    modules_of_all_kinds()
    assert not torch.equal(torch.get_rng_state(), before)
    if device == "cpu":  # what is not random is filled
        assert (norm.weight.tolist(), norm.bias.tolist()) == ([1] * 4, [0] * 4)
