import pytest
import torch
from torch import nn

from structviews.runtime.device import Unfilled


def make():
    """A module of each kind of weights in use."""
    linear = nn.Linear(4, 5)
    nn.init.xavier_uniform_(linear.weight[:, :2])
    nn.init.kaiming_normal_(linear.weight)
    nn.init.normal_(tensor=linear.bias)
    return nn.ModuleList([linear, nn.Embedding(7, 3), nn.GRU(4, 5), nn.LayerNorm(4), nn.Conv1d(2, 2, 3)])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_no_random_numbers_are_drawn(device):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with torch.device(device), Unfilled():
        modules = make()
    assert torch.equal(torch.get_rng_state(), before)
    make()
    assert not torch.equal(torch.get_rng_state(), before)
    assert {name: each.shape for name, each in modules.state_dict().items()} == {
        name: each.shape for name, each in make().state_dict().items()
    }


def test_what_is_not_random_is_filled():
    with Unfilled():
        norm = nn.LayerNorm(4)
        ones = nn.init.ones_(torch.empty(3))
    assert norm.weight.tolist() == [1] * 4
    assert norm.bias.tolist() == [0] * 4
    assert ones.tolist() == [1] * 3
