"""The recurrent networks that keep nothing, against PyTorch's, the plain equations and those for training."""

from functools import partial

import pytest
import torch
from test_recurrent import H, X, directions, every_kind, make, ours, plain, pytorch
from torch import nn
from trees_for_tests import gum

from structviews.kernels import recurrent_inference
from structviews.kernels.recurrent import Gru, Lstm

LENGTHS = {"one word": [1], "words": [1, 1, 1], "equal": [4, 4, 4], "mixed": [2, 7, 1, 4, 9, 1, 7, 2, 1]}
# More rows than are computed together.
LENGTHS["many"] = [5, 3] * recurrent_inference.ROWS


def both(run, lengths, two, n_different, dtype=torch.float64, kind=Gru, **sizes):
    """Final states ``(B, D H)`` and states ``(n, D H)`` in text order: of ``run``, and of the kernel."""
    network, vectors, ids, packing = make(lengths, two, dtype, n_different=n_different, kind=kind, **sizes)
    with torch.no_grad():
        outputs, final = run(network, vectors, ids, packing)
        states = torch.empty_like(outputs).index_copy(0, packing.order, outputs)
        expected = torch.cat(final.unbind(0), dim=1)[packing.sentence], states
        return expected, recurrent_inference.run(network, kind, vectors, ids, packing, states=True)


@directions
@pytest.mark.parametrize("kind", [Gru, Lstm], ids=["GRU", "LSTM"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_it_is_that_of_pytorch(lengths, kind, two):
    expected, found = both(pytorch, lengths, two, 6, kind=kind)
    for value, right in zip(found, expected, strict=True):
        torch.testing.assert_close(value, right, rtol=1e-12, atol=1e-12)


@directions
@every_kind
@pytest.mark.parametrize("n_different", [1, 1000])
def test_it_is_the_plain_equations(n_different, kind, two):
    expected, found = both(partial(plain, kind), LENGTHS["mixed"], two, n_different, kind=kind)
    for value, right in zip(found, expected, strict=True):
        torch.testing.assert_close(value, right, rtol=1e-12, atol=1e-12)


@directions
@every_kind
def test_single_precision_is_that_of_training(kind, two):
    lengths = [len(sentence.tokens) for sentence in gum(50)]
    expected, found = both(ours(kind), lengths, two, 30, torch.float32, kind, input_dim=30, hidden=64)
    for value, right in zip(found, expected, strict=True):
        torch.testing.assert_close(value, right, rtol=1e-5, atol=1e-5)


@directions
@every_kind
def test_half_precision_is_close_on_real_lengths(kind, two):
    lengths = [len(sentence.tokens) for sentence in gum(50)]
    made = make(lengths, two, torch.float32, input_dim=30, hidden=64, n_different=300, kind=kind)
    network, inputs = made[0], made[1:]
    with torch.autocast("cpu", torch.bfloat16):
        half, _ = recurrent_inference.run(network, kind, *inputs)
    expected, _ = recurrent_inference.run(network, kind, *inputs)
    assert half.dtype == torch.float32
    error = (half - expected).norm() / expected.norm()
    # An error of zero would mean that nothing was done in half precision.
    assert 1e-5 < error < 0.01, error


@every_kind
def test_states_are_only_kept_on_request(kind):
    network, *inputs = make([2, 3], True, kind=kind)
    final, states = recurrent_inference.run(network, kind, *inputs)
    assert states is None
    assert final.shape == (2, 2 * H)


def test_several_layers_are_refused():
    with pytest.raises(ValueError, match="a network with 2 layers: only one"):
        recurrent_inference.run(nn.GRU(X, H, num_layers=2), Gru, *make([1], two=False, dtype=torch.float32)[1:])


@every_kind
def test_changed_weights_are_prepared_again(kind):
    network, *inputs = make([2, 3], True, kind=kind)
    before, _ = recurrent_inference.run(network, kind, *inputs)
    with torch.no_grad():
        network.weight_hh_l0.mul_(2)
    changed, _ = recurrent_inference.run(network, kind, *inputs)
    assert not torch.equal(changed, before)
    assert torch.equal(changed[:, H:], before[:, H:])  # the other direction
