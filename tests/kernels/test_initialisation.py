import math

import pytest
import torch
from components import create_channel, create_objective
from test_cells import CELLS

from structviews.kernels.cells import he, open_gates
from structviews.objectives.objective import Inputs
from structviews.views import VIEWS
from structviews.views.view import create_view


@pytest.mark.parametrize("name", [*CELLS, "seq-uni", "skip-thought"])
def test_gates_start_as_matrices_of_their_own_in_xavier_s_range_and_biases_as_zeros(name):
    if name in CELLS:
        module = CELLS[name][0](40, 30)
    elif name == "seq-uni":
        module = create_view(name, 40, 30)
    else:
        module = create_objective(name, Inputs(("seq",), (30,), 40, n_words=9)).decoders
    for what, parameter in module.named_parameters():
        if parameter.dim() < 2:
            assert not parameter.any(), what
        else:
            limit = math.sqrt(6 / (30 + parameter.shape[1]))
            for gate in parameter.split(30):
                assert 0.95 * limit < gate.abs().max() <= limit, what


@pytest.mark.parametrize("name", ["avg", "seq", "dep", "dep-rel", "const", "dep-gru", "const-gru"])
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


@pytest.mark.parametrize(
    ("name", "settings", "gates"),
    [
        ("seq", {}, [1, 1, 0]),  # r, z, n
        ("seq", {"cell": "lstm"}, [0, 1, 0, 0]),  # i, f, g, o
        ("dep-gru", {}, [0, 1, 1]),  # n, z and the reset gate
        ("const-gru", {}, [0, 1, 1]),
        ("dep", {}, None),
    ],
)
def test_the_gates_that_start_with_a_bias(name, settings, gates):
    """Of a word and states of zeros these are sigmoid(bias), and the rest is nothing."""
    view = create_view(name, 5, 6, VIEWS[name].Config(**settings))
    open_gates(view, 1.0)
    biases = {name: parameter for name, parameter in view.named_parameters() if parameter.dim() < 2}
    if name.startswith("seq"):  # of two biases of a gate one is set
        names = [each for each in biases if "bias_ih" in each]
        totals = [biases[each] + biases[each.replace("bias_ih", "bias_hh")] for each in names]
        assert len(totals) == 2  # directions
    else:
        totals = list(biases.values())
    for total in totals:
        assert total.tolist() == [float(gate) for gate in gates or [0] for _ in range(len(total) // len(gates or [0]))]


@pytest.mark.parametrize(
    ("word_init", "bow", "avg"),
    [({}, math.sqrt(6 / 1060), 0.5), ({"word_init": 0.1}, 0.1, 0.1), ({"word_init": 0.0}, *[math.sqrt(6 / 1060)] * 2)],
    ids=["each its own", "a range", "Xavier"],
)
def test_word_vectors_start_in_the_range_that_is_given(word_init, bow, avg):
    channel = create_channel(("bow", "avg"), 1000, 60, 60, **word_init)
    for table, expected in zip(channel.tables, (bow, avg), strict=True):
        assert 0.99 * expected < table.weight.abs().max() <= expected


def test_a_channel_starts_as_it_is_told():
    channel = create_channel(("seq", "avg"), 3, 50, 60, initialisation="he", gate_bias=1.0)
    assert channel.views[1].project.weight.std().item() == pytest.approx(math.sqrt(2 / 50), rel=0.1)
    assert channel.views[0].network.bias_ih_l0[:60].tolist() == [1.0] * 60
