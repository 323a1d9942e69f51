import math

import pytest
import torch
from torch import nn

from structviews.initialisation import xavier
from structviews.kernels import BinaryCell, ChildSumCell


def bound(rows, columns):
    return math.sqrt(6 / (rows + columns))


@pytest.mark.parametrize("gates", [1, 3])
def test_each_gate_is_drawn_as_a_matrix_of_its_own(gates):
    layer = nn.Linear(40, 30 * gates)
    nn.init.ones_(layer.bias)
    xavier(layer, {"weight": gates})
    assert not layer.bias.any()
    for gate in layer.weight.chunk(gates):
        assert 0.97 * bound(30, 40) < gate.abs().max() <= bound(30, 40)
        assert gate.mean().abs() < 0.05 * bound(30, 40)


@pytest.mark.parametrize("cell", [ChildSumCell(40, 30, attention=True), BinaryCell(40, 30)])
def test_a_cell_starts_with_xavier_gates_and_zero_biases(cell):
    for name, parameter in cell.named_parameters():
        if parameter.dim() < 2:
            assert not parameter.any(), name
        else:
            limit = bound(30, parameter.shape[1])
            assert 0.97 * limit < parameter.abs().max() <= limit, name


def test_only_the_seed_decides():
    torch.manual_seed(3)
    one = BinaryCell(4, 3).state_dict()
    torch.manual_seed(3)
    other = BinaryCell(4, 3).state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
