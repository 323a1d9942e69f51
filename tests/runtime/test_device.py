"""What the machine can do decides only where it is asked to."""

import pytest
import torch

from structviews.errors import InputError
from structviews.runtime import device


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_auto_is_half_precision_where_the_device_multiplies_it(monkeypatch, kind, able):
    monkeypatch.setattr(device, "multiplies_half", lambda where: able and where.type == kind)
    here = torch.device(kind)
    assert [device.half_precision(precision, here) for precision in ("auto", "bf16", "fp32")] == [able, True, False]


def test_an_unknown_precision_is_refused():
    with pytest.raises(InputError, match="'fp8': choose one of auto, fp32, bf16"):
        device.half_precision("fp8", torch.device("cpu"))


def test_sending_to_the_cpu_copies_nothing():
    tensor = torch.arange(3)
    assert device.send(tensor, torch.device("cpu")) is tensor


def test_a_named_device_is_the_best_one_for_a_while():
    before = device.best_device()
    with device.using("meta"):
        assert device.best_device() == torch.device("meta")
        with device.using(""):
            assert device.best_device() == torch.device("meta")
    assert device.best_device() == before


@pytest.mark.parametrize(
    ("name", "reason"), [("gpu", "no such device"), ("cuda:x", "no such device"), ("cuda:99", ".*")]
)
def test_a_device_that_cannot_be_used(name, reason):
    with pytest.raises(InputError, match=f"^--device {name}: {reason}: give cpu, or cuda"), device.using(name):
        pass
