import math

import pytest
import torch
from torch import nn

from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.child_sum_gru import ChildSumGruCell
from structviews.kernels.initialisation import he, open_gates, xavier
from structviews.kernels.nary import BinaryCell
from structviews.kernels.nary_gru import BinaryGruCell
from structviews.model import Channel
from structviews.views import VIEWS
from structviews.views.view import create_view


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


@pytest.mark.parametrize(
    "cell",
    [ChildSumCell(40, 30, attention=True), BinaryCell(40, 30), ChildSumGruCell(40, 30), BinaryGruCell(40, 30)],
    ids=lambda cell: type(cell).__name__,
)
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


@pytest.mark.parametrize("name", ["avg", "seq", "dep", "const", "dep-gru", "const-gru"])
def test_he_draws_each_weight_by_the_number_of_its_inputs(name):
    view = create_view(name, 50, 60)
    before = [parameter.detach().clone() for parameter in view.parameters()]
    he(view)
    for (what, parameter), old in zip(view.named_parameters(), before, strict=True):
        if parameter.dim() < 2:
            assert torch.equal(parameter, old), what
        else:
            spread = math.sqrt(2 / parameter.shape[1])
            assert parameter.std().item() == pytest.approx(spread, rel=0.1), what
            assert parameter.abs().max() > 2.5 * spread, what  # normal, not uniform


@pytest.mark.parametrize("name", ["seq", "seq-uni"])
def test_open_gates_start_with_the_bias_alone(name):
    """Of a word and a state of zeros the reset and update gates are sigmoid(bias), and the rest is nothing."""
    view = create_view(name, 5, 6)
    open_gates(view, 1.0)
    hidden = view.network.hidden_size
    for suffix in ["", "_reverse"] if view.network.bidirectional else [""]:
        total = view.network.get_parameter(f"bias_ih_l0{suffix}") + view.network.get_parameter(f"bias_hh_l0{suffix}")
        assert total.tolist() == [1.0] * 2 * hidden + [0.0] * hidden


@pytest.mark.parametrize(
    ("word_init", "bow", "avg"),
    [({}, math.sqrt(6 / 1060), 0.5), ({"word_init": 0.1}, 0.1, 0.1), ({"word_init": 0.0}, *[math.sqrt(6 / 1060)] * 2)],
    ids=["each its own", "a range", "Xavier"],
)
def test_word_vectors_start_in_the_range_that_is_given(word_init, bow, avg):
    channel = Channel(("bow", "avg"), 1000, 60, 60, "pairwise", **word_init)
    for table, expected in zip(channel.tables, (bow, avg), strict=True):
        assert 0.99 * expected < table.weight.abs().max() <= expected


def test_an_lstm_starts_with_the_bias_of_its_forget_gate():
    view = create_view("seq", 5, 6, VIEWS["seq"].Config(cell="lstm"))
    open_gates(view, 1.0)
    for suffix in ["", "_reverse"]:
        total = view.network.get_parameter(f"bias_ih_l0{suffix}") + view.network.get_parameter(f"bias_hh_l0{suffix}")
        assert total.tolist() == [0.0] * 3 + [1.0] * 3 + [0.0] * 6


@pytest.mark.parametrize("name", ["dep-gru", "const-gru"])
def test_a_tree_gru_starts_with_the_bias_of_its_update_and_reset_gates(name):
    """Of a word and states of zeros these gates are sigmoid(bias), and the candidate is nothing."""
    view = create_view(name, 5, 6)
    open_gates(view, 1.0)
    (biases,) = [p for p in view.parameters() if p.dim() < 2]
    assert biases.tolist() == [0.0] * 6 + [1.0] * 12  # n, z and the reset gate


@pytest.mark.parametrize("name", ["dep", "const"])
def test_a_tree_lstm_starts_with_zero_biases(name):
    view = create_view(name, 5, 6)
    open_gates(view, 1.0)
    assert not any(p.any() for p in view.parameters() if p.dim() < 2)


def test_a_channel_starts_as_it_is_told():
    torch.manual_seed(0)
    channel = Channel(("seq", "avg"), 3, 50, 60, "pairwise", initialisation="he", gate_bias=1.0)
    assert channel.views[1].project.weight.std().item() == pytest.approx(math.sqrt(2 / 50), rel=0.1)
    assert channel.views[0].network.bias_ih_l0[:60].tolist() == [1.0] * 60
