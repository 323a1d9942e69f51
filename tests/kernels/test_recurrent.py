"""Our recurrent networks, for training and without a backward pass, against PyTorch's and the plain equations."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence
from trees_for_tests import gum

from structviews.batches.batch import WordIds, collate
from structviews.corpus.sentence import ParsedSentence
from structviews.kernels import recurrent
from structviews.kernels.recurrent import Gru, GruResetBefore, Lstm
from structviews.runtime.arrays import group

X, H = 4, 5
LENGTHS = {
    "one word": [1],
    "equal": [4, 4, 4],
    "mixed": [2, 7, 1, 4, 9, 1, 7, 2, 1],
    # More words than make one product, and more rows in a step than are computed together without gradients.
    "many": [40] * 20 + [25] * 20,
    "many sentences": [5, 3] * recurrent.ROWS,
}
every_kind = pytest.mark.parametrize("kind", [Gru, GruResetBefore, Lstm], ids=["after", "before", "LSTM"])
directions = pytest.mark.parametrize("two", [False, True], ids=["one direction", "two directions"])


def make(lengths, two, dtype=torch.float64, input_dim=X, hidden=H, n_different=6, kind=Gru):
    """A network whose biases differ, vectors of the different words, the words, and the packed order."""
    network = kind.module(input_dim, hidden, bidirectional=two, dtype=dtype)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=hidden**-0.5)
    packing = collate([ParsedSentence(("a",) * length) for length in lengths], {}, ["tokens"]).packing
    numbers = np.random.default_rng(0).integers(0, n_different, sum(lengths))
    ids = WordIds(*map(torch.from_numpy, group(numbers, n_different)))
    vectors = torch.randn(len(ids.distinct), input_dim, dtype=dtype, requires_grad=True)
    return network, vectors, ids, packing


def pytorch(network, vectors, ids, packing):
    outputs, final = network(PackedSequence(vectors[ids.inverse[packing.order]], packing.sizes))
    return outputs.data, final[0] if isinstance(final, tuple) else final


def ours(kind):
    return lambda network, *others: recurrent.run(network, kind, *others)


def next_state(weights, x, h):
    """Of a GRU whose reset gate comes before the product."""
    (w_r, w_z, w_n), (u_r, u_z, u_n), (b_r, b_z, b_n), (c_r, c_z, c_n) = (weight.chunk(3) for weight in weights)
    r = torch.sigmoid(w_r @ x + b_r + u_r @ h + c_r)
    z = torch.sigmoid(w_z @ x + b_z + u_z @ h + c_z)
    n = torch.tanh(w_n @ x + b_n + u_n @ (r * h) + c_n)
    return (1 - z) * n + z * h


def plain(network, vectors, ids, packing):
    """That GRU, which PyTorch lacks, sentence by sentence and word by word."""
    sizes, size = packing.sizes.tolist(), network.hidden_size
    starts = np.cumsum([0, *sizes])[:-1].tolist()  # of each step
    outputs = vectors.new_empty(len(ids), size * (1 + network.bidirectional))
    finals = [[] for _ in network.all_weights]
    for sentence in range(sizes[0]):
        rows = [start + sentence for start, size in zip(starts, sizes, strict=True) if sentence < size]
        words = vectors[ids.inverse[packing.order[rows]]]
        for direction, weights in enumerate(network.all_weights):
            h, states = words.new_zeros(size), []
            for x in words.flip(0) if direction else words:
                h = next_state(weights, x, h)
                states.append(h)
            outputs[rows, direction * size : (direction + 1) * size] = torch.stack(states[:: -1 if direction else 1])
            finals[direction].append(h)
    return outputs, torch.stack([torch.stack(each) for each in finals])


def results_and_gradients(run, network, vectors, ids, packing, of=("states", "final")):
    """States, final states, and the gradients of a weighted sum of those named in ``of``."""
    results = dict(zip(("states", "final"), run(network, vectors, ids, packing), strict=True))
    generator = torch.Generator().manual_seed(2)
    weights = {what: torch.randn(t.shape, generator=generator, dtype=torch.float64) for what, t in results.items()}
    loss = sum((weights[what].to(results[what]) * results[what]).sum() for what in of)
    named = {"vectors": vectors} | dict(network.named_parameters())
    return results | dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


def check(made, run, kind, of=("states", "final")):
    """Both of ours against another."""
    expected, found = (results_and_gradients(each, *made, of) for each in (run, ours(kind)))
    for what, value in found.items():
        torch.testing.assert_close(value, expected[what], rtol=1e-12, atol=1e-12, msg=lambda m, w=what: f"{w}: {m}")
    with torch.no_grad():
        states, final = ours(kind)(*made)
    assert not states.requires_grad
    assert torch.equal(states, found["states"])
    assert torch.equal(final, found["final"])
    check_inference(made, kind, expected, 1e-12)


def check_inference(made, kind, expected, tolerance):
    """Final states ``(B, D H)`` and states ``(n, D H)``, in text order."""
    network, vectors, ids, packing = made
    final, states = recurrent.run_inference(network, kind, vectors, ids, packing, states=True)
    wanted = torch.cat(expected["final"].unbind(0), dim=1)[packing.sentence]
    torch.testing.assert_close(final, wanted, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(states[packing.order], expected["states"], rtol=tolerance, atol=tolerance)


ALONE_AND_BOTH = [("states",), ("final",), ("states", "final")]


@directions
@pytest.mark.parametrize("kind", [Gru, Lstm], ids=["GRU", "LSTM"])
@pytest.mark.parametrize(
    ("lengths", "n_different", "of"),
    [
        *((name, 6, ALONE_AND_BOTH[2]) for name in LENGTHS),
        *(("mixed", n, of) for n in (1, 1000) for of in ALONE_AND_BOTH),
    ],
)
def test_it_is_that_of_pytorch(lengths, n_different, of, kind, two):
    check(make(LENGTHS[lengths], two, n_different=n_different, kind=kind), pytorch, kind, of)


@directions
@pytest.mark.parametrize("of", ALONE_AND_BOTH, ids="+".join)
def test_a_gru_whose_reset_gate_comes_before_is_its_equations(of, two):
    check(make(LENGTHS["mixed"], two, kind=GruResetBefore), plain, GruResetBefore, of)


@directions
@every_kind
def test_gradients_are_those_of_finite_differences(kind, two):
    network, vectors, *others = make([3, 2, 2, 1], two, input_dim=2, hidden=2, kind=kind)
    # The check moves these tensors in place, and the network reads them.
    run, inputs = ours(kind), (vectors, *network.parameters())
    assert torch.autograd.gradcheck(lambda *_: run(network, vectors, *others), inputs)


@directions
@every_kind
def test_half_precision_is_within_one_percent_on_real_lengths(kind, two):
    """Of states and of all gradients, by norm; the state that goes from step to step has single precision."""
    lengths = [len(sentence.tokens) for sentence in gum(50)]
    made = make(lengths, two, torch.float32, input_dim=30, hidden=64, n_different=300, kind=kind)
    exact = results_and_gradients(ours(kind), *made)
    check_inference(made, kind, exact, 1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        half = results_and_gradients(ours(kind), *made)
        final, _ = recurrent.run_inference(made[0], kind, *made[1:], states=False)
    assert half["states"].dtype == torch.bfloat16
    half["inference"] = final
    exact["inference"] = torch.cat(exact["final"].unbind(0), dim=1)[made[3].sentence]
    for what, expected in exact.items():
        if what != "states":
            assert half[what].dtype == torch.float32, what
        error = (half[what] - expected).norm() / expected.norm()
        # An error of zero would mean that nothing was done in half precision.
        assert 1e-5 < error < 0.01, (what, error)


def test_small_changes_of_a_state_add_up_in_half_precision():
    """A thousand steps of a quarter of a percent; rounded to half precision, it would stop half way."""
    network, *others = make([1000], two=False, dtype=torch.float32)
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    nn.init.constant_(network.bias_ih_l0[H : 2 * H], 6.0)
    nn.init.constant_(network.bias_ih_l0[2 * H :], 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        _, final = recurrent.run(network, Gru, *others)
    expected = math.tanh(1) * (1 - (1 + math.exp(-6)) ** -1000)
    torch.testing.assert_close(final, torch.full_like(final, expected), rtol=1e-3, atol=0)


@every_kind
def test_what_is_fixed_gets_no_gradient_and_the_others_theirs(kind):
    network, vectors, *others = make(LENGTHS["mixed"], two=True, kind=kind)
    run = ours(kind)
    run(network, vectors, *others)[1].sum().backward()
    expected = {name: parameter.grad for name, parameter in network.named_parameters()}
    network.zero_grad()
    network.weight_hh_l0.requires_grad_(False)
    run(network, vectors.detach(), *others)[1].sum().backward()
    for name, parameter in network.named_parameters():
        if name == "weight_hh_l0":
            assert parameter.grad is None
        else:
            torch.testing.assert_close(parameter.grad, expected[name], rtol=0, atol=0)


@every_kind
def test_without_a_backward_pass_states_are_on_request_and_changed_weights_prepared_again(kind):
    network, *inputs = make([2, 3], True, kind=kind)
    before, states = recurrent.run_inference(network, kind, *inputs, states=False)
    assert states is None
    with torch.no_grad():
        network.weight_hh_l0.mul_(2)
    changed, _ = recurrent.run_inference(network, kind, *inputs, states=False)
    assert not torch.equal(changed, before)
    assert torch.equal(changed[:, H:], before[:, H:])  # the other direction
